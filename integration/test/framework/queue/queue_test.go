//go:build k8srequired

// Package queue shows what becomes of an object whose pass failed, waits, panics or takes too long, and that other objects go on meanwhile; and how
// many workers share a crowd of objects.
package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// diary notes what happens to each object, and when.
type diary struct {
	mu      sync.Mutex
	entries map[string][]entry
}

type entry struct {
	what string
	at   time.Time
}

func (d *diary) note(object, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries == nil {
		d.entries = map[string][]entry{}
	}
	d.entries[object] = append(d.entries[object], entry{what, time.Now()})
}

func (d *diary) of(object string) []entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.entries[object])
}

// gaps fails the test if less time than least lies between two entries.
func (d *diary) gaps(t *testing.T, object string, least ...time.Duration) {
	t.Helper()
	entries := d.of(object)
	for i, least := range least {
		if got := entries[i+1].at.Sub(entries[i].at); got < least {
			t.Errorf("%s: %s between the tries %d and %d, want at least %s", object, got, i+1, i+2, least)
		}
	}
}

// made has our finalizer already, so that the controller does not write it: there is one event of its creation, and no other.
func made(name string) *corev1.Secret {
	return counting.Secret(name, func(s *corev1.Secret) { s.Finalizers = []string{controller.Finalizer("queue")} })
}

func TestFailuresAreTriedAgainEverLater(t *testing.T) {
	t.Parallel()
	const broken = "example.com/broken"
	bed := counting.New(t)
	var tries diary
	r := counting.Named("failing").Do(func(_ context.Context, _ resource.Operation, obj client.Object) error {
		if _, ok := obj.GetAnnotations()[broken]; ok {
			tries.note(obj.GetName(), "failed")
			return errors.New("no power")
		}
		return nil
	})
	after := counting.Named("after")
	op := bed.Start(counting.Controller(counting.Secrets("queue", r, after))) // one worker, the delays that are the default
	count := func(name string) func() int { return func() int { return len(tries.of(name)) } }
	fail := func(name string) {
		bed.Make(made(name))
		bed.AtLeast(1, "creations", func() int { return r.Created(name) })
		bed.Annotate(counting.Secret(name), broken, "yes")
	}

	well := made("well")
	bed.Make(well)
	bed.AtLeast(1, "creations of the healthy object", func() int { return r.Created("well") })
	touches := 0
	touch := func() {
		before := r.Created("well")
		touches++
		bed.Annotate(well, "touched", fmt.Sprint(touches))
		bed.AtLeast(before+1, "creations of the healthy object", func() int { return r.Created("well") })
	}

	var crowd []string
	for i := range 10 {
		crowd = append(crowd, fmt.Sprintf("sick-%d", i))
		fail(crowd[i])
		touch()
	}
	growing := []time.Duration{400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond} // a fifth less than the back-off
	for _, name := range crowd {
		bed.AtLeast(len(growing)+1, "tries", count(name))
		touch()
		tries.gaps(t, name, growing...)
	}
	if n := r.Created("well"); n != touches+1 {
		t.Errorf("the healthy object was reconciled %d times, want once for its creation and for each of %d changes", n, touches)
	}

	// A change of an object ends its delay.
	var all int
	for _, name := range crowd {
		bed.Annotate(counting.Secret(name), broken, "")
		bed.AtLeast(2, "passes without a failure", func() int { return after.Created(name) })
		all += len(tries.of(name))
	}
	if n := int(op.Metric("operatorkit_controller_errors_total")); n != all || len(op.Errors()) != all {
		t.Errorf("%d failed passes, %d counted, %d logged", all, n, len(op.Errors()))
	}
}

func TestOneObjectComesBackAfterATime(t *testing.T) {
	t.Parallel()
	const wait = time.Second
	bed := counting.New(t)
	var passes diary
	r := counting.Named("waiting").Do(func(_ context.Context, _ resource.Operation, obj client.Object) error {
		passes.note(obj.GetName(), "waits")
		if obj.GetName() == "cart" && len(passes.of("cart")) < 4 {
			return resource.RequeueAfter(wait, "not yet")
		}
		return nil
	})
	after := counting.Named("after")
	op := bed.Start(counting.Controller(counting.Secrets("queue", r, after)))
	bed.Make(made("cart"), made("other"))
	bed.AtLeast(1, "creations", func() int { return after.Created("cart") })
	passes.gaps(t, "cart", wait, wait, wait)
	if n := r.Created("other"); n != 1 {
		t.Errorf("%d passes of an object that does not wait, want 1", n)
	}
	if n := after.Created("cart"); n != 1 {
		t.Errorf("the slice went on %d times, want once, in the end", n)
	}
	op.Healthy()
}

func TestDeletionRunsBackwards(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	var calls diary
	var slice []resource.Interface
	for _, name := range []string{"network", "database", "account", "rights"} {
		failures := 0
		slice = append(slice, counting.Named(name).Do(func(_ context.Context, op resource.Operation, obj client.Object) error {
			calls.note(obj.GetName(), string(op)+" "+name)
			if op == resource.Delete && name == "database" && failures < 2 { // one worker
				failures++
				return errors.New("still in use")
			}
			return nil
		}))
	}
	cfg := counting.Secrets("queue", slice...)
	cfg.MaxBackoff = 50 * time.Millisecond
	bed.Start(counting.Controller(cfg))
	cart := made("cart")
	bed.Make(cart)
	bed.AtLeast(4, "creations", func() int { return len(calls.of("cart")) })
	bed.Remove(cart)
	bed.Gone(cart)

	want := []string{
		"create network", "create database", "create account", "create rights",
		"delete rights", "delete account", "delete database",
		"delete rights", "delete account", "delete database",
		"delete rights", "delete account", "delete database", "delete network",
	}
	var got []string
	for _, call := range calls.of("cart") {
		got = append(got, call.what)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls: (-want +got)\n%s", diff)
	}
}
