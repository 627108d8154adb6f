//go:build k8srequired

// Package restart shows what an operator makes at its start of what happened while there was none, and how it ends: passes that run are finished,
// none begins.
package restart

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const pause = "operatorkit.giantswarm.io/paused"

func TestStartSeesWhatHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	finalizer := controller.Finalizer("restart")
	r := counting.Named("counter")
	op := bed.Start(counting.Controller(counting.Services("restart", r)))
	before := []string{"kept", "deleted", "paused", "paused-and-deleted", "freed"}
	for _, name := range before {
		bed.Make(counting.Service(name))
		bed.Ready(name, "True Done")
	}
	bed.Annotate(counting.Service("freed"), pause, "true")
	op.Stop()
	op.Healthy()

	bed.Remove(counting.Service("deleted"))
	bed.Annotate(counting.Service("paused"), pause, "true")
	bed.Annotate(counting.Service("paused-and-deleted"), pause, "true")
	bed.Remove(counting.Service("paused-and-deleted"))
	bed.Annotate(counting.Service("freed"), pause, "")
	bed.Make(counting.Service("made"))
	bed.Make(counting.Service("made-paused", func(s *corev1.Service) { s.Annotations = map[string]string{pause: "true"} }))
	short := counting.Service("short-lived") // of which no operator ever knew
	bed.Make(short)
	bed.Remove(short)
	bed.Gone(short)

	r = counting.Named("counter")
	op = bed.Start(counting.Controller(counting.Services("restart", r)))
	bed.Gone(counting.Service("deleted"))
	bed.Ready("made", "True Done")
	bed.AtLeast(2, "creations", func() int { return min(1, r.Created("kept")) + min(1, r.Created("freed")) })
	bed.Event("paused-and-deleted", "Warning DeletionPaused deletion waits for pause: remove annotation "+pause+" to let it go on")
	op.Logs(`"msg":"object is paused"`, "/paused\"")
	op.Logs(`"msg":"object is paused"`, "/made-paused\"")
	bed.Finalizers(counting.Service("made-paused"))
	bed.Finalizers(counting.Service("paused-and-deleted"), finalizer)
	if n := r.Created("paused", "paused-and-deleted", "made-paused", "short-lived"); n != 0 {
		t.Errorf("%d creations of objects that are paused or gone", n)
	}
	if n := r.Deleted("deleted"); n != 1 || r.Deleted() != n {
		t.Errorf("%d deletions of what was deleted, %d in all, want 1", n, r.Deleted())
	}
	if n := op.Metric("keysmith_controller_paused_deletions"); n != 1 {
		t.Errorf("%v deletions are held, want 1", n)
	}

	for _, name := range []string{"paused", "paused-and-deleted", "made-paused"} {
		bed.Annotate(counting.Service(name), pause, "")
	}
	bed.Gone(counting.Service("paused-and-deleted"))
	bed.Ready("made-paused", "True Done")
	bed.AtLeast(1, "creations", func() int { return r.Created("paused") })
	op.Healthy()
}

// door holds calls of one kind for one object until it is opened.
type door struct {
	op     resource.Operation
	object string
	opened chan struct{}
}

func (d door) wait(ctx context.Context, op resource.Operation, obj client.Object) error {
	if op != d.op || obj.GetName() != d.object {
		return nil
	}
	select {
	case <-d.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestStopLetsPassesEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		op      resource.Operation
		running func(bed *counting.Bed, r *counting.Resource, d door) // makes a pass begin that waits at the door
		ended   func(bed *counting.Bed)
	}{
		"and write the status": {
			op: resource.Create,
			running: func(bed *counting.Bed, r *counting.Resource, d door) {
				r.Do(d.wait)
				bed.Make(counting.Service(d.object))
				bed.AtLeast(1, "creations", func() int { return r.Created(d.object) })
			},
			ended: func(bed *counting.Bed) { bed.Ready("cart", "True Done") },
		},
		"and remove the finalizer": {
			op: resource.Delete,
			running: func(bed *counting.Bed, r *counting.Resource, d door) {
				bed.Make(counting.Service(d.object))
				bed.Ready(d.object, "True Done")
				r.Do(d.wait)
				bed.Remove(counting.Service(d.object))
				bed.AtLeast(1, "deletions", func() int { return r.Deleted(d.object) })
			},
			ended: func(bed *counting.Bed) { bed.Gone(counting.Service("cart")) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			first, second := counting.Named("first"), counting.Named("second")
			d := door{test.op, "cart", make(chan struct{})}
			stopping := make(chan struct{})
			cfg := counting.Services("restart", first, second)
			cfg.Workers, cfg.Stopping, cfg.Grace = 2, stopping, counting.Grace
			op := bed.Start(counting.Controller(cfg))
			test.running(bed, first, d)

			close(stopping)
			bed.Make(counting.Service("late"))
			var stopped sync.WaitGroup
			stopped.Go(op.Stop)
			op.Logs("Shutdown signal received")
			close(d.opened)
			stopped.Wait()
			test.ended(bed)
			if n := first.Created("late"); n != 0 {
				t.Errorf("%d passes began after the operator was asked to stop", n)
			}
			bed.Finalizers(counting.Service("late"))
			op.Healthy()

			op = bed.Start(counting.Controller(counting.Services("restart", first, second)))
			bed.Ready("late", "True Done")
			op.Healthy()
		})
	}
}

func TestStopEndsPassesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stopping bool
		grace    time.Duration
	}{
		"when their grace is over":                       {stopping: true, grace: 2 * time.Second},
		"at once where nobody asked the process to stop": {grace: time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			d := door{resource.Create, "cart", nil} // never opened
			first, second := counting.Named("first").Do(d.wait), counting.Named("second")
			stopping := make(chan struct{})
			cfg := counting.Services("restart", first, second)
			cfg.Stopping, cfg.Grace = stopping, test.grace
			op := bed.Start(counting.Controller(cfg))
			bed.Make(counting.Service("cart"))
			bed.AtLeast(1, "creations", func() int { return first.Created("cart") })
			if test.stopping {
				close(stopping)
			}
			begin := time.Now()
			op.Stop()
			if took := time.Since(begin); test.stopping && took < test.grace {
				t.Errorf("the pass had %s to end, want %s", took, test.grace)
			}
			// The next start repeats what was interrupted: no failure, and nothing that the status should tell.
			op.Healthy()
			if n := second.Created("cart"); n != 0 {
				t.Error("the slice went on")
			}
			s := counting.Service("cart")
			if bed.Read(s); len(s.Status.Conditions) > 0 {
				t.Errorf("the status tells of an interrupted pass: %v", s.Status.Conditions)
			}
			first.Do(nil)
			op = bed.Start(counting.Controller(counting.Services("restart", first, second)))
			bed.Ready("cart", "True Done")
			op.Healthy()
		})
	}
}
