package controller_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/giantswarm/microerror"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestSlice(t *testing.T) {
	ensure := &controller.Plan{Ensure: []any{"x"}}
	del := &controller.Plan{Delete: []any{"x"}}
	suite(inB(nil)).Run(t, tests{
		"runs forwards for a live object": {
			Object: service(finalizers(own)), Plan: ensure,
			Want: want{Journal: []string{"create a of x", "create b of x", "create c of x"}},
		},
		"runs backwards for a deleted object": {
			Object: service(), Deleted: true, Plan: del,
			Want: want{Gone: true, Journal: []string{"delete c of x", "delete b of x", "delete a of x", patch}},
		},
		"runs forwards for a deleted object too, where it is told to": {
			Object: service(), Deleted: true, Plan: del, Configure: func(_ *bed, cfg *config) { cfg.DeleteInOrder = true },
			Want: want{Gone: true, Journal: []string{"delete a of x", "delete b of x", "delete c of x", patch}},
		},
		"deletes scopes of a live object": {
			Object: service(finalizers(own)), Plan: del,
			Want: want{Journal: []string{"delete c of x", "delete b of x", "delete a of x"}},
		},
		"stops at the first error, forwards": {
			Object: service(finalizers(own)), Plan: ensure, Configure: inB(fails(errBoom)),
			Want: want{Outcome: resource.Failed, Error: "boom", Journal: []string{"create a of x", "create b of x"}},
		},
		"stops at the first error, backwards, and keeps the finalizer": {
			Object: service(), Deleted: true, Plan: del, Configure: inB(fails(errBoom)),
			Want: want{Outcome: resource.Failed, Error: "boom", Journal: []string{"delete c of x", "delete b of x"}},
		},
		"goes on after a partial error, forwards": {
			Object: service(finalizers(own)), Plan: ensure, Configure: inB(fails(resource.Partial(errBoom))),
			Want: want{Outcome: resource.Failed, Error: "boom", Journal: []string{"create a of x", "create b of x", "create c of x"}},
		},
		"goes on after a partial error, backwards, and keeps the finalizer": {
			Object: service(), Deleted: true, Plan: del, Configure: inB(fails(resource.Partial(errBoom))),
			Want: want{Outcome: resource.Failed, Error: "boom", Journal: []string{"delete c of x", "delete b of x", "delete a of x"}},
		},
		"does nothing without a scope": {
			Object: service(finalizers(own)), Plan: &controller.Plan{},
			Want: want{Journal: []string{}},
		},
		"puts the finalizer on before it does anything": {
			Object: service(), Plan: ensure,
			Want: want{Journal: []string{patch, "create a of x", "create b of x", "create c of x"}},
		},
		"leaves a deleted object alone that has no finalizer of ours": {
			Object: service(finalizers("x/y"), deleted), Plan: del,
			Want: want{Finalizers: []string{"x/y"}, Journal: []string{}},
		},
		"runs once, without a scope, where there is no Prepare": {
			Object: service(), Meanwhile: []func(*bed) error{remove},
			Want: want{Gone: true, Journal: []string{
				patch, "create a", "create b", "create c", "delete c", "delete b", "delete a", patch,
			}},
		},
	})
}

