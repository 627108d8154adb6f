package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// How often a service that cannot be used is looked at again.
const (
	notRunningWait = 15 * time.Second
	poweredOffWait = 5 * time.Minute
	absentWait     = 5 * time.Minute // its object is watched
)

// InstanceKinds are the kinds of the objects that stand for instances.
var InstanceKinds = map[binding.Kind]schema.GroupVersionKind{
	binding.OpenSearch: {Group: "aiven.io", Version: "v1alpha1", Kind: "OpenSearch"},
	binding.Valkey:     {Group: "aiven.io", Version: "v1alpha1", Kind: "Valkey"},
}

// Instance is an empty object of a kind of instance.
func Instance(kind binding.Kind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(InstanceKinds[kind])
	return u
}

// locator finds the service that a binding is about.
type locator struct {
	client client.Reader
	aiven  Aiven
	kafka  sync.Map // project -> aiven.Ref of its Kafka service
}

// locate finds a binding's service, and makes sure that it may be used: an instance has to exist, running, in the application's namespace.
// The binding's Ref is completed.
func (l *locator) locate(ctx context.Context, b *binding.Binding, namespace string) (*aiven.Service, error) {
	if b.Kind == binding.Kafka {
		service, err := l.kafkaService(ctx, b.Ref.Project)
		if errors.Is(err, aiven.ErrNotFound) {
			return nil, binding.Waiting(binding.ReasonInstanceNotFound, absentWait, "project %s has no Kafka service", b.Ref.Project)
		}
		if err != nil {
			return nil, err
		}
		b.Ref = service.Ref
		return service, l.usable(service)
	}
	name, state, err := l.instance(ctx, b.Kind, namespace, b.Instance)
	if err != nil {
		return nil, err
	}
	b.Ref.Service = name
	switch state {
	case aiven.StateRunning, aiven.StateRebalancing: // maintenance, during which it serves
	case aiven.StatePowerOff:
		return nil, binding.Waiting(binding.ReasonPoweredOff, poweredOffWait, "%s %s is powered off", b.Kind, name)
	default:
		return nil, binding.Waiting(binding.ReasonWaiting, absentWait, "%s %s is not running yet, but %q", b.Kind, name, state)
	}
	service, err := l.aiven.Service(ctx, b.Ref)
	if err != nil {
		return nil, err
	}
	return service, l.usable(service)
}

// usable tells why a service cannot be worked with now.
func (l *locator) usable(s *aiven.Service) error {
	switch {
	case s.State == aiven.StatePowerOff:
		l.aiven.Invalidate(s.Ref)
		return binding.Waiting(binding.ReasonPoweredOff, poweredOffWait, "service %s is powered off", s.Service)
	case !s.Usable():
		l.aiven.Invalidate(s.Ref)
		return binding.Waiting(binding.ReasonWaiting, notRunningWait, "service %s is %s", s.Service, s.State)
	case len(s.Components) == 0:
		l.aiven.Invalidate(s.Ref)
		return binding.Waiting(binding.ReasonWaiting, notRunningWait, "service %s has no addresses yet", s.Service)
	}
	return nil
}

// kafkaService reads the Kafka service of a project, under the first of its possible names.
func (l *locator) kafkaService(ctx context.Context, project string) (*aiven.Service, error) {
	if ref, ok := l.kafka.Load(project); ok {
		service, err := l.aiven.Service(ctx, ref.(aiven.Ref))
		if !isGone(err) {
			return service, err
		}
		l.kafka.Delete(project)
	}
	var last error
	for _, name := range key.KafkaServices(project) {
		service, err := l.aiven.Service(ctx, aiven.Ref{Project: project, Service: name})
		if err == nil {
			l.kafka.Store(project, service.Ref)
			return service, nil
		}
		if !errors.Is(err, aiven.ErrNotFound) {
			return nil, err
		}
		last = err
	}
	return nil, last
}

// complete finds the Kafka service of a recorded user, whose name no annotation holds. If there is none any more, neither are its users, and the
// binding's service stays empty.
func (l *locator) complete(ctx context.Context, b *binding.Binding) {
	if b.Kind != binding.Kafka || b.Ref.Service != "" {
		return
	}
	service, err := l.kafkaService(ctx, b.Ref.Project)
	switch {
	case err == nil:
		b.Ref = service.Ref
	case !isGone(err):
		b.Err = err
	}
}

// UserIndex is the field under which the cache finds the applications whose status records a user, and the Secrets whose annotations do.
const UserIndex = "keysmith.user"

