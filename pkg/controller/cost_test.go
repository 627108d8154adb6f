package controller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// What the framework costs each of ten resources in each pass stays below ten allocations, all middleware included.
// make bench-framework measures the time as well.
func TestAllocations(t *testing.T) {
	const resources = 10
	pass := passOver(t, resources)
	if each := testing.AllocsPerRun(1000, pass) / resources; each >= 10 {
		t.Errorf("got %g allocations for each resource", each)
	}
}

// BenchmarkPass measures a pass that has nothing to write: the read of the object, and resources that do nothing.
func BenchmarkPass(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprintf("resources=%d", n), func(b *testing.B) {
			pass := passOver(b, n)
			b.ReportAllocs()
			for b.Loop() {
				pass()
			}
		})
	}
}

// passOver returns a pass over n resources.
func passOver(t testing.TB, n int) func() {
	reader := cache{obj: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "cm", UID: "1", ResourceVersion: "1", Finalizers: []string{controller.Finalizer("cost")},
	}}}
	rs := slices.Repeat([]resource.Interface{noop{}}, n)
	reg := prometheus.NewRegistry()
	c, err := controller.New(controller.Config[*corev1.ConfigMap]{
		Name: "cost", Client: reader, Metrics: controller.NewMetrics(reg),
		Resources: resource.Wrap(rs, middleware.Logging(nil), middleware.NewMetrics(reg, nil).Middleware("cost"), middleware.Retry(nil, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := reconcile.AsReconciler(reader, c)
	ctx := log.IntoContext(t.Context(), logr.New(quiet{}))
	return func() {
		if _, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(reader.obj)}); err != nil {
			t.Fatal(err)
		}
	}
}

type noop struct{}

func (noop) EnsureCreated(context.Context, any) error { return nil }
func (noop) EnsureDeleted(context.Context, any) error { return nil }
func (noop) Name() string                             { return "noop" }

// cache answers reads as an informer's does: with a copy of what it holds.
type cache struct {
	client.Client // never asked for anything else
	obj           *corev1.ConfigMap
}

func (c cache) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.obj.DeepCopyInto(into.(*corev1.ConfigMap))
	return nil
}

func (c cache) Scheme() *runtime.Scheme { return clientgoscheme.Scheme }

// quiet is a logger at its default level, whose lines nobody reads. It keeps values as any logger has to.
type quiet []any

func (quiet) Init(logr.RuntimeInfo)               {}
func (quiet) Enabled(level int) bool              { return level == 0 }
func (quiet) Info(int, string, ...any)            {}
func (quiet) Error(error, string, ...any)         {}
func (q quiet) WithValues(kv ...any) logr.LogSink { return append(slices.Clip(q), kv...) }
func (q quiet) WithName(string) logr.LogSink      { return q }
