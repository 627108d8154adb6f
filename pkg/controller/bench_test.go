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

// BenchmarkPass measures a pass that has nothing to write: the read of the object, and resources that do nothing. What
// the framework adds is the difference to the same resources in a loop, which are the bare ones.
func BenchmarkPass(b *testing.B) {
	reader := cache{obj: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "cm", UID: "1", ResourceVersion: "1", Finalizers: []string{controller.Finalizer("bench")},
	}}}
	for _, n := range []int{1, 10} {
		rs := make([]resource.Interface, n)
		for i := range rs {
			rs[i] = noop{}
		}
		reg := prometheus.NewRegistry()
		framework, err := controller.New(controller.Config[*corev1.ConfigMap]{
			Name: "bench", Client: reader, Metrics: controller.NewMetrics(reg),
			Resources: resource.Wrap(rs, middleware.Logging(nil), middleware.NewMetrics(reg, nil).Middleware("bench"), middleware.Retry(nil, nil)),
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("resources=%d/framework", n), func(b *testing.B) { benchmarkPass(b, reader, framework) })
		b.Run(fmt.Sprintf("resources=%d/bare", n), func(b *testing.B) { benchmarkPass(b, reader, bare(rs)) })
	}
}

func benchmarkPass(b *testing.B, reader client.Client, rec reconcile.ObjectReconciler[*corev1.ConfigMap]) {
	r := reconcile.AsReconciler(reader, rec)
	req := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "cm"}}
	ctx := log.IntoContext(b.Context(), logr.New(quiet{}))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Reconcile(ctx, req); err != nil {
			b.Fatal(err)
		}
	}
}

// bare is a reconciler without the framework.
type bare []resource.Interface

func (rs bare) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (reconcile.Result, error) {
	for _, r := range rs {
		if err := r.EnsureCreated(ctx, cm); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
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
