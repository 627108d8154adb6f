package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestStop(t *testing.T) {
	tests := map[string]struct {
		stopping bool // before the manager's context ends
		takes    time.Duration
		wantTook time.Duration
		wantDone bool // and the status says so
	}{
		"finishes the running pass when the process is asked to stop":    {true, 10 * time.Second, 10 * time.Second, true},
		"cancels it when that takes longer than the grace":               {true, time.Hour, time.Second + 20*time.Second, false},
		"cancels it at once, and writes nothing, when the lease is lost": {false, 10 * time.Second, time.Second, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopping := make(chan struct{})
				b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
					cfg.Stopping = stopping
					cfg.Report = func(s *corev1.Service, results []resource.Result) {
						s.Status.Conditions = []metav1.Condition{{Type: "Object", Reason: string(results[0].Outcome())}}
					}
					cfg.Resources = []resource.Interface{b.step("a", func(ctx context.Context, _ resource.Operation) error {
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-time.After(tc.takes):
							return nil
						}
					})}
				})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, func() {
					if tc.stopping {
						close(stopping)
					}
					cancel()
				})
				start := time.Now()
				if _, err := b.pass(ctx); err != nil {
					t.Errorf("an interruption is no error: got %v", err)
				}
				if took := time.Since(start); took != tc.wantTook {
					t.Errorf("took %s, want %s", took, tc.wantTook)
				}
				conditions := b.object(t).Status.Conditions
				if done := len(conditions) == 1 && conditions[0].Reason == "done"; done != tc.wantDone || !done && len(conditions) > 0 {
					t.Errorf("status: got %v", conditions)
				}
				if n := b.metrics(t)["errors_total{test}"]; n != 0 || len(b.errorLines()) > 0 {
					t.Errorf("nothing failed: counted %g, logged %q", n, b.errorLines())
				}
				if !tc.stopping {
					return
				}
				b.calls = nil
				if _, err := b.pass(t.Context()); err != nil || len(b.calls) > 0 {
					t.Errorf("no new pass starts: got %q, %v", b.calls, err)
				}
			})
		})
	}
}
