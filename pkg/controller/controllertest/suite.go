// Package controllertest tests resources, and whole slices of them, in a table: given objects and calls that fail, expect
// outcome, events, finalizers, status and objects.
//
//	func TestHost(t *testing.T) {
//		controllertest.Suite[*corev1.ConfigMap]{
//			Config: func(b *controllertest.Bed) controller.Config[*corev1.ConfigMap] {
//				return controller.Config[*corev1.ConfigMap]{
//					Name:      "host",
//					Resources: []resource.Interface{resource.Adapt(host.New(b.Client), resource.Object[*corev1.ConfigMap])},
//				}
//			},
//		}.Run(t, map[string]controllertest.Case[*corev1.ConfigMap]{
//			"waits for the host's name": {
//				Object: configMap(),
//				Want:   controllertest.Want{Outcome: resource.Waiting, After: 10 * time.Second},
//			},
//			"keeps the finalizer as long as the Service cannot be deleted": {
//				Object: configMap(), Deleted: true,
//				Calls:  []controllertest.Call{{Verb: "delete", Object: &corev1.Service{}, Err: errors.New("boom")}},
//				Want:   controllertest.Want{Outcome: resource.Failed, Error: "boom"},
//			},
//		})
//	}
//
// What differs from case to case, such as a fake of the world outside, Case.Configure sets up; what others do between two
// passes, or right before a call, Case.Meanwhile and Call.Before do.
//
// A resource alone is a slice of one. The controller is the real one, on controller-runtime's fake client, and time stands
// still at Now unless the test moves it. What the fake client cannot show (watches, the queue, admission, what others write
// at the same time) is for tests with a real API server.
package controllertest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Now is the time at which each case begins.
var Now = time.Date(2026, time.January, 2, 15, 4, 5, 0, time.UTC)

// Suite is what the cases of a table have in common.
type Suite[T client.Object] struct {
	// Config makes the controller under test, for each case anew. Client, Clock, Metrics and Recorder are those of the
	// bed where it leaves them out, the name is "test". Resync is left aside: what is seen is what one pass asks for.
	Config func(b *Bed) controller.Config[T]
	// Scheme knows the types of all objects. nil: those of client-go.
	Scheme *runtime.Scheme
	// Server changes the fake API server before it is built, for instance to add indexes. The status of T is a
	// subresource already, if T has one. nil: nothing.
	Server func(*fake.ClientBuilder)
	// Status returns what cases compare with Want.Status. nil: the field Status of the object.
	Status func(T) any
}

// Case is one row of the table.
type Case[T client.Object] struct {
	// Object is what is reconciled, as it is in the API server before.
	Object T
	// Deleted says that somebody deleted it: it has a deletion time stamp, and the controller's finalizer.
	Deleted bool
	// Given are the other objects in the API server.
	Given []client.Object
	// Plan takes the place of Config.Prepare, to test resources with scopes that the case gives. nil: it does not.
	Plan *controller.Plan
	// Configure changes the controller under test for this case alone. nil: nothing.
	Configure func(b *Bed, cfg *controller.Config[T])
	// Calls say what happens at calls to the API server. It is an error if one of them never happens.
	Calls []Call
	// Passes is how often the object is reconciled, if it is there. Default: once, and once more after each of Meanwhile.
	// Want is about the end.
	Passes int
	// Meanwhile happens between the passes, the first after the first pass: what others do, or time that passes.
	Meanwhile []func(b *Bed) error
	// Want is what must hold at the end.
	Want Want
}

// Want is what must hold after the last pass. What is left out stands for the usual, as it says, and is checked too.
type Want struct {
	// Outcome of the pass: the worst of its results. Default done.
	Outcome resource.Outcome
	// After is when the object is to be reconciled again. Default: at its next event, or when the queue says.
	After time.Duration
	// Error is a part of the text of what went wrong, or of what is waited for. Default: any text.
	Error string
	// Events of all passes, as "Warning Reason note". Default none.
	Events []string
	// Finalizers of the object. Default: those that it was given, and the controller's.
	Finalizers []string
	// Gone says that the object is there no more. Default: it is.
	Gone bool
	// Status is what Suite.Status returns for the object. Default: the same as before.
	Status any
	// Journal of all passes, see Bed.Note. Default: not checked; none: an empty list that is not nil.
	Journal []string
	// Objects are in the API server like this, apart from metadata that the server sets. Of a deletion time stamp only
	// counts whether there is one. Default: not checked.
	Objects []client.Object
	// Absent are not in the API server. Default: not checked.
	Absent []client.Object
	// Check looks at anything else. Default: nothing.
	Check func(b *Bed)
}

