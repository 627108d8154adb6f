//go:build k8srequired

// Package basic shows what a controller does for an object from its creation to its end: the finalizer is on before any resource runs, is put on
// once, and goes when all resources have run backwards.
package basic

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestFinalizerComesFirstAndGoesLast(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	var (
		mu    sync.Mutex
		calls []string
	)
	// trace notes what the API server, not a cache, says when a resource is called.
	trace := func(name string) *counting.Resource {
		return counting.Named(name).Do(func(ctx context.Context, op resource.Operation, obj client.Object) error {
			s := counting.Secret(obj.GetName())
			if err := bed.Get(ctx, client.ObjectKeyFromObject(obj), s); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf("%s %s %v", op, name, s.Finalizers))
			return nil
		})
	}
	traced := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
	a, b := trace("a"), trace("b")
	op := bed.Start(counting.Controller(counting.Secrets("basic", a, b)))

	cart := counting.Secret("cart")
	bed.Make(cart)
	bed.AtLeast(1, "creations", func() int { return b.Created("cart") })
	bed.Finalizers(cart, controller.Finalizer("basic"))
	const touches = 3
	for n := range touches { // more passes do not put it on again
		bed.Annotate(cart, "touched", fmt.Sprint(n))
		bed.AtLeast(n+2, "creations", func() int { return b.Created("cart") })
	}
	bed.Finalizers(cart, controller.Finalizer("basic"))
	bed.Remove(cart)
	bed.Gone(cart)

	with := "[operatorkit.giantswarm.io/basic]"
	var want []string
	for range 1 + touches { // a pass for each event, our own finalizer excepted
		want = append(want, "create a "+with, "create b "+with)
	}
	want = append(want, "delete b "+with, "delete a "+with)
	if diff := cmp.Diff(want, traced()); diff != "" {
		t.Errorf("calls, with the finalizers at that time: (-want +got)\n%s", diff)
	}
	op.Healthy()
}

func TestForeignObjectsAreLeftAlone(t *testing.T) {
	t.Parallel()
	bed, elsewhere := counting.New(t), counting.New(t)
	r := counting.Named("counter")
	// Deleted before the controller has seen it: nothing was created for it, and nothing is deleted.
	deleted := counting.Secret("deleted", func(s *corev1.Secret) { s.Finalizers = []string{"example.com/other"} })
	bed.Make(deleted)
	bed.Remove(deleted)
	foreign := counting.Secret("foreign")
	elsewhere.Make(foreign)

	cfg := counting.Secrets("basic", r)
	cfg.Namespaces = []string{bed.Namespace}
	op := bed.StartWith(func(o *manager.Options) { // the cache shows both
		o.Cache.DefaultNamespaces[elsewhere.Namespace] = cache.Config{}
	}, counting.Controller(cfg))
	bed.Make(counting.Secret("cart")) // with one worker, what came before it is over when it is done
	bed.AtLeast(1, "creations", func() int { return r.Created("cart") })

	bed.Finalizers(deleted, "example.com/other")
	elsewhere.Finalizers(foreign)
	if n := r.Created("deleted", "foreign") + r.Deleted(); n != 0 {
		t.Errorf("%d calls for objects that are not ours", n)
	}
	op.Healthy()
}