// Users lists what an application or a Secret records, for UserIndex.
func Users(obj client.Object) []string {
	var users []string
	switch o := obj.(type) {
	case *v1.AivenApplication:
		for _, r := range o.Status.Bindings {
			if r.Username != "" {
				users = append(users, userKey(fromRecord(r)))
			}
		}
	case *corev1.Secret:
		for _, b := range binding.FromSecret(o) {
			users = append(users, userKey(b))
		}
	}
	return users
}

func userKey(b *binding.Binding) string {
	return string(b.Kind) + "/" + b.Ref.Project + "/" + b.Username
}

// foreign tells whether a user that an application's status records is rather somebody else's: the status of another application records it too, and
// this one's Secret does not hold the password that the user has now, which is what the rival cannot know.
func (l *locator) foreign(ctx context.Context, b *binding.Binding, namespace, application, secret string) (bool, error) {
	if !l.taken(ctx, b, namespace, application) {
		return false, nil
	}
	s := &corev1.Secret{}
	if err := l.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secret}, s); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("read Secret %s: %w", secret, err)
	}
	at := *b
	if l.complete(ctx, &at); at.Err != nil {
		return false, at.Err
	}
	if at.Ref.Service == "" {
		return true, nil
	}
	service, err := l.aiven.Service(ctx, at.Ref)
	if isGone(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	user, ok := service.User(b.Username)
	if user.Redacted {
		return false, fmt.Errorf("tell whose user %s of %s is, which two applications record: %w", b.Username, at.Ref.Service, aiven.ErrUnauthorized)
	}
	return !ok || user.Password == "" || b.Password(s) != user.Password, nil
}

// taken tells whether the status of another application records a user. Its name does not always tell whose it is: OpenSearch users are named
// after the namespace alone, and Kafka users after parts of names and a checksum that somebody can choose a name to fit.
func (l *locator) taken(ctx context.Context, b *binding.Binding, namespace, application string) bool {
	var apps v1.AivenApplicationList
	if err := l.client.List(ctx, &apps, client.MatchingFields{UserIndex: userKey(b)}, client.UnsafeDisableDeepCopy); err != nil {
		return true // the cache is not there
	}
	return slices.ContainsFunc(apps.Items, func(a v1.AivenApplication) bool {
		return (a.Namespace != namespace || a.Name != application) && records(a.Status.Bindings, b)
	})
}

// published tells whether a Secret of a namespace records a user, whatever became of the user: its certificate in that Secret would be valid again if the name
// were used again.
func (l *locator) published(ctx context.Context, b *binding.Binding, namespace string) bool {
	var secrets corev1.SecretList
	err := l.client.List(ctx, &secrets, client.InNamespace(namespace), client.MatchingFields{UserIndex: userKey(b)}, client.UnsafeDisableDeepCopy)
	return err != nil || len(secrets.Items) > 0 // an error: the cache is not there
}

// namespaces returns what lists the names of all namespaces that the cache has. It looks once, and only if it is called: most passes need none.
func (l *locator) namespaces(ctx context.Context) func() []string {
	return sync.OnceValue(func() []string {
		var list corev1.NamespaceList
		if err := l.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache is not there: a mistake that every test would see
		}
		names := make([]string, len(list.Items))
		for i := range list.Items {
			names[i] = list.Items[i].Name
		}
		return names
	})
}

// instance finds the object that stands for an instance, under the first of its possible names, and the state that it shows.
func (l *locator) instance(ctx context.Context, kind binding.Kind, namespace, instance string) (service, running string, err error) {
	names := key.InstanceServices(string(kind), namespace, instance)
	for _, name := range names {
		obj := Instance(kind)
		err := l.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
		if apierrors.IsNotFound(err) {
			continue
		}
		if meta.IsNoMatchError(err) {
			return "", "", binding.Waiting(binding.ReasonInstanceNotFound, absentWait,
				"the cluster has no %s of %s: they come with Aiven's operator", obj.GetKind(), obj.GroupVersionKind().Group)
		}
		if err != nil {
			return "", "", fmt.Errorf("read %s %s: %w", obj.GetKind(), name, err)
		}
		return name, state(obj), nil
	}
	return "", "", binding.Waiting(binding.ReasonInstanceNotFound, absentWait,
		"namespace %s has no %s named %s or %s", namespace, InstanceKinds[kind].Kind, names[0], names[1])
}
