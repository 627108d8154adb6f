package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// reporting is a suite with conditions, whose step notes nothing.
var reporting = suite(func(b *bed, cfg *config) {
	cfg.Report = conditions
	cfg.Resources = []resource.Interface{noop{}}
})

// prepared makes Prepare do f and plan one run.
func prepared(f func(ctx context.Context, b *bed, s *corev1.Service) error) func(*bed, *config) {
	return func(b *bed, cfg *config) {
		cfg.Prepare = func(ctx context.Context, s *corev1.Service) (controller.Plan, error) {
			return controller.Plan{Ensure: []any{nil}}, f(ctx, b, s)
		}
	}
}

func TestStatusIsWrittenOnChange(t *testing.T) {
	errs := []error{nil, nil, errBoom, errBoom, reconcile.TerminalError(errBoom), resource.RequeueAfter(1, "soon"), nil, nil}
	reporting.Run(t, tests{"is written, and told, once for each change": {
		Object: service(finalizers(own)), Passes: len(errs),
		Configure: func(b *bed, cfg *config) {
			f := fails(errs...)
			cfg.Resources = resource.Wrap(cfg.Resources, resource.Around(func(ctx context.Context, _ resource.Call) error { return f(ctx, "") }))
			cfg.Notify = func(before, after *corev1.Service) {
				b.Note(strings.Join(reported(before), ",") + " -> " + strings.Join(reported(after), ","))
			}
		},
		Want: want{Status: []string{"Object done"}, Journal: []string{
			patchStatus, " -> Object done",
			patchStatus, "Object done -> Object failed: boom",
			patchStatus, "Object failed: boom -> Object terminal: terminal error: boom",
			patchStatus, "Object terminal: terminal error: boom -> Object waiting: soon",
			patchStatus, "Object waiting: soon -> Object done",
		}},
	}})
}

func TestStatusThatOthersWrite(t *testing.T) {
	setIP := func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	}
	done := func(s *corev1.Service) { conditions(s, []resource.Result{{}}) }
	both := []client.Object{service(finalizers(own), setIP, done)}
	reporting.Run(t, tests{
		"keeps what another client wrote meanwhile": {
			Object: service(finalizers(own)),
			Configure: prepared(func(ctx context.Context, b *bed, s *corev1.Service) error {
				other := s.DeepCopy()
				setIP(other)
				return b.Server.Status().Update(ctx, other)
			}),
			Want: want{Status: []string{"Object done"}, Objects: both, Journal: []string{patchStatus}},
		},
		"stores what Prepare wrote into the object": {
			Object: service(finalizers(own)),
			Configure: prepared(func(_ context.Context, _ *bed, s *corev1.Service) error {
				setIP(s)
				return nil
			}),
			Want: want{Status: []string{"Object done"}, Objects: both, Journal: []string{patchStatus}},
		},
		"does not store again what Prepare stored": {
			Object: service(finalizers(own)),
			Configure: prepared(func(ctx context.Context, b *bed, s *corev1.Service) error {
				before := s.DeepCopy()
				setIP(s)
				done(s)
				return b.Server.Status().Patch(ctx, s, client.MergeFrom(before))
			}),
			Want: want{Status: []string{"Object done"}, Objects: both, Journal: []string{}},
		},
		"writes nothing but the status": {
			Object: service(finalizers(own)),
			Configure: prepared(func(_ context.Context, _ *bed, s *corev1.Service) error {
				labelled(s)
				return nil
			}),
			Want: want{Status: []string{"Object done"}, Objects: []client.Object{service(finalizers(own), done)}, Journal: []string{patchStatus}},
		},
	})
}

// What another client removed meanwhile is gone from the object that Notify gets, too.
func TestNotifyGetsTheAnswer(t *testing.T) {
	var after *corev1.Service
	reporting.Run(t, tests{"gets what is in the API server": {
		Object:    service(finalizers(own), annotated("a", "b")),
		Configure: func(_ *bed, cfg *config) { cfg.Notify = func(_, s *corev1.Service) { after = s } },
		Calls:     []call{{Verb: "patch status", Before: patched(`{"metadata":{"annotations":null}}`)}},
		Want: want{Status: []string{"Object done"}, Check: func(b *bed) {
			stored := &corev1.Service{}
			if err := b.Server.Get(b.T.Context(), client.ObjectKeyFromObject(service()), stored); err != nil {
				b.T.Fatal(err)
			}
			if diff := cmp.Diff(stored, after); diff != "" || stored.Annotations != nil {
				b.T.Error(diff)
			}
		}},
	}})
}

func TestStatusOfObjectThatIsGone(t *testing.T) {
	reporting.Run(t, tests{"is nobody's concern": { // as for an object that expired
		Object: service(finalizers(own)),
		Configure: func(b *bed, cfg *config) {
			prepared(func(_ context.Context, b *bed, _ *corev1.Service) error {
				return errors.Join(patched(`{"metadata":{"finalizers":null}}`)(b), remove(b))
			})(b, cfg)
			cfg.Notify = func(_, _ *corev1.Service) { b.T.Error("Notify was called") }
		},
		Want: want{Gone: true, Check: noErrors},
	}})
}

func TestStatusPatchFails(t *testing.T) {
	reporting.Run(t, tests{"does not hold the deletion": {
		Object: service(finalizers("x/y")), Deleted: true,
		Calls: []call{{Verb: "patch status", Err: errBoom}},
		Want:  want{Outcome: resource.Failed, Error: "patch status: boom", Finalizers: []string{"x/y"}},
	}})
}

// A panic outside of the slice fails its object as well, and not the process.
func TestPanicAroundTheSlice(t *testing.T) {
	counted := func(b *bed) {
		if n := b.Metric(`operatorkit_controller_errors_total{controller="test"}`); n != 1 {
			b.T.Errorf("errors_total: got %g", n)
		}
	}
	suite(nil).Run(t, tests{
		"in Report, whose half status is not stored": {
			Object: service(finalizers(own)), Configure: func(_ *bed, cfg *config) {
				cfg.Report = func(s *corev1.Service, results []resource.Result) {
					conditions(s, results)
					panic("no status")
				}
			},
			Want: want{Outcome: resource.Failed, Error: "recover from panic: no status", Check: counted},
		},
		"in Paused": {
			Object: service(finalizers(own)), Configure: func(_ *bed, cfg *config) {
				cfg.Paused = func(*corev1.Service, bool) { panic("no status") }
			},
			Want: want{Outcome: resource.Failed, Error: "recover from panic: no status", Check: counted},
		},
		"in Notify, when the status is stored": {
			Object: service(finalizers(own)), Configure: func(_ *bed, cfg *config) {
				cfg.Report = conditions
				cfg.Notify = func(_, _ *corev1.Service) { panic("no event") }
			},
			Want: want{Outcome: resource.Failed, Error: "recover from panic: no event", Status: []string{"Object done"}, Check: counted},
		},
	})
}