// Run runs each case as a subtest of that name, in the order of the names.
func (s Suite[T]) Run(t *testing.T, cases map[string]Case[T]) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			s.run(t, cases[name])
		})
	}
}

func (s Suite[T]) run(t testing.TB, c Case[T]) {
	t.Helper()
	b := s.bed(t, c)
	cfg := s.config(b, c)
	var results []resource.Result // of the last pass, nil if it did not come that far
	report := cfg.Report
	cfg.Report = func(obj T, rs []resource.Result) {
		results = rs
		switch {
		case report != nil:
			report(obj, rs)
		case cfg.Paused == nil:
			b.dropStatus(obj)
		}
	}
	under, err := controller.New(cfg)
	if err != nil {
		t.Fatal(err)
	}

	finalizers := c.Object.GetFinalizers()
	if own := controller.Finalizer(cfg.Name); !slices.Contains(finalizers, own) {
		finalizers = append(slices.Clone(finalizers), own)
	}
	if c.Deleted {
		b.delete(c.Object, finalizers)
	}
	before := get(b, c.Object)
	if c.Want.Finalizers == nil {
		c.Want.Finalizers = finalizers
	}
	if c.Want.Status == nil {
		c.Want.Status = s.status(before)
	}

	var got passed
	for i := range max(1+len(c.Meanwhile), c.Passes) {
		if i > 0 && i <= len(c.Meanwhile) {
			if err := c.Meanwhile[i-1](b); err != nil {
				t.Errorf("after pass %d: %v", i, err)
			}
		}
		obj := get(b, c.Object)
		if isNil(obj) {
			continue
		}
		results = nil
		result, err := under.Reconcile(log.IntoContext(t.Context(), b.logger()), obj)
		got = passOf(result, err, results)
	}
	s.check(b, c, got)
}

// bed returns the surroundings of a case.
func (s Suite[T]) bed(t testing.TB, c Case[T]) *Bed {
	t.Helper()
	scheme := cmp.Or(s.Scheme, clientgoscheme.Scheme)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(copies(c.Object)...).WithObjects(copies(c.Given...)...)
	if _, ok := statusField(c.Object); ok {
		builder = builder.WithStatusSubresource(c.Object)
	}
	if s.Server != nil {
		s.Server(builder)
	}
	b := &Bed{
		T: t, Server: builder.Build(), Clock: clocktesting.NewFakePassiveClock(Now),
		Registry: prometheus.NewRegistry(), Recorder: &Recorder{},
	}
	b.Client = b.intercept(c.Calls)
	return b
}

func (s Suite[T]) config(b *Bed, c Case[T]) controller.Config[T] {
	cfg := s.Config(b)
	if c.Configure != nil {
		c.Configure(b, &cfg)
	}
	cfg.Name = cmp.Or(cfg.Name, "test")
	cfg.Resync = 0
	if cfg.Client == nil {
		cfg.Client = b.Client
	}
	if cfg.Clock == nil {
		cfg.Clock = b.Clock
	}
	if cfg.Recorder == nil {
		cfg.Recorder = b.Recorder
	}
	if cfg.Metrics == nil {
		cfg.Metrics = controller.NewMetrics(b.Registry)
	}
	if c.Plan != nil {
		cfg.Prepare = func(context.Context, T) (controller.Plan, error) { return *c.Plan, nil }
	}
	return cfg
}

// passed is what a pass came to.
type passed struct {
	outcome resource.Outcome
	after   time.Duration
	text    string
}

// passOf takes the results where they were reported; a pass that was not says in its own result how it ended.
func passOf(result reconcile.Result, err error, results []resource.Result) passed {
	errs := []error{err}
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	all := errors.Join(errs...)
	p := passed{outcome: resource.OutcomeOf(all), after: result.RequeueAfter}
	if all != nil {
		p.text = all.Error()
	}
	if p.outcome == resource.Done && result.RequeueAfter > 0 && results == nil {
		p.outcome = resource.Waiting
	}
	return p
}