func TestScopesRunSideBySide(t *testing.T) {
	var arrived atomic.Int32
	both := make(chan struct{})
	suite(inA(func(ctx context.Context, scope string) error {
		if scope == "bad" {
			return errBoom
		}
		if arrived.Add(1) == 2 {
			close(both)
		}
		select { // none goes on before the other one is there
		case <-both:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})).Run(t, tests{"reports what became of each, in the order of the plan": {
		Object: service(finalizers(own)), Plan: &controller.Plan{Ensure: []any{"x", "bad"}, Delete: []any{"old"}},
		Configure: func(_ *bed, cfg *config) {
			cfg.Report = conditions
			cfg.Timeout = 10 * time.Second
		},
		Want: want{Outcome: resource.Failed, Error: "boom", Status: []string{"x done", "bad failed: boom", "old done"}},
	}})
}

func TestPrepareFails(t *testing.T) {
	prepare := func(err error) func(*bed, *config) {
		return func(_ *bed, cfg *config) {
			cfg.Report = conditions
			cfg.Prepare = func(context.Context, *corev1.Service) (controller.Plan, error) {
				return controller.Plan{Delete: []any{"x"}}, err
			}
		}
	}
	only := []string{patchStatus} // nothing else happens
	suite(nil).Run(t, tests{
		"reports a failure": {
			Object: service(finalizers(own)), Configure: prepare(errBoom),
			Want: want{Outcome: resource.Failed, Error: "boom", Status: []string{"Object failed: boom"}, Journal: only},
		},
		"reports what it waits for": {
			Object: service(finalizers(own)), Configure: prepare(resource.RequeueAfter(time.Second, "later")),
			Want: want{Outcome: resource.Waiting, After: time.Second, Status: []string{"Object waiting: later"}, Journal: only},
		},
		"reports it for a deleted one": {
			Object: service(), Deleted: true, Configure: prepare(errBoom),
			Want: want{Outcome: resource.Failed, Error: "boom", Status: []string{"Object failed: boom"}, Journal: only},
		},
	})
}

func TestPanic(t *testing.T) {
	suite(inA(func(_ context.Context, scope string) error {
		if scope == "x" {
			panic("no address")
		}
		return nil
	})).Run(t, tests{"becomes the error of one scope": {
		Object: service(finalizers(own)), Plan: &controller.Plan{Ensure: []any{"x", "y"}},
		Configure: func(_ *bed, cfg *config) { cfg.Report = conditions },
		Want: want{
			Outcome: resource.Failed, Error: "resource a: recover from panic: no address",
			Status: []string{"x failed: recover from panic: no address", "y done"},
			Check: func(b *bed) {
				if log := strings.Join(b.Log(), "\n"); !strings.Contains(log, "TestPanic") || !strings.Contains(log, `"resource"="a"`) {
					b.T.Errorf("the log does not say where: %s", log)
				}
			},
		},
	}})
}

func TestDeadline(t *testing.T) {
	suite(inB(func(ctx context.Context, scope string) error {
		<-ctx.Done()
		if scope == "deaf" {
			return nil // as if it did not look at the context
		}
		return ctx.Err()
	})).Run(t, tests{"ends the pass, and the status says why": {
		Object: service(finalizers(own)), Plan: &controller.Plan{Ensure: []any{"slow"}, Delete: []any{"deaf"}},
		Configure: func(_ *bed, cfg *config) {
			cfg.Report = conditions
			cfg.Timeout = time.Millisecond
		},
		Want: want{Outcome: resource.Failed, Error: context.DeadlineExceeded.Error(), Status: []string{
			"slow failed: reconcile within 1ms: context deadline exceeded",
			"deaf failed: reconcile within 1ms: context deadline exceeded",
		}},
	}})
}

func TestWarnings(t *testing.T) {
	known := &microerror.Error{Kind: "quotaExceeded", Desc: "The project has no room left."}
	said := "Warning quotaExceeded " + known.Desc
	suite(nil).Run(t, tests{
		"are sent once, however often it is tried": {
			Object: service(), Configure: inA(fails(microerror.Mask(known), microerror.Mask(known))), Passes: 2,
			Want: want{Outcome: resource.Failed, Events: []string{said}},
		},
		"are sent again when it happens again": {
			Object: service(), Configure: inA(fails(known, nil, microerror.Maskf(known, "again"))), Passes: 3,
			Want: want{Outcome: resource.Failed, Events: []string{said, said}},
		},
		"are not sent of what nobody described": {
			Object: service(), Configure: inA(fails(&microerror.Error{Kind: "noDescription"})),
			Want: want{Outcome: resource.Failed},
		},
		"are not sent of what is waited for": {
			Object: service(), Configure: inA(fails(resource.RequeueAfter(time.Second, "w: %w", known))),
			Want: want{Outcome: resource.Waiting, After: time.Second},
		},
		"are as long as an event may be": {
			Object: service(), Configure: inA(fails(reconcile.TerminalError(microerror.Mask(
				&microerror.Error{Kind: "quotaExceeded", Desc: strings.Repeat("é", 1000)})))),
			Want: want{Outcome: resource.Terminal, Events: []string{"Warning quotaExceeded " + strings.Repeat("é", 512)}},
		},
		"are sent once of each scope": {
			Object: service(), Plan: &controller.Plan{Ensure: []any{"x", "y"}}, Passes: 2,
			Configure: inA(func(_ context.Context, scope string) error {
				return &microerror.Error{Kind: "quotaExceeded", Desc: scope}
			}),
			Want: want{Outcome: resource.Failed, Events: []string{"Warning quotaExceeded x", "Warning quotaExceeded y"}},
		},
	})
}

func TestConflicts(t *testing.T) {
	const most = 10 // in a row
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "s", errors.New("boom"))
	suite(func(b *bed, cfg *config) {
		inA(fails(conflict))(b, cfg)
		cfg.Report = conditions
	}).Run(t, tests{
		"are tried again at once, and not reported": {
			Object: service(finalizers(own)), Passes: most,
			Want: want{Outcome: resource.Waiting, After: resource.ConflictDelay},
		},
		"are a failure if they do not go away": {
			Object: service(finalizers(own)), Passes: most + 1,
			Want: want{
				Outcome: resource.Failed, Error: "give up after too many conflicts",
				Status: []string{"Object failed: give up after too many conflicts: " + conflict.Error()},
			},
		},
	})
}

func TestSelector(t *testing.T) {
	suite(func(_ *bed, cfg *config) {
		cfg.Selector = labels.SelectorFromSet(labels.Set{"team": "a"})
	}).Run(t, tests{"leaves an object alone, and forgets it, that is not ours any more": {
		Object: service(labelled, finalizers(own)), Meanwhile: []func(*bed) error{patched(`{"metadata":{"labels":null}}`)},
		Want: want{Journal: []string{"create a"}, Check: func(b *bed) {
			const series = `operatorkit_controller_creation_timestamp{controller="test",kind="Service",name="svc",namespace="ns"}`
			if n := b.Metric(series); n != 0 {
				b.T.Errorf("%s: got %g", series, n)
			}
		}},
	}})
}
