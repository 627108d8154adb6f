//go:build k8srequired

// Package reconciliation shows when objects are reconciled: on events, again and again by the resync, at the start of the operator if something
// happened while there was none; and that what is well is left as it is.
package reconciliation

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
)

const other = "operatorkit.giantswarm.io/other-operator"

func TestDeletionRunsOnceThoughOthersHoldTheObject(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	cfg := counting.Secrets("reconciliation", r)
	cfg.Resync = 200 * time.Millisecond
	op := bed.Start(counting.Controller(cfg))
	held := func(s *corev1.Secret) { s.Finalizers = []string{other} }
	cart := counting.Secret("cart", held)
	bed.Make(cart)
	bed.AtLeast(4, "creations", func() int { return r.Created("cart") })
	bed.Finalizers(cart, other, controller.Finalizer("reconciliation"))
	bed.Remove(cart)
	bed.Finalizers(cart, other)

	// Neither an event nor the resync runs it again.
	bed.Annotate(cart, "touched", "1")
	next := counting.Secret("next")
	bed.Make(next)
	bed.AtLeast(10, "creations of the next", func() int { return r.Created("next") })
	if n := r.Deleted("cart"); n != 1 {
		t.Errorf("%d deletions, want 1", n)
	}
	counting.Change(bed, cart, func(s *corev1.Secret) { s.Finalizers = nil })
	bed.Gone(cart)

	// An object of the same name is another object.
	before := r.Created("cart")
	again := counting.Secret("cart", held)
	bed.Make(again)
	bed.AtLeast(before+1, "creations of the second", func() int { return r.Created("cart") })
	bed.Remove(again)
	bed.Finalizers(again, other)
	bed.AtLeast(2, "deletions", func() int { return r.Deleted("cart") })
	op.Healthy()
}

func TestResyncComesBackAndChangesNothing(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	cfg := counting.Secrets("reconciliation", r)
	cfg.Resync, cfg.Workers = 300*time.Millisecond, 4
	op := bed.Start(counting.Controller(cfg))
	var carts []*corev1.Secret
	for i := range 5 {
		carts = append(carts, counting.Secret(fmt.Sprintf("cart-%d", i)))
		bed.Make(carts[i])
	}
	before := map[string]int{}
	for _, cart := range carts {
		bed.Finalizers(cart, controller.Finalizer("reconciliation")) // and read
		before[cart.Name] = r.Created(cart.Name)
	}
	for _, cart := range carts {
		bed.AtLeast(before[cart.Name]+15, "creations by resync", func() int { return r.Created(cart.Name) })
		now := counting.Secret(cart.Name)
		bed.Read(now)
		if now.ResourceVersion != cart.ResourceVersion {
			t.Errorf("%s was written: its version was %s, and is %s", cart.Name, cart.ResourceVersion, now.ResourceVersion)
		}
		bed.Event(cart.Name)
	}
	op.Healthy()
}

func TestWithoutResyncOnlyEventsCount(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	quick := counting.Named("quick")
	resynced := counting.Secrets("quick", quick)
	resynced.Resync = 100 * time.Millisecond
	op := bed.Start(counting.Controller(counting.Secrets("events", r)), counting.Controller(resynced))
	cart := counting.Secret("cart")
	bed.Make(cart)
	bed.Finalizers(cart, controller.Finalizer("events"), controller.Finalizer("quick"))
	bed.Annotate(cart, "touched", "1")
	bed.Make(counting.Secret("next")) // with one worker, what came before it is over once it is done
	bed.AtLeast(1, "creations of the next one", func() int { return r.Created("next") })
	before, others := r.Created("cart"), quick.Created("cart")
	bed.AtLeast(others+10, "creations of the other controller", func() int { return quick.Created("cart") })
	if n := r.Created("cart") - before; n != 0 {
		t.Errorf("%d creations without a reason", n)
	}
	bed.Annotate(cart, "touched", "2")
	bed.AtLeast(before+1, "creations", func() int { return r.Created("cart") })
	op.Healthy()
}

func TestStartFindsWhatHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	cfg := counting.Secrets("reconciliation", r)
	cfg.Resync = time.Hour
	op := bed.Start(counting.Controller(cfg))
	deleted := counting.Secret("deleted")
	bed.Make(deleted)
	bed.AtLeast(1, "creations", func() int { return r.Created("deleted") })
	op.Stop()
	op.Healthy()

	before := r.Created("deleted")
	bed.Remove(deleted)
	bed.Make(counting.Secret("made"))
	bed.Finalizers(deleted, controller.Finalizer("reconciliation"))
	if r.Created("deleted") != before || r.Deleted() != 0 || r.Created("made") != 0 {
		t.Error("an operator that was stopped goes on")
	}

	op = bed.Start(counting.Controller(cfg))
	bed.Gone(deleted)
	bed.AtLeast(1, "creations", func() int { return r.Created("made") })
	if n := r.Deleted("deleted"); n != 1 {
		t.Errorf("%d deletions, want 1", n)
	}
	bed.Eventually(func(context.Context) error { // its series go with the object
		if op.Metric("operatorkit_controller_deletion_timestamp") != 0 {
			return fmt.Errorf("the controller still knows the object")
		}
		return nil
	})
	op.Healthy()
}
