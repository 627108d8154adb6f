//go:build k8srequired

// Package parallel shows several controllers on the same objects: each has its own finalizer, and none waits for another, nor runs again for
// another.
package parallel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// once makes the first deletion of each object fail.
func once() counting.Decide {
	var failed sync.Map
	return func(_ context.Context, op resource.Operation, obj client.Object) error {
		if op == resource.Create {
			return nil
		}
		if _, again := failed.LoadOrStore(obj.GetName(), true); !again {
			return errors.New("fail once")
		}
		return nil
	}
}

func TestControllersFinishOnTheirOwn(t *testing.T) {
	t.Parallel()
	const objects = 20
	bed := counting.New(t)
	a, b, c := counting.Named("a"), counting.Named("b").Do(once()), counting.Named("c")
	c.Do(func(context.Context, resource.Operation, client.Object) error { return errors.New("fail all the time") })
	var setups []counting.Setup
	for _, r := range []*counting.Resource{a, b, c} {
		cfg := counting.Secrets(r.Name(), r)
		cfg.Workers, cfg.MaxBackoff = 8, 100*time.Millisecond
		setups = append(setups, counting.Controller(cfg))
	}
	op := bed.Start(setups...)

	var carts []*corev1.Secret
	for i := range objects {
		cart := counting.Secret(fmt.Sprintf("cart-%d", i))
		carts = append(carts, cart)
		bed.Make(cart)
	}
	for _, cart := range carts {
		bed.Finalizers(cart, controller.Finalizer("a"), controller.Finalizer("b"), controller.Finalizer("c"))
		bed.AtLeast(1, "creations by b", func() int { return b.Created(cart.Name) })
		bed.Remove(cart)
	}
	for _, cart := range carts {
		bed.Finalizers(cart, controller.Finalizer("c"))
		bed.AtLeast(4, "deletions by c", func() int { return c.Deleted(cart.Name) })
		if n := a.Deleted(cart.Name); n != 1 {
			t.Errorf("a deleted %s %d times, and never failed", cart.Name, n)
		}
		if n := b.Deleted(cart.Name); n != 2 {
			t.Errorf("b deleted %s %d times, and failed once", cart.Name, n)
		}
	}
	c.Do(nil)
	for _, cart := range carts {
		bed.Gone(cart)
	}
	if na, nb := a.Deleted(), b.Deleted(); na != objects || nb != 2*objects {
		t.Errorf("a deleted %d and b %d times, want %d and %d", na, nb, objects, 2*objects)
	}
	if n := op.Metric("operatorkit_controller_errors_total", "controller", "a"); n != 0 {
		t.Errorf("%v failures of a", n)
	}
	if n := op.Metric("operatorkit_controller_errors_total", "controller", "b"); n != objects {
		t.Errorf("%v failures of b, want %d", n, objects)
	}
}
