package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// patience is how long requests may take that take microseconds each.
const patience = 5 * time.Minute

// managerOptions are those of all managers here.
func managerOptions() manager.Options {
	return manager.Options{
		Scheme:     clientgoscheme.Scheme,
		Logger:     newLogger(),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // they share a name
	}
}

// newManager makes a manager without a cluster. Its client is c, and its watches see nothing.
func newManager(c client.Client) (manager.Manager, error) {
	options := managerOptions()
	options.NewCache = func(*rest.Config, crcache.Options) (crcache.Cache, error) {
		return &informertest.FakeInformers{Scheme: options.Scheme}, nil
	}
	options.NewClient = func(*rest.Config, client.Options) (client.Client, error) { return c, nil }
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil }
	return ctrl.NewManager(&rest.Config{}, options)
}

// queue feeds a controller and knows when it is done.
type queue struct {
	started chan workqueue.TypedRateLimitingInterface[reconcile.Request] // receives the controller's own, once
	left    atomic.Int64
	done    chan struct{} // receives when nothing is left
	failed  chan error    // receives when the manager has ended
}

// queued has the reconcilers called by the queue of a manager, with one worker.
func (b *bench) queued(ctx context.Context, resources int) (contest, error) {
	bareQueue, err := b.startQueue(ctx, func(mgr manager.Manager, q *queue) error {
		return ctrl.NewControllerManagedBy(mgr).Named(name).For(&corev1.Secret{}).WatchesRawSource(q.source()).
			Complete(reconcile.AsReconciler(mgr.GetClient(), bare(q.resources(resources))))
	})
	if err != nil {
		return contest{}, err
	}
	frameworkQueue, err := b.startQueue(ctx, func(mgr manager.Manager, q *queue) error {
		f, _, err := newFramework(mgr.GetClient(), q.resources(resources), 1, q.source())
		if err != nil {
			return err
		}
		return f.SetupWithManager(mgr)
	})
	if err != nil {
		return contest{}, err
	}
	return contest{bare: bareQueue, framework: frameworkQueue}, nil
}

// startQueue starts a manager with the controller that setUp adds.
func (b *bench) startQueue(ctx context.Context, setUp func(manager.Manager, *queue) error) (driver, error) {
	mgr, err := newManager(newCache())
	if err != nil {
		return nil, err
	}
	q := &queue{
		started: make(chan workqueue.TypedRateLimitingInterface[reconcile.Request], 1),
		done:    make(chan struct{}, 1), failed: make(chan error, 1),
	}
	if err := setUp(mgr, q); err != nil {
		return nil, err
	}
	b.running.Go(func() { q.failed <- mgr.Start(ctx) })
	select {
	case requests := <-q.started:
		return func(ctx context.Context, rs []reconcile.Request) error { return q.drive(ctx, requests, rs) }, nil
	case err := <-q.failed:
		return nil, errors.Join(err, context.Cause(ctx))
	}
}

// source gets hold of the controller's queue.
func (q *queue) source() source.Source {
	return source.Func(func(_ context.Context, requests workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.started <- requests
		return nil
	})
}

// resources do nothing. The last one counts.
func (q *queue) resources(n int) []resource.Interface {
	return append(slices.Repeat([]resource.Interface{noop{}}, n-1), counting{left: &q.left, done: q.done})
}

// drive adds requests and waits until the last resource has been called for each of them.
func (q *queue) drive(ctx context.Context, to workqueue.TypedRateLimitingInterface[reconcile.Request], requests []reconcile.Request) error {
	q.left.Store(int64(len(requests)))
	for _, r := range requests {
		to.Add(r)
	}
	select {
	case <-q.done:
		return nil
	case err := <-q.failed:
		return errors.Join(err, context.Cause(ctx))
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(patience):
		return fmt.Errorf("%d of %d passes not done after %s", q.left.Load(), len(requests), patience)
	}
}

// counting is a resource that does nothing but count.
type counting struct {
	noop
	left *atomic.Int64
	done chan<- struct{}
}

func (c counting) EnsureCreated(context.Context, any) error {
	if c.left.Add(-1) == 0 {
		c.done <- struct{}{}
	}
	return nil
}
