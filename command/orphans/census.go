package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/command"
	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// application is one that is there, or that something still tells of.
type application struct{ Namespace, Name string }

// record is a place in the cluster that has a user.
type record struct {
	kind  binding.Kind
	ref   aiven.Ref // without a service where the place does not know it
	where string
}

// census is what the cluster knows: whom it records, and which namespaces and applications there are.
type census struct {
	cluster     string // identity of the cluster at Aiven
	namespaces  []string
	byNamespace map[string][]application
	byName      map[string][]application
	byStem      map[string][]application // key.KafkaStem
	records     map[string][]record      // by username

	applications, secrets, earlier int
	// named counts the names in statuses that this cluster's identity makes, of all that tell what they were derived with. It shows a wrong identity.
	named, derived int
}

// takeCensus reads all namespaces. A right that is missing ends it: what cannot be seen may be what records a user. It has to begin after Aiven was read.
//
// The operator records a user in the status of its application before it makes it, later in the Secret too, and forgets it after it is gone. So a user that was
// seen at Aiven is found here, if it is recorded at all: in a status, or in a Secret, which is read later because records move that way; and in a status again,
// because one that was lost is restored from the Secret.
func takeCensus(ctx context.Context, cluster client.Reader, identity string, gone []application) (*census, error) {
	c := &census{
		cluster: identity, byNamespace: map[string][]application{}, byName: map[string][]application{}, byStem: map[string][]application{},
		records: map[string][]record{},
	}
	err := command.Each(ctx, cluster, &corev1.NamespaceList{}, func(o client.Object) {
		c.namespaces = append(c.namespaces, o.GetName())
		if identity == "" && o.GetName() == metav1.NamespaceSystem {
			c.cluster = string(o.GetUID())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read all namespaces: %w", command.Say(err))
	}
	for _, a := range gone {
		c.know(a)
	}
	if err := c.readApplications(ctx, cluster); err != nil {
		return nil, err
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := command.Each(ctx, cluster, secrets, c.secret); err != nil {
		return nil, fmt.Errorf("read the Secrets of all namespaces: %w", command.Say(err))
	}
	return c, c.readApplications(ctx, cluster)
}

func (c *census) readApplications(ctx context.Context, cluster client.Reader) error {
	c.applications, c.named, c.derived = 0, 0, 0
	err := command.Each(ctx, cluster, &v1.AivenApplicationList{}, func(o client.Object) {
		if app, ok := o.(*v1.AivenApplication); ok {
			c.application(app)
		}
	})
	if apierrors.IsNotFound(err) {
		return errors.New("this cluster does not know AivenApplications: is it the right one, and is keysmith installed?")
	}
	if err != nil {
		return fmt.Errorf("read the applications of all namespaces: %w", command.Say(err))
	}
	return nil
}

func (c *census) application(app *v1.AivenApplication) {
	c.applications++
	c.know(application{app.Namespace, app.Name})
	for _, r := range app.Status.Bindings {
		if r.Username == "" {
			continue
		}
		b := &binding.Binding{Kind: binding.Kind(r.Kind), Ref: aiven.Ref{Project: r.Project, Service: r.Service}}
		c.add(r.Username, record{kind: b.Kind, ref: b.Ref, where: "the status of application " + app.Namespace + "/" + app.Name})
		if r.Service == "" {
			continue
		}
		c.named++
		id := key.Identity{Cluster: c.cluster, Namespace: app.Namespace, Application: app.Name, Project: r.Project, Service: r.Service, Attempt: r.Attempt}
		if b.Kind == binding.Kafka && id.Kafka() == r.Username || b.Kind != binding.Kafka && id.Made(r.Username) {
			c.derived++
		}
	}
}

func (c *census) secret(o client.Object) {
	m, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	s := &corev1.Secret{ObjectMeta: m.ObjectMeta}
	recorded := binding.FromSecret(s)
	owner := binding.Owner(s)
	if owner != "" {
		c.know(application{s.Namespace, owner})
	}
	if len(recorded) == 0 {
		return
	}
	c.secrets++
	if _, signed := s.Annotations[key.AnnotationOwner]; !signed {
		c.earlier++
	}
	for _, b := range recorded {
		c.add(b.Username, record{kind: b.Kind, ref: b.Ref, where: "Secret " + s.Namespace + "/" + s.Name})
	}
}

func (c *census) know(a application) {
	if slices.Contains(c.byNamespace[a.Namespace], a) {
		return
	}
	c.byNamespace[a.Namespace] = append(c.byNamespace[a.Namespace], a)
	c.byName[a.Name] = append(c.byName[a.Name], a)
	stem := key.KafkaStem(a.Namespace, a.Name)
	c.byStem[stem] = append(c.byStem[stem], a)
}

func (c *census) add(username string, r record) {
	if !slices.Contains(c.records[username], r) {
		c.records[username] = append(c.records[username], r)
	}
}

// recorder says what records a user, "" if nothing does. Whoever records it counts, also a copy of a Secret: what is recorded is never called an orphan.
func (c *census) recorder(kind binding.Kind, ref aiven.Ref, username string) string {
	for _, r := range c.records[username] {
		if r.kind == kind && r.ref.Project == ref.Project && (kind == binding.Kafka || r.ref.Service == "" || r.ref.Service == ref.Service) {
			return r.where
		}
	}
	return ""
}

// suspicion says why this may not be the cluster, or not its identity, that made what is at Aiven; "" if nothing speaks against it. With another cluster's
// identity, all users that are in use there look like orphans.
func (c *census) suspicion() string {
	switch {
	case c.derived > 0:
		return ""
	case c.named == 0:
		return "no application of this cluster has a user: is it the right cluster?"
	default:
		return fmt.Sprintf("none of the %d users that applications have bears a name that a cluster called %q makes: is that --cluster-name the operator's, or were "+
			"all of them taken over from the earlier operator?", c.named, c.cluster)
	}
}
