// Package controller reconciles objects of one kind by an ordered slice of resources.
//
// It is a controller-runtime reconciler that keeps operatorkit's promises: the slice runs in its order, a finalizer
// makes sure that what was created is deleted, an annotation pauses an object, resources written for operatorkit run
// unchanged. What flows through the slice is decided per object and pass:
//
//	paused? -> finalizer -> Prepare -> slice, once per scope -> Report -> status -> finalizer off, if all is deleted
//
// Prepare reads the object and returns a Plan: the scopes to ensure and those to delete. The slice runs once for
// each scope, the scopes side by side, forwards to ensure and backwards to delete. A scope that fails does not hold
// back the others. Report writes what became of them into the status. Both may be left out: then the slice runs once,
// and resources work on the object itself.
//
//	err := controller.Add(mgr, controller.Config[*v1.Database]{
//		Name:      "database",
//		Resources: resource.Wrap(slice, middleware.Logging(nil), middleware.Retry(nil, nil)),
//		Workers:   16,
//		Resync:    10 * time.Minute,
//		Metrics:   controller.NewMetrics(registry),
//	})
//
// # What happens next
//
// A resource returns one error, whose resource.Outcome says what comes next. In short: nil goes on, a
// resource.RequeueAfter comes back later, a reconcile.TerminalError waits for the object to change, everything else
// goes back to the queue with a growing delay for this object alone. A conflict of the API server is no failure: the pass
// is repeated at once. A panic fails its object and not the process. A pass that is interrupted, because the process
// stops or the lease is lost, is neither: whoever works next makes it anew.
//
// # Deletion
//
// The finalizer is on the object before anything is created, and goes when the slice ran backwards without an error, for
// every scope of the plan. Until then deletion is retried as everything else is. Resources therefore meet what is there,
// what is half there, and what is gone, and take each for granted.
//
// # What can be seen
//
// Events tell of a deletion that waits for pause, of a pause annotation that does not pause, of a missing permission, and
// of every microerror.Error with Kind and Desc, once for each change. Metrics has the metrics. Lines of the log have
// controller, object and loop; middleware.Logging adds the resource.
//
// Nothing here exits the process, handles signals, or writes a global: registry, recorder, logger (the manager's) and
// clock are handed in. Package controllertest tests resources and whole slices in a table.
package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Plan is the work of one pass over one object.
type Plan struct {
	// Ensure holds the scopes for which the slice runs forwards.
	Ensure []any
	// Delete holds the scopes for which the slice runs backwards.
	Delete []any
	// RequeueAfter is the time after which the object must be looked at again at the latest, whatever becomes of
	// this pass. Zero or less: no such time.
	RequeueAfter time.Duration
	// Release says that the object is not this controller's: its finalizers go, and nothing else happens.
	Release bool
}

