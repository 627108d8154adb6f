package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/service"
)

// name is that of the controllers, and the namespace of objects in memory.
const name = "bench-framework"

// newLogger returns the operator's logger, at the operator's default level.
func newLogger() logr.Logger { return service.NewLogger(io.Discard, "info") }

// framework is a controller of Secrets.
type framework = controller.Controller[*corev1.Secret]

// newFramework makes a controller of the resources, with all middleware, and the registry of their metrics. More feeds its queue, too.
func newFramework(c client.Client, rs []resource.Interface, workers int, more ...source.Source) (*framework, *prometheus.Registry, error) {
	reg := prometheus.NewRegistry()
	measure := middleware.NewMetrics(reg, nil)
	f, err := controller.New(controller.Config[*corev1.Secret]{
		Name: name, Client: c, Metrics: controller.NewMetrics(reg), Workers: workers,
		Resources: resource.Wrap(rs, middleware.Logging(nil), measure.Middleware(name), middleware.Retry(nil, nil)),
		Watch: func(b *builder.Builder) {
			for _, s := range more {
				b.WatchesRawSource(s)
			}
		},
	})
	return f, reg, err
}

// bare is a reconciler without the framework.
type bare []resource.Interface

// Reconcile calls the resources.
func (rs bare) Reconcile(ctx context.Context, obj *corev1.Secret) (reconcile.Result, error) {
	for _, r := range rs {
		if err := r.EnsureCreated(ctx, obj); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}

// noop is a resource that does nothing.
type noop struct{}

func (noop) EnsureCreated(context.Context, any) error { return nil }
func (noop) EnsureDeleted(context.Context, any) error { return nil }
func (noop) Name() string                             { return "noop" }

// cache answers reads as a cache does, with a copy of what it holds. Objects of all names look the same.
type cache struct {
	client.Client // never asked for anything else
	obj           *corev1.Secret
}

func newCache() cache {
	return cache{obj: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		UID: "1", ResourceVersion: "1", Generation: 1, CreationTimestamp: metav1.Now(), Finalizers: []string{controller.Finalizer(name)},
	}}}
}

// Get copies the object.
func (c cache) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.obj.DeepCopyInto(into.(*corev1.Secret))
	into.SetNamespace(key.Namespace)
	into.SetName(key.Name)
	return nil
}

// Scheme knows Secrets.
func (c cache) Scheme() *kuberuntime.Scheme { return clientgoscheme.Scheme }

// requests returns n requests for different objects.
func requests(n int) []reconcile.Request {
	out := make([]reconcile.Request, n)
	for i := range out {
		out[i].NamespacedName = types.NamespacedName{Namespace: name, Name: fmt.Sprintf("object-%06d", i)}
	}
	return out
}

// driver has each of the requests reconciled once.
type driver func(context.Context, []reconcile.Request) error

// contest is bare and framework with the same resources, driven in the same way.
type contest struct{ bare, framework driver }

// measureOverhead lets bare and framework take turns, so that both get their share of what else goes on in the machine.
func (b *bench) measureOverhead(ctx context.Context) ([]overhead, error) {
	ctx, cancel := context.WithCancel(log.IntoContext(ctx, newLogger()))
	defer b.running.Wait()
	defer cancel()

	var out []overhead
	for _, way := range []struct {
		driven     string
		newContest func(ctx context.Context, resources int) (contest, error)
	}{{"directly", direct}, {"by the queue", b.queued}} {
		one, err := way.newContest(ctx, 1)
		if err != nil {
			return nil, err
		}
		all, err := way.newContest(ctx, b.resources)
		if err != nil {
			return nil, err
		}
		rounds := make([]round, b.rounds+1)
		for i := range rounds {
			if i > 0 {
				b.say("Measuring passes driven %s, round %d of %d.", way.driven, i, b.rounds)
			}
			if rounds[i].one, err = one.measure(ctx, requests(b.passes)); err != nil {
				return nil, err
			}
			if rounds[i].all, err = all.measure(ctx, requests(b.passes)); err != nil {
				return nil, err
			}
		}
		out = append(out, newOverhead(way.driven, b.resources, rounds[1:])) // the first one was to warm up
	}
	return out, nil
}

func (c contest) measure(ctx context.Context, rs []reconcile.Request) (p pair, err error) {
	if p.bare, err = measure(ctx, c.bare, rs); err != nil {
		return p, fmt.Errorf("run the bare reconciler: %w", err)
	}
	if p.framework, err = measure(ctx, c.framework, rs); err != nil {
		return p, fmt.Errorf("run the framework: %w", err)
	}
	return p, nil
}

// measure returns what a pass costs on average.
func measure(ctx context.Context, drive driver, rs []reconcile.Request) (cost, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := drive(ctx, rs)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	n := float64(len(rs))
	return cost{
		Microseconds: float64(took.Nanoseconds()) / 1000 / n,
		Allocations:  float64(after.Mallocs-before.Mallocs) / n,
		Bytes:        float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, err
}

// direct calls the reconcilers.
func direct(_ context.Context, resources int) (contest, error) {
	rs := slices.Repeat([]resource.Interface{noop{}}, resources)
	reader := newCache()
	f, _, err := newFramework(reader, rs, 1)
	call := func(r reconcile.ObjectReconciler[*corev1.Secret]) driver {
		whole := reconcile.AsReconciler(reader, r)
		return func(ctx context.Context, requests []reconcile.Request) error {
			for _, req := range requests {
				result, err := whole.Reconcile(ctx, req)
				if err == nil && !result.IsZero() {
					err = errors.New("the pass wants to be repeated")
				}
				if err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		}
	}
	return contest{bare: call(bare(rs)), framework: call(f)}, err
}
