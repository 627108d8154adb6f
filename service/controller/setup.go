package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/resource/janitor"
)

// InstanceIndex is the field under which the cache finds the applications of a namespace that name an instance.
const InstanceIndex = "keysmith.instance"

// maxCleanupDelay is how long after Aiven's return a deletion that failed is tried again, at the latest: namespaces and people wait for it.
const maxCleanupDelay = 10 * time.Second

// Options are what both controllers are made of.
type Options struct {
	Client   client.Client // reads come from the cache
	Server   client.Reader // reads come from the API server
	Aiven    Aiven
	Slice    []resource.Interface // wrapped in middleware
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	Registry prometheus.Registerer
	Metrics  *controller.Metrics
	Settings binding.Settings
	Janitor  func()         // asks for a round of the janitor
	Kinds    []binding.Kind // kinds of instances that the API server knows
	// Elected is closed once this process leads.
	Elected <-chan struct{}

	Workers  int
	Resync   time.Duration
	Stopping <-chan struct{}
	NewQueue controller.NewQueue // nil: that of controller-runtime
}

// New makes the controllers of applications and of Secrets.
func New(o Options) (*controller.Controller[*v1.AivenApplication], *controller.Controller[*corev1.Secret], error) {
	where := &locator{client: o.Client, aiven: o.Aiven}
	app := &Application{
		client: o.Client, server: o.Server, locator: where, events: o.Events, clock: o.Clock,
		settings: o.Settings, janitor: o.Janitor, metrics: newMetrics(o.Registry, o.Clock),
	}
	applications, err := controller.New(controller.Config[*v1.AivenApplication]{
		Name: ApplicationName, Client: o.Client, Resources: o.Slice,
		Prepare: app.Prepare, Report: app.Report, Paused: app.Paused, Notify: app.Notify,
		Finalizers: []string{key.FinalizerAivenator},
		Workers:    o.Workers, Resync: o.Resync, Stopping: o.Stopping,
		Predicates: []predicate.Predicate{applicationChanged()},
		Watch: func(b *builder.Builder) {
			b.Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(app.owners), builder.WithPredicates(secretChanged()))
			for _, kind := range o.Kinds {
				b.Watches(Instance(kind), handler.EnqueueRequestsFromMapFunc(app.users), builder.WithPredicates(stateChanged()))
			}
		},
		Clock: o.Clock, NewQueue: o.NewQueue, Metrics: o.Metrics, Recorder: o.Events,
	})
	if err != nil {
		return nil, nil, err
	}
	secret := &Secret{
		client: o.Client, locator: where, events: o.Events, settings: o.Settings,
		incomplete: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "keysmith_cleanup_incomplete_total",
			Help: "Secrets that went although what they recorded of their users was incomplete: users that may be left at Aiven.",
		}),
	}
	from := cached{o.Client, o.Elected}
	o.Registry.MustRegister(secret.incomplete, census{from}, &expiry{cached: from}, &rotations{from, o.Clock})
	secrets, err := controller.New(controller.Config[*corev1.Secret]{
		Name: SecretName, Client: o.Client, Resources: o.Slice,
		Prepare: secret.Prepare, Report: secret.Report,
		Selector:   labels.SelectorFromSet(labels.Set{key.LabelType: key.TypeAivenator}),
		Finalizers: []string{key.FinalizerAivenator}, DeleteOnly: true,
		Workers: o.Workers, Stopping: o.Stopping, MaxBackoff: maxCleanupDelay,
		Clock: o.Clock, NewQueue: o.NewQueue, Metrics: o.Metrics, Recorder: o.Events,
	})
	if err != nil {
		return nil, nil, err
	}
	return applications, secrets, nil
}

// applicationChanged passes what can make a difference to an application. Status writes are mostly our own; emptying the
// synchronisation hash is how a person asks for a full synchronisation.
func applicationChanged() predicate.Predicate {
	forced := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*v1.AivenApplication)
		after, ok2 := e.ObjectNew.(*v1.AivenApplication)
		return ok1 && ok2 && before.Status.SynchronizationHash != "" && after.Status.SynchronizationHash == ""
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}, forced)
}

// secretChanged passes edits and the end of a Secret. Applications are looked at anyway when the operator starts, and after they
// made a Secret themselves.
func secretChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// stateChanged passes what can make an instance usable or not.
func stateChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*unstructured.Unstructured)
		after, ok2 := e.ObjectNew.(*unstructured.Unstructured)
		return !ok1 || !ok2 || state(before) != state(after)
	}}
}

// owners are the applications that a Secret concerns: the one it belongs to, and those that ask for one of its name. The annotation and
// the labels may have been taken away by the edit that is to be repaired, so that each will do.
func (a *Application) owners(ctx context.Context, obj client.Object) []reconcile.Request {
	name := key.OwnedBy(obj.GetAnnotations()[key.AnnotationOwner], obj.GetNamespace(), obj.GetName())
	requests := a.indexed(ctx, obj, janitor.SecretIndex)
	owner := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: cmp.Or(name, obj.GetLabels()[key.LabelApp])}}
	if owner.Name != "" && !slices.Contains(requests, owner) {
		requests = append(requests, owner)
	}
	return requests
}

// users are the applications that name an instance.
func (a *Application) users(ctx context.Context, obj client.Object) []reconcile.Request {
	return a.indexed(ctx, obj, InstanceIndex)
}

// indexed are the applications that refer to an object of their namespace, by an index of the cache.
func (a *Application) indexed(ctx context.Context, obj client.Object, index string) []reconcile.Request {
	var apps v1.AivenApplicationList
	err := a.client.List(ctx, &apps, client.InNamespace(obj.GetNamespace()), client.MatchingFields{index: obj.GetName()},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil // the cache has no such index: a mistake that every test would see
	}
	var out []reconcile.Request
	for _, app := range apps.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&app)})
	}
	return out
}

// Instances lists the names that the objects of an application's instances may have, for InstanceIndex.
func Instances(obj client.Object) []string {
	app, ok := obj.(*v1.AivenApplication)
	if !ok {
		return nil
	}
	names := map[string]bool{}
	add := func(kind binding.Kind, instance string) {
		for _, name := range key.InstanceServices(string(kind), app.Namespace, instance) {
			names[name] = true
		}
	}
	if app.Spec.OpenSearch != nil {
		add(binding.OpenSearch, app.Spec.OpenSearch.Instance)
	}
	for _, v := range app.Spec.Valkey {
		add(binding.Valkey, v.Instance)
	}
	return slices.Sorted(maps.Keys(names))
}

// StripInstance reduces the object of an instance, as it enters the cache, to its name and state.
func StripInstance(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	slim := &unstructured.Unstructured{Object: map[string]any{}}
	slim.SetAPIVersion(u.GetAPIVersion())
	slim.SetKind(u.GetKind())
	slim.SetNamespace(u.GetNamespace())
	slim.SetName(u.GetName())
	slim.SetUID(u.GetUID())
	slim.SetResourceVersion(u.GetResourceVersion())
	return slim, unstructured.SetNestedField(slim.Object, state(u), "status", "state")
}

func state(u *unstructured.Unstructured) string {
	s, _, _ := unstructured.NestedString(u.Object, "status", "state")
	return s
}