// Config says what a Controller works on and how. Name, Client and Resources are required; Add knows the Client.
type Config[T client.Object] struct {
	// Name names the finalizer (see Finalizer), the queue, metrics and log lines. It is unique in the process, and
	// in the cluster among those that put a finalizer on the same objects.
	Name string
	// Client reads objects (from its cache, if it has one) and patches finalizers and status.
	Client client.Client
	// Resources is the slice, in the order of creation. Runs for several scopes share the object, and must not
	// change it.
	Resources []resource.Interface

	// Prepare plans a pass. It may change the object in the API server, but then must leave obj as the server
	// answered; what it writes in obj.Status alone is stored at the end of the pass. The object may come from a
	// cache that does not show the last writes of others yet, so that writes which depend on what was read need an
	// optimistic lock.
	//
	// A deleted object (it has a deletion time stamp) is prepared too, and what its plan does not delete is not undone:
	// derive that first, from data that cannot be wrong. Its error stands for the whole object: Report gets one Result
	// without a scope, and the outcome decides what comes next; a deletion waits for as long. nil plans one run without a
	// scope: forwards, or backwards for a deleted object.
	Prepare func(ctx context.Context, obj T) (Plan, error)
	// Report writes the results, in the order of the plan, into obj.Status, which is patched if that changed it. It is
	// called in every pass that got as far as Prepare, with no result where the plan was empty. Not reported are
	// passes that release an object or only prepare it (see DeleteOnly), that were interrupted, and that met a
	// conflict, because they are repeated at once. The patch replaces lists as a whole, conditions among them: a list that
	// Report writes is no resource's to write as well. nil: no status.
	Report func(obj T, results []resource.Result)
	// Paused writes into obj.Status whether the object is paused: with true in a pass over a paused object, of which
	// it is the only part; with false before Report. nil: pause does not show in the status.
	Paused func(obj T, paused bool)
	// Notify is called after a change of the status was stored, with the object before and after: the place for
	// events that are sent once for each change.
	Notify func(before, after T)

	// Pause holds further annotations, each with the one value that pauses. operatorkit's two are built in:
	// operatorkit.giantswarm.io/paused and cluster.x-k8s.io/paused, "true".
	Pause map[string]string
	// Selector says which objects are ours, by their labels. nil: all.
	Selector labels.Selector
	// Namespaces says in which namespaces objects are ours. Empty: in all. What the manager's cache watches is the
	// cache's own setting (cache.Options, DefaultNamespaces), and so are the rights that it takes.
	Namespaces []string
	// Finalizers holds further finalizers that this controller serves: an object that carries one is cleaned up as
	// with our own, and they are removed together. They are never added.
	Finalizers []string
	// DeleteInOrder runs the slice forwards to delete as well. It is for slices that come from operatorkit and rely on its
	// order: those with a first resource that finds out what the others need, in a deletion too.
	DeleteInOrder bool
	// DeleteOnly controllers handle deletion alone: a live object gets no finalizer and no run of the slice. One
	// that carries a finalizer of ours is prepared all the same, so that Prepare may release it.
	DeleteOnly bool

	// Workers is how many objects are reconciled at a time. Default 1.
	Workers int
	// Resync is the time after which an object is reconciled again without a reason, spread by up to a fifth to both
	// sides. It is what finds drift outside the cluster, and what brings back an object after a terminal error, a raised
	// signal, or a RequeueAfter without a time. Zero: none of that; on events only. operatorkit's default is 5 minutes.
	Resync time.Duration
	// MaxBackoff limits the delay after failures, which starts at half a second and doubles. Default one minute.
	MaxBackoff time.Duration
	// Timeout limits a pass. Default two minutes. Patches of status and finalizers have ten seconds of their own, so
	// that an expired pass can still say why.
	Timeout time.Duration
	// Stopping is closed when the process is asked to stop, before the manager's context ends: running passes then
	// have Grace (default 20 seconds) to finish, and no new one starts. When the manager's context ends without it,
	// the lease is lost and running passes are cancelled at once.
	Stopping <-chan struct{}
	// Grace is the time that running passes have to finish after Stopping. It is shorter than the manager's
	// GracefulShutdownTimeout.
	Grace time.Duration

	// Predicates filter events of the objects themselves; all of them must let an event pass. Events that change
	// whether an object is paused or deleted pass always.
	Predicates []predicate.Predicate
	// Watch adds watches on other objects, owned or related.
	Watch func(*builder.Builder)

	// Clock tells the time. Default: the real one.
	Clock clock.PassiveClock
	// NewQueue makes the queue. nil: controller-runtime's own, whose delays are real.
	NewQueue NewQueue
	// Metrics is shared by the controllers of a process. Default: one that nobody sees.
	Metrics *Metrics
	// Recorder sends events (events.k8s.io). nil: none.
	Recorder events.EventRecorder
}

// Controller reconciles the objects of one kind. It is made by New.
type Controller[T client.Object] struct {
	cfg        Config[T]
	kind       string
	finalizers []string // our own first
	backwards  []resource.Interface
	queue      *limiter
	heart      *heart
	loops      atomic.Int64
	queued     sync.Map // reconcile.Request to the loop that its pass will be

	mu      sync.Mutex
	records map[types.NamespacedName]*record
	changes map[types.NamespacedName]time.Time // of objects in the queue
}

var _ reconcile.ObjectReconciler[client.Object] = (*Controller[client.Object])(nil)

// Finalizer returns the finalizer of the controller of that name. It is the one that operatorkit would use.
func Finalizer(name string) string { return "operatorkit.giantswarm.io/" + name }

