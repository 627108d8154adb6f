package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// The tests reconcile Services, whose status has conditions and is written apart from the rest.
const (
	theName      = "test"
	theFinalizer = "operatorkit.giantswarm.io/test"
)

var theKey = types.NamespacedName{Namespace: "ns", Name: "svc"}

// service returns the object of the tests, changed by the given functions.
func service(changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: theKey.Namespace, Name: theKey.Name, UID: "1"}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func finalizers(names ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, names...) }
}

func deleted(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) }

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

var errBoom = errors.New("boom")

// bed is a controller on a fake API server, and all that can be seen of it from within: its queue, its memory, its
// heart. What can be seen from outside is tested with the kit, controllertest.
type bed struct {
	client     client.WithWatch
	controller *Controller[*corev1.Service]
	recorder   *events.FakeRecorder
	registry   *prometheus.Registry

	mu    sync.Mutex
	calls []string // of resources
	lines []string // of the log
}

// newBed starts with the given object, if it is not nil.
func newBed(t *testing.T, obj *corev1.Service, configure func(*bed, *Config[*corev1.Service])) *bed {
	t.Helper()
	b := &bed{recorder: events.NewFakeRecorder(100), registry: prometheus.NewRegistry()}
	builder := fake.NewClientBuilder().WithStatusSubresource(&corev1.Service{})
	if obj != nil {
		builder = builder.WithObjects(obj)
	}
	b.client = builder.Build()
	cfg := Config[*corev1.Service]{
		Name: theName, Recorder: b.recorder, Metrics: NewMetrics(b.registry),
		Resources: []resource.Interface{b.step("a", nil), b.step("b", nil)},
		Client:    b.client,
	}
	if configure != nil {
		configure(b, &cfg)
	}
	var err error
	if b.controller, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) note(call string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
}

// pass lets the controller reconcile the object once, as its queue would.
func (b *bed) pass(ctx context.Context) (reconcile.Result, error) {
	logger := funcr.New(func(_, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, args)
	}, funcr.Options{Verbosity: 1})
	return b.controller.reconcile(log.IntoContext(ctx, logger), reconcile.Request{NamespacedName: theKey})
}

// mustPass fails the test if the pass does.
func (b *bed) mustPass(t *testing.T) reconcile.Result {
	t.Helper()
	result, err := b.pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// object returns the object as it is in the API server, nil if it is gone.
func (b *bed) object(t *testing.T) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	err := b.client.Get(t.Context(), theKey, s)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return s
}

// update changes the object in the API server, as another client.
func (b *bed) update(t *testing.T, change func(*corev1.Service)) {
	t.Helper()
	s := b.object(t)
	change(s)
	if err := b.client.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// events returns the events since the last call.
func (b *bed) events() []string {
	var all []string
	for {
		select {
		case e := <-b.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// errorLines returns the lines that were logged at error level.
func (b *bed) errorLines() []string {
	var all []string
	for _, line := range b.lines {
		if strings.Contains(line, `"error"=`) {
			all = append(all, line)
		}
	}
	return all
}

// metrics returns the values of counters and gauges, and the counts of histograms, by name and labels.
func (b *bed) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			name := fmt.Sprintf("%s{%s}", strings.TrimPrefix(family.GetName(), "operatorkit_controller_"), strings.Join(labels, ","))
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// step returns a resource that notes its calls and then does f.
func (b *bed) step(name string, f func(ctx context.Context, op resource.Operation) error) resource.Interface {
	return step{name: name, f: func(ctx context.Context, op resource.Operation) error {
		b.note(string(op) + " " + name)
		if f == nil {
			return nil
		}
		return f(ctx, op)
	}}
}

type step struct {
	name string
	f    func(ctx context.Context, op resource.Operation) error
}

func (s step) EnsureCreated(ctx context.Context, _ any) error { return s.f(ctx, resource.Create) }
func (s step) EnsureDeleted(ctx context.Context, _ any) error { return s.f(ctx, resource.Delete) }
func (s step) Name() string                                   { return s.name }
