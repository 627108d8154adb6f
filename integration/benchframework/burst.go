package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// cleanupTime is how long the removal of a burst's objects may take.
const cleanupTime = 2 * time.Minute

// measureBurst has the same objects made so with many workers, and with one.
func (b *bench) measureBurst(ctx context.Context) (*burst, error) {
	run, place := b.inMemory, "memory"
	if path := os.Getenv(env.Kubeconfig); path != "" {
		cluster, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", env.Kubeconfig, err)
		}
		cluster.QPS = -1
		place = "cluster"
		run = func(ctx context.Context, workers int) (time.Duration, error) {
			return b.onCluster(ctx, cluster, workers)
		}
	} else {
		b.say("%s is not set: the burst's objects are in memory, and finalizers cost nothing.", env.Kubeconfig)
	}
	var took [2]time.Duration
	for i, workers := range []int{b.workers, 1} {
		least := b.takes * time.Duration(b.objects*b.resources/workers)
		b.say("Running a burst of %d objects, number of workers: %d. It takes %s at least.", b.objects, workers, least.Round(100*time.Millisecond))
		patience := 3*least + time.Minute
		limited, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not done after %s", patience))
		var err error
		took[i], err = run(limited, workers)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("run with workers=%d: %w", workers, err)
		}
	}
	return newBurst(place, b.objects, b.takes, b.workers, took[1], took[0]), nil
}

// inMemory runs a burst without a cluster, and returns how long it took.
func (b *bench) inMemory(ctx context.Context, workers int) (time.Duration, error) {
	objects := requests(b.objects)
	builder := fake.NewClientBuilder()
	for _, o := range objects {
		builder.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}})
	}
	c := builder.Build()
	mgr, err := newManager(c)
	if err != nil {
		return 0, fmt.Errorf("make a manager: %w", err)
	}
	took, reg, err := b.run(ctx, mgr, workers, source.Func(
		func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			for _, o := range objects {
				queue.Add(o)
			}
			return nil
		}))
	if err != nil {
		return 0, err
	}
	return took, b.verify(ctx, c, name, reg)
}

// onCluster runs a burst in a namespace of its own, and returns how long it took from the moment at which the caches were filled.
func (b *bench) onCluster(ctx context.Context, cluster *rest.Config, workers int) (took time.Duration, err error) {
	c, err := client.New(cluster, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return 0, fmt.Errorf("connect to the cluster of %s: %w", env.Kubeconfig, err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
	if err := c.Create(ctx, ns); err != nil {
		return 0, fmt.Errorf("create a namespace: %w", err)
	}
	defer func() { err = errors.Join(err, b.remove(c, ns)) }()
	err = b.each(func(object string) error {
		return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: object}})
	})
	if err != nil {
		return 0, fmt.Errorf("create objects: %w", err)
	}
	options := managerOptions()
	options.Cache.DefaultNamespaces = map[string]crcache.Config{ns.Name: {}}
	mgr, err := ctrl.NewManager(cluster, options)
	if err != nil {
		return 0, fmt.Errorf("make a manager: %w", err)
	}
	took, reg, err := b.run(ctx, mgr, workers)
	if err != nil {
		return 0, err
	}
	return took, b.verify(ctx, c, ns.Name, reg)
}

// run runs a manager until all objects are done: those that it watches, and those of more.
func (b *bench) run(ctx context.Context, mgr manager.Manager, workers int, more ...source.Source) (time.Duration, *prometheus.Registry, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer b.running.Wait()
	defer cancel(nil)
	done := b.newTally()
	f, reg, err := newFramework(mgr.GetClient(), b.slice(done), workers, more...)
	if err != nil {
		return 0, nil, err
	}
	if err := f.SetupWithManager(mgr); err != nil {
		return 0, nil, err
	}
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Secret{}); err != nil { // so that there is something to wait for
		return 0, nil, fmt.Errorf("watch Secrets: %w", err)
	}
	b.running.Go(func() { cancel(mgr.Start(ctx)) })
	mgr.GetCache().WaitForCacheSync(ctx)
	start := time.Now()
	select {
	case <-done.all:
		return time.Since(start), reg, nil
	case <-ctx.Done():
		return 0, nil, context.Cause(ctx)
	}
}

// remove removes a namespace. Its objects may have finalizers, for which nobody is at work any more.
func (b *bench) remove(c client.Client, ns *corev1.Namespace) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	err := b.each(func(object string) error {
		letGo := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		return client.IgnoreNotFound(c.Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: object}}, letGo))
	})
	if err := errors.Join(err, c.Delete(ctx, ns)); err != nil {
		return fmt.Errorf("remove namespace %s: %w", ns.Name, err)
	}
	return nil
}

// each calls f with the name of each object, for some side by side.
func (b *bench) each(f func(object string) error) error {
	const abreast = 8
	var errs [abreast]error
	var wg sync.WaitGroup
	objects := requests(b.objects)
	for n := range abreast {
		wg.Go(func() {
			for i := n; i < len(objects) && errs[n] == nil; i += abreast {
				errs[n] = f(objects[i].Name)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// verify makes sure that every object has its finalizer, and that no pass failed on the way.
func (b *bench) verify(ctx context.Context, c client.Client, namespace string, reg prometheus.Gatherer) error {
	var list corev1.SecretList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list the objects: %w", err)
	}
	n := 0
	for _, o := range list.Items {
		if slices.Contains(o.Finalizers, controller.Finalizer(name)) {
			n++
		}
	}
	if n != b.objects {
		return fmt.Errorf("check finalizers: %d of %d objects have one", n, b.objects)
	}
	families, err := reg.Gather()
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	for _, f := range families {
		if f.GetName() != "operatorkit_controller_errors_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if failed := m.GetCounter().GetValue(); failed > 0 {
				return fmt.Errorf("check errors: %.0f passes failed", failed)
			}
		}
	}
	return nil
}

// slice returns resources that take their time, the last of which counts.
func (b *bench) slice(done *tally) []resource.Interface {
	rs := make([]resource.Interface, b.resources)
	for i := range rs {
		s := step{name: fmt.Sprintf("step-%d", i+1), takes: b.takes}
		if i == len(rs)-1 {
			s.done = done
		}
		rs[i] = resource.Adapt(s, resource.Object[*corev1.Secret])
	}
	return rs
}

type step struct {
	name  string
	takes time.Duration
	done  *tally // nil except for the last one
}

// EnsureCreated takes its time.
func (s step) EnsureCreated(ctx context.Context, obj *corev1.Secret) error {
	timer := time.NewTimer(s.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.done != nil {
		s.done.add(obj.Name)
	}
	return nil
}

// EnsureDeleted has nothing to do.
func (s step) EnsureDeleted(context.Context, *corev1.Secret) error { return nil }

// Name is "step-" and a number.
func (s step) Name() string { return s.name }

// tally knows which objects are done.
type tally struct {
	*bench
	start time.Time
	all   chan struct{} // closed when all are

	mu    sync.Mutex
	names map[string]bool
}

func (b *bench) newTally() *tally {
	return &tally{bench: b, start: time.Now(), all: make(chan struct{}), names: map[string]bool{}}
}

func (t *tally) add(object string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names[object] {
		return
	}
	t.names[object] = true
	n := len(t.names)
	if n*10/t.objects > (n-1)*10/t.objects {
		t.say("%6.1fs  %d of %d objects are done", time.Since(t.start).Seconds(), n, t.objects)
	}
	if n == t.objects {
		close(t.all)
	}
}