// New returns a controller of the objects of type T, a pointer to a struct. It fails if the configuration is
// incomplete, or if the client's scheme does not know T.
func New[T client.Object](cfg Config[T]) (*Controller[T], error) {
	if errs := validation.IsQualifiedName(Finalizer(cfg.Name)); len(errs) > 0 {
		return nil, fmt.Errorf("check name %q: %s", cfg.Name, strings.Join(errs, ", "))
	}
	if cfg.Client == nil {
		return nil, fmt.Errorf("set up controller %s: no client", cfg.Name)
	}
	if len(cfg.Resources) == 0 {
		return nil, fmt.Errorf("set up controller %s: no resources", cfg.Name)
	}
	gvk, err := apiutil.GVKForObject(newObject[T](), cfg.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("set up controller %s: %w", cfg.Name, err)
	}

	cfg.Pause = pauseAnnotations(cfg.Pause)
	if cfg.Selector == nil {
		cfg.Selector = labels.Everything()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	cfg.Workers = defaulted(cfg.Workers, 1)
	cfg.MaxBackoff = defaulted(cfg.MaxBackoff, time.Minute)
	cfg.Timeout = defaulted(cfg.Timeout, 2*time.Minute)
	cfg.Grace = defaulted(cfg.Grace, defaultGrace)
	cfg.Metrics.announce(cfg.Name)
	backwards := slices.Clone(cfg.Resources)
	slices.Reverse(backwards)

	// A pass has a time limit, and up to three patches of status and finalizers have one of their own.
	limit := cfg.Timeout + 3*patchTimeout
	return &Controller[T]{
		cfg:        cfg,
		kind:       gvk.Kind,
		finalizers: slices.Concat([]string{Finalizer(cfg.Name)}, cfg.Finalizers),
		backwards:  backwards,
		queue:      newLimiter(cfg.MaxBackoff),
		heart:      newHeart(cfg.Clock, limit, cfg.Metrics.beat(cfg.Name)),
		records:    map[types.NamespacedName]*record{},
		changes:    map[types.NamespacedName]time.Time{},
	}, nil
}

// Add makes a controller and adds it to the manager. Client and Recorder are the manager's where cfg leaves them out.
func Add[T client.Object](mgr manager.Manager, cfg Config[T]) error {
	if cfg.Client == nil {
		cfg.Client = mgr.GetClient()
	}
	if cfg.Recorder == nil {
		cfg.Recorder = mgr.GetEventRecorder(cfg.Name)
	}
	c, err := New(cfg)
	if err != nil {
		return err
	}
	return c.SetupWithManager(mgr)
}

// SetupWithManager adds the controller to the manager, whose logger it uses. It runs on the leader only.
func (c *Controller[T]) SetupWithManager(mgr manager.Manager) error {
	b := builder.ControllerManagedBy(mgr).Named(c.cfg.Name).
		For(newObject[T](), builder.WithPredicates(c.predicate())).
		WatchesRawSource(pulses{c.heart.tick}).
		WithOptions(c.options(mgr.GetLogger()))
	if c.cfg.Watch != nil {
		c.cfg.Watch(b)
	}
	if err := b.Complete(reconcile.Func(c.reconcile)); err != nil {
		return fmt.Errorf("set up controller %s: %w", c.cfg.Name, err)
	}
	return nil
}

func (c *Controller[T]) options(logger logr.Logger) crcontroller.Options {
	return crcontroller.Options{
		MaxConcurrentReconciles: c.cfg.Workers,
		RateLimiter:             c.queue,
		NewQueue:                c.cfg.NewQueue,
		LogConstructor: func(req *reconcile.Request) logr.Logger {
			logger := logger.WithValues("controller", c.cfg.Name)
			if req == nil || *req == pulse {
				return logger
			}
			// The line that controller-runtime writes about an error belongs to a loop as well.
			loop := c.newLoop()
			c.queued.Store(*req, loop)
			return logger.WithValues("object", req.String(), "loop", loop)
		},
	}
}

// newLoop numbers a pass.
func (c *Controller[T]) newLoop() string { return strconv.FormatInt(c.loops.Add(1), 10) }

// isOurs tells whether the controller works on an object.
func (c *Controller[T]) isOurs(obj client.Object) bool {
	return c.cfg.Selector.Matches(labels.Set(obj.GetLabels())) &&
		(len(c.cfg.Namespaces) == 0 || slices.Contains(c.cfg.Namespaces, obj.GetNamespace()))
}

// predicate lets those events pass that may make a difference, and notes when they happened. Where the label is gone
// that made an object ours, the event passes too, so that the controller forgets the object.
func (c *Controller[T]) predicate() predicate.Predicate {
	wanted := predicate.And(c.cfg.Predicates...)
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			if !c.isOurs(e.Object) || !wanted.Create(e) {
				return false
			}
			if !e.IsInInitialList { // else it may have been there for years
				c.noteChange(e.Object, e.Object.GetCreationTimestamp().Time)
			}
			return true
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return c.isOurs(e.Object) },
		GenericFunc: func(e event.GenericEvent) bool { return c.isOurs(e.Object) && wanted.Generic(e) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			if !c.isOurs(e.ObjectNew) {
				return c.isOurs(e.ObjectOld)
			}
			if c.isOwnMark(e.ObjectOld, e.ObjectNew) {
				return false
			}
			passes := wanted.Update(e) ||
				e.ObjectNew.GetDeletionTimestamp() != nil && e.ObjectOld.GetDeletionTimestamp() == nil ||
				c.pausedBy(e.ObjectNew) != c.pausedBy(e.ObjectOld)
			if passes && e.ObjectNew.GetResourceVersion() != e.ObjectOld.GetResourceVersion() {
				c.noteChange(e.ObjectNew, changeOf(e.ObjectOld, e.ObjectNew))
			}
			return passes
		},
	}
}

func newObject[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

func defaulted[N int | time.Duration](n, fallback N) N {
	if n <= 0 {
		return fallback
	}
	return n
}
