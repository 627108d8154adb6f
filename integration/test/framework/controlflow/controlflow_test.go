//go:build k8srequired

// Package controlflow shows how resources steer what happens next without an error: operatorkit's signals, each for one run of the slice over one
// object; and that an error in a deletion keeps the finalizer until all is deleted.
package controlflow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/cachekeycontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/finalizerskeptcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/reconciliationcanceledcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/resourcecanceledcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/updateallowedcontext"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestFailedDeletionKeepsTheFinalizer(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	first, second := counting.Named("first"), counting.Named("second")
	cfg := counting.Secrets("controlflow", first, second)
	cfg.Resync, cfg.MaxBackoff = 200*time.Millisecond, 50*time.Millisecond
	bed.Start(counting.Controller(cfg))
	cart := counting.Secret("cart")
	bed.Make(cart)
	bed.AtLeast(3, "creations", func() int { return second.Created("cart") })
	bed.Finalizers(cart, controller.Finalizer("controlflow"))
	if n := first.Deleted() + second.Deleted(); n != 0 {
		t.Errorf("%d deletions of what lives", n)
	}

	const tries = 4
	failures := 0 // used by the calls for one object, which never overlap
	first.Do(func(ctx context.Context, op resource.Operation, _ client.Object) error {
		if op == resource.Create || failures == tries {
			return nil
		}
		failures++
		s := &corev1.Secret{}
		if err := bed.Get(ctx, bed.Key("cart"), s); err != nil || len(s.Finalizers) != 1 {
			t.Errorf("before try %d: finalizers %v, %v", failures+1, s.Finalizers, err)
		}
		return errors.New("not yet")
	})
	bed.Remove(cart)
	bed.Gone(cart)
	// The slice runs again as a whole, up to the one that failed, and never again when it is through.
	if diff := cmp.Diff([]int{tries + 1, tries + 1}, []int{first.Deleted("cart"), second.Deleted("cart")}); diff != "" {
		t.Errorf("deletions: (-want +got)\n%s", diff)
	}
}

// signals are operatorkit's, as raised by a resource and seen by the next.
var signals = map[string]struct {
	raise  func(context.Context)
	raised func(context.Context) bool // within the same run
}{
	"none":      {raise: func(context.Context) {}, raised: func(context.Context) bool { return false }},
	"resource":  {raise: resourcecanceledcontext.SetCanceled, raised: resourcecanceledcontext.IsCanceled},
	"reconcile": {raise: reconciliationcanceledcontext.SetCanceled, raised: reconciliationcanceledcontext.IsCanceled},
	"kept":      {raise: finalizerskeptcontext.SetKept, raised: finalizerskeptcontext.IsKept},
	"update":    {raise: updateallowedcontext.SetUpdateAllowed, raised: updateallowedcontext.IsUpdateAllowed},
}

const label = "signal" // of an object: the signal that is raised for it

// watchman raises the signal of an object in the resource that runs first, and checks that each resource sees the signals of its own run alone.
type watchman struct {
	t   *testing.T
	off sync.Map // kinds of signal that are not raised any more

	mu   sync.Mutex
	runs map[string]string // by cache key: what it belongs to
}

func (w *watchman) resource(name string, first resource.Operation) *counting.Resource {
	return counting.Named(name).Do(func(ctx context.Context, op resource.Operation, obj client.Object) error {
		mine := obj.GetLabels()[label]
		_, off := w.off.Load(mine)
		begins := op == first
		for kind, signal := range signals {
			// A cancelled resource is one resource's own affair.
			want := kind == mine && !off && !begins && kind != "resource" && kind != "none"
			if got := signal.raised(ctx); got != want {
				w.t.Errorf("%s of %s (%s) sees the signal %s: %t, want %t", op, obj.GetName(), name, kind, got, want)
			}
		}
		w.cacheKey(ctx, begins, fmt.Sprintf("%s %s", op, obj.GetName()))
		if begins && !off {
			signals[mine].raise(ctx)
		}
		return nil
	})
}