func (s Suite[T]) check(b *Bed, c Case[T], got passed) {
	b.T.Helper()
	want := c.Want
	if outcome := cmp.Or(want.Outcome, resource.Done); got.outcome != outcome {
		b.T.Errorf("outcome: got %s (%s), want %s", got.outcome, got.text, outcome)
	}
	if got.after != want.After {
		b.T.Errorf("next pass: got after %s, want %s", got.after, want.After)
	}
	if !strings.Contains(got.text, want.Error) {
		b.T.Errorf("error: got %q, want a text with %q", got.text, want.Error)
	}
	if diff := gocmp.Diff(want.Events, b.Recorder.Events(), cmpopts.EquateEmpty()); diff != "" {
		b.T.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(want.Journal, b.Journal(), cmpopts.EquateEmpty()); want.Journal != nil && diff != "" {
		b.T.Errorf("journal (-want +got):\n%s", diff)
	}
	obj := get(b, c.Object)
	switch {
	case isNil(obj) && !want.Gone:
		b.T.Error("object: it is gone")
	case !isNil(obj) && want.Gone:
		b.T.Errorf("object: it is still there, with finalizers %q", obj.GetFinalizers())
	case !isNil(obj):
		if diff := gocmp.Diff(want.Finalizers, obj.GetFinalizers(), cmpopts.EquateEmpty()); diff != "" {
			b.T.Errorf("finalizers (-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff(want.Status, s.status(obj)); diff != "" {
			b.T.Errorf("status (-want +got):\n%s", diff)
		}
	}
	for _, o := range want.Objects {
		b.checkObject(o)
	}
	for _, o := range want.Absent {
		if found := get(b, o); !isNil(found) {
			b.T.Errorf("object %T %s: it is there", o, client.ObjectKeyFromObject(o))
		}
	}
	b.checkCalls()
	if want.Check != nil {
		want.Check(b)
	}
}

func (s Suite[T]) status(obj T) any {
	if isNil(obj) {
		return nil
	}
	if s.Status != nil {
		return s.Status(obj)
	}
	if field, ok := statusField(obj); ok {
		return field.Interface()
	}
	return nil
}

func statusField(obj client.Object) (reflect.Value, bool) {
	field := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Status")
	return field, field.IsValid()
}

// dropStatus takes back what was written into the status of an object but not stored: a controller without Report does
// not store it either, and only has one here so that results are seen.
func (b *Bed) dropStatus(obj client.Object) {
	b.T.Helper()
	field, ok := statusField(obj)
	if stored := get(b, obj); ok && !isNil(stored) {
		as, _ := statusField(stored)
		field.Set(as)
	}
}

// get returns the object as it is in the API server now, nil if it is not there.
func get[T client.Object](b *Bed, like T) T {
	b.T.Helper()
	var none T
	obj := newLike(like)
	err := b.Server.Get(context.WithoutCancel(b.T.Context()), client.ObjectKeyFromObject(like), obj)
	switch {
	case apierrors.IsNotFound(err):
		return none
	case err != nil:
		b.T.Fatalf("read %T %s: %v", like, client.ObjectKeyFromObject(like), err)
	}
	return obj
}

// checkObject compares an object with that of the API server, apart from what the server sets.
func (b *Bed) checkObject(want client.Object) {
	b.T.Helper()
	got := get(b, want)
	if isNil(got) {
		b.T.Errorf("object %T %s: it is not there", want, client.ObjectKeyFromObject(want))
		return
	}
	if diff := gocmp.Diff(withoutServerMetadata(want), withoutServerMetadata(got)); diff != "" {
		b.T.Errorf("object %T %s (-want +got):\n%s", want, client.ObjectKeyFromObject(want), diff)
	}
}

func withoutServerMetadata(obj client.Object) client.Object {
	obj = obj.DeepCopyObject().(client.Object)
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	obj.SetResourceVersion("")
	obj.SetUID("")
	obj.SetGeneration(0)
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetManagedFields(nil)
	if obj.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(&metav1.Time{})
	}
	return obj
}

func newLike[T client.Object](like T) T {
	return reflect.New(reflect.TypeOf(like).Elem()).Interface().(T)
}

func copies[T client.Object](objs ...T) []client.Object {
	out := make([]client.Object, len(objs))
	for i, obj := range objs {
		out[i] = obj.DeepCopyObject().(client.Object)
	}
	return out
}

func isNil(obj client.Object) bool { return obj == nil || reflect.ValueOf(obj).IsNil() }
