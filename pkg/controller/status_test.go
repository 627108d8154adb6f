package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestStatusIsWrittenOnChange(t *testing.T) {
	var err error
	var notified []string
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Report = conditions
		cfg.Notify = func(before, after *corev1.Service) {
			notified = append(notified, strings.Join(reported(before), ",")+" -> "+strings.Join(reported(after), ","))
		}
		cfg.Resources = []resource.Interface{b.step("a", func(context.Context, resource.Operation) error { return err })}
	})
	for _, err = range []error{nil, nil, errBoom, errBoom, reconcile.TerminalError(errBoom), resource.RequeueAfter(1, "soon"), nil, nil} {
		_, _ = b.pass(t.Context())
	}
	want := []string{
		" -> Object done",
		"Object done -> Object failed: boom",
		"Object failed: boom -> Object terminal: terminal error: boom",
		"Object terminal: terminal error: boom -> Object waiting: soon",
		"Object waiting: soon -> Object done",
	}
	if diff := cmp.Diff(want, notified); diff != "" {
		t.Error(diff)
	}
	var patches int
	for _, call := range b.calls {
		if call == "patch status" {
			patches++
		}
	}
	if patches != len(want) {
		t.Errorf("status patches: got %d, want %d", patches, len(want))
	}
}

func TestStatusThatOthersWrite(t *testing.T) {
	setIP := func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	}
	tests := map[string]struct {
		prepare     func(ctx context.Context, b *bed, s *corev1.Service) error
		wantIP      bool
		wantPatches int // of the controller
	}{
		"keeps what another client wrote meanwhile": {
			prepare: func(ctx context.Context, b *bed, _ *corev1.Service) error {
				other := &corev1.Service{}
				if err := b.client.Get(ctx, theKey, other); err != nil {
					return err
				}
				setIP(other)
				return b.client.Status().Update(ctx, other)
			},
			wantIP: true, wantPatches: 1,
		},
		"stores what Prepare wrote into the object": {
			prepare: func(_ context.Context, _ *bed, s *corev1.Service) error {
				setIP(s)
				return nil
			},
			wantIP: true, wantPatches: 1,
		},
		"does not store again what Prepare stored": {
			prepare: func(ctx context.Context, b *bed, s *corev1.Service) error {
				before := s.DeepCopy()
				setIP(s)
				s.Status.Conditions = []metav1.Condition{{Type: "Object", Status: metav1.ConditionTrue, Reason: "done"}}
				return b.client.Status().Patch(ctx, s, client.MergeFrom(before))
			},
			wantIP: true, wantPatches: 0,
		},
		"writes nothing but the status": {
			prepare: func(_ context.Context, _ *bed, s *corev1.Service) error {
				s.Labels = map[string]string{"stray": "change"}
				return nil
			},
			wantPatches: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
				cfg.Report = conditions
				cfg.Resources = []resource.Interface{step{"quiet", func(context.Context, resource.Operation) error { return nil }}}
				cfg.Prepare = func(ctx context.Context, s *corev1.Service) (Plan, error) {
					return Plan{Ensure: []any{nil}}, tc.prepare(ctx, b, s)
				}
			})
			b.mustPass(t)
			got := b.object(t)
			if diff := cmp.Diff([]string{"Object done"}, reported(got)); diff != "" {
				t.Error(diff)
			}
			if hasIP := len(got.Status.LoadBalancer.Ingress) == 1; hasIP != tc.wantIP || len(got.Labels) > 0 {
				t.Errorf("got IP %t and labels %v, want IP %t", hasIP, got.Labels, tc.wantIP)
			}
			if len(b.calls) != tc.wantPatches {
				t.Errorf("writes: got %q, want %d", b.calls, tc.wantPatches)
			}
		})
	}
}

// What another client removed meanwhile is gone from the object that Notify gets, too.
func TestNotifyGetsTheAnswer(t *testing.T) {
	var after *corev1.Service
	b := newBed(t, service(finalizers(theFinalizer), annotated("a", "b")), func(_ *bed, cfg *Config[*corev1.Service]) {
		cfg.Report = conditions
		cfg.Notify = func(_, s *corev1.Service) { after = s }
	})
	b.before = func() { b.update(t, func(s *corev1.Service) { s.Annotations = nil }) }
	b.mustPass(t)
	if diff := cmp.Diff(b.object(t), after); diff != "" {
		t.Error(diff)
	}
}

func TestStatusOfObjectThatIsGone(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Report = conditions
		cfg.Notify = func(_, _ *corev1.Service) { t.Error("Notify was called") }
		cfg.Prepare = func(ctx context.Context, s *corev1.Service) (Plan, error) {
			b.update(t, func(s *corev1.Service) { s.Finalizers = nil })
			return Plan{}, b.client.Delete(ctx, service()) // as for an object that expired
		}
	})
	b.mustPass(t)
	if n := b.metrics(t)["errors_total{test}"]; n != 0 || len(b.errorLines()) > 0 {
		t.Errorf("nothing failed: counted %g, logged %q", n, b.errorLines())
	}
}

func TestStatusPatchFails(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer, "x/y"), deleted), func(_ *bed, cfg *Config[*corev1.Service]) {
		cfg.Report = conditions
		cfg.Client = interceptor.NewClient(cfg.Client.(client.WithWatch), interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return errBoom
			},
		})
	})
	if _, err := b.pass(t.Context()); !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "patch status: boom") {
		t.Errorf("error: got %v", err)
	}
	if diff := cmp.Diff([]string{"x/y"}, b.object(t).Finalizers); diff != "" {
		t.Errorf("it does not hold the deletion: %s", diff)
	}
}