// cacheKey checks that the key is one for all resources of a run, and no other's.
func (w *watchman) cacheKey(ctx context.Context, begins bool, run string) {
	key, ok := cachekeycontext.FromContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch owner, known := w.runs[key]; {
	case !ok || key == "":
		w.t.Errorf("%s has no cache key", run)
	case begins && known:
		w.t.Errorf("%s has the cache key %s of %s", run, key, owner)
	case !begins && owner != run:
		w.t.Errorf("%s has the cache key %s of %q", run, key, owner)
	}
	w.runs[key] = run
}

func TestSignalsStayWithTheirRun(t *testing.T) {
	t.Parallel()
	const objects = 50
	bed := counting.New(t)
	w := &watchman{t: t}
	first, middle, last := w.resource("first", resource.Create), w.resource("middle", ""), w.resource("last", resource.Delete)
	kinds := []string{"none", "resource", "reconcile", "kept", "update"}
	var carts []*corev1.Secret
	for i := range objects {
		carts = append(carts, counting.Secret(fmt.Sprintf("cart-%d", i), func(s *corev1.Secret) {
			s.Labels = map[string]string{label: kinds[i%len(kinds)]}
		}))
		bed.Make(carts[i])
	}
	// start starts an operator, which finds all objects at once.
	start := func() *counting.Operator {
		w.runs = map[string]string{}
		cfg := counting.Secrets("signals", first, middle, last)
		cfg.Workers = 8
		return bed.Start(counting.Controller(cfg))
	}

	op := start()
	for round := range 3 { // each pass begins anew
		before := map[string]int{}
		for _, cart := range carts {
			bed.AtLeast(1, "creations of "+cart.Name, func() int { return first.Created(cart.Name) })
			before[cart.Name] = first.Created(cart.Name)
			bed.Annotate(cart, "round", fmt.Sprint(round))
		}
		for _, cart := range carts {
			end := last // an operator that stops begins no further step
			if cart.Labels[label] == "reconcile" {
				end = first
			}
			bed.AtLeast(before[cart.Name]+1, "creations of "+cart.Name, func() int { return end.Created(cart.Name) })
		}
	}
	op.Stop()
	op.Healthy()
	for _, cart := range carts {
		want := first.Created(cart.Name)
		if cart.Labels[label] == "reconcile" {
			want = 0
		}
		if diff := cmp.Diff([]int{want, want}, []int{middle.Created(cart.Name), last.Created(cart.Name)}); diff != "" {
			t.Errorf("creations of %s (%s): (-want +got)\n%s", cart.Name, cart.Labels[label], diff)
		}
		bed.Remove(cart)
	}

	op = start()
	for _, cart := range carts {
		switch cart.Labels[label] {
		case "reconcile":
			bed.AtLeast(1, "deletions of "+cart.Name, func() int { return last.Deleted(cart.Name) })
		case "kept":
			bed.AtLeast(1, "deletions of "+cart.Name, func() int { return first.Deleted(cart.Name) })
		default:
			bed.Gone(cart)
		}
	}
	op.Stop()
	op.Healthy()
	for _, cart := range carts {
		want := []int{1, 1, 1}
		if cart.Labels[label] == "reconcile" {
			want = []int{0, 0, 1}
		}
		if diff := cmp.Diff(want, []int{first.Deleted(cart.Name), middle.Deleted(cart.Name), last.Deleted(cart.Name)}); diff != "" {
			t.Errorf("deletions of %s (%s): (-want +got)\n%s", cart.Name, cart.Labels[label], diff)
		}
	}

	// The deletion is repeated, and ends when nothing is raised any more.
	op = start()
	for _, cart := range carts {
		if kind := cart.Labels[label]; kind == "reconcile" || kind == "kept" {
			bed.AtLeast(2, "deletions of "+cart.Name, func() int { return last.Deleted(cart.Name) })
			bed.Finalizers(cart, controller.Finalizer("signals"))
		}
	}
	w.off.Store("reconcile", true)
	w.off.Store("kept", true)
	for _, cart := range carts {
		if kind := cart.Labels[label]; kind == "reconcile" || kind == "kept" {
			bed.Annotate(cart, "round", "last")
			bed.Gone(cart)
		}
	}
	op.Healthy()
}
