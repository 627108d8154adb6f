package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// rounds runs a Periodic with an interval of an hour for some time of the test's bubble, and returns when its rounds
// began. f decides what becomes of the round of that number.
func rounds(t *testing.T, d time.Duration, f func(p *Periodic, round int) error) ([]time.Duration, *bed, []string) {
	t.Helper()
	start := time.Now()
	var began []time.Duration
	var p *Periodic
	b := &bed{registry: prometheus.NewRegistry()}
	p, err := NewPeriodic(PeriodicConfig{
		Name: "janitor", Interval: time.Hour, Metrics: NewMetrics(b.registry),
		Resource: step{"janitor", func(context.Context, resource.Operation) error {
			began = append(began, time.Since(start))
			return f(p, len(began))
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !p.NeedLeaderElection() {
		t.Error("it runs without being the leader")
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var lines []string
	if err := p.Start(log.IntoContext(ctx, logr.New(&sink{lines: &lines}))); err != nil {
		t.Errorf("start: %v", err)
	}
	return began, b, lines
}

func TestPeriodic(t *testing.T) {
	nothing := func(*Periodic, int) error { return nil }
	trigger := func(p *Periodic, after ...time.Duration) {
		for _, d := range after {
			time.AfterFunc(d, p.Trigger)
		}
	}
	tests := map[string]struct {
		f          func(p *Periodic, round int) error
		want       []time.Duration // within a fifth of an hour, from the first hour on
		wantErrors int
	}{
		"runs at start and after the interval": {nothing, []time.Duration{0, time.Hour}, 0},
		"goes on after a failure":              {func(*Periodic, int) error { return errBoom }, []time.Duration{0, time.Hour}, 2},
		"goes on after a panic":                {func(*Periodic, int) error { panic(errBoom) }, []time.Duration{0, time.Hour}, 2},
		"comes back earlier when asked": {func(_ *Periodic, round int) error {
			if round == 1 {
				return resource.RequeueAfter(10*time.Minute, "later")
			}
			return nil
		}, []time.Duration{0, 10 * time.Minute, 70 * time.Minute}, 0},
		"does not come back later when asked": {func(*Periodic, int) error {
			return resource.RequeueAfter(10*time.Hour, "later")
		}, []time.Duration{0, time.Hour}, 0},
		"makes one round of many triggers": {func(p *Periodic, round int) error {
			if round == 1 {
				trigger(p, 5*time.Second, 5*time.Second, 5500*time.Millisecond, 5999*time.Millisecond)
			}
			return nil
		}, []time.Duration{0, 6 * time.Second, time.Hour + 6*time.Second}, 0},
		"makes another round of a later trigger": {func(p *Periodic, round int) error {
			if round == 1 {
				trigger(p, 5*time.Second, 7*time.Second)
			}
			return nil
		}, []time.Duration{0, 6 * time.Second, 8 * time.Second, time.Hour + 8*time.Second}, 0},
		"makes another round of a trigger during one": {func(p *Periodic, round int) error {
			if round == 1 {
				p.Trigger()
				p.Trigger()
			}
			return nil
		}, []time.Duration{0, time.Second, time.Hour + time.Second}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Until after the last wanted round, however late, and before the one after it, however early.
				end := tc.want[len(tc.want)-1] + 13*time.Minute
				got, b, lines := rounds(t, end, tc.f)
				same := cmp.Comparer(func(a, b time.Duration) bool {
					return a == b || a > 30*time.Minute && (a-b).Abs() <= 12*time.Minute
				})
				if diff := cmp.Diff(tc.want, got, same); diff != "" {
					t.Error(diff)
				}
				metrics := b.metrics(t)
				if n := metrics["errors_total{janitor}"]; n != float64(tc.wantErrors) {
					t.Errorf("errors_total: got %g", n)
				}
				if n := strings.Count(strings.Join(lines, "\n"), "round failed"); n != tc.wantErrors {
					t.Errorf("log: got %q", lines)
				}
				if _, ok := metrics["last_reconciled{janitor}"]; ok != (tc.wantErrors == 0) {
					t.Errorf("last_reconciled: got %t", ok)
				}
			})
		})
	}
}

func TestPeriodicStop(t *testing.T) {
	tests := map[string]struct {
		stopping bool
		want     error
	}{
		"finishes the round when the process is asked to stop": {true, nil},
		"cancels the round when the lease is lost":             {false, context.Canceled},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopping := make(chan struct{})
				var ended []error
				metrics := NewMetrics(prometheus.NewRegistry())
				p, err := NewPeriodic(PeriodicConfig{
					Name: "janitor", Interval: time.Second, Stopping: stopping, Metrics: metrics,
					Resource: step{"janitor", func(ctx context.Context, _ resource.Operation) error {
						select {
						case <-ctx.Done():
							ended = append(ended, ctx.Err())
							return ctx.Err()
						case <-time.After(10 * time.Second):
							ended = append(ended, nil)
							return nil
						}
					}},
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, func() {
					if tc.stopping {
						close(stopping)
					}
					cancel()
				})
				if err := p.Start(ctx); err != nil {
					t.Error(err)
				}
				if len(ended) != 1 || !errors.Is(ended[0], tc.want) {
					t.Errorf("got %v", ended)
				}
			})
		})
	}
}

func TestPeriodicWithAnInjectedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocktesting.NewFakeClock(time.Now())
		rounds := 0
		p, err := NewPeriodic(PeriodicConfig{
			Name: "janitor", Interval: time.Hour, Clock: clock,
			NewQueue: func(_ string, l workqueue.TypedRateLimiter[reconcile.Request]) queue {
				return workqueue.NewTypedRateLimitingQueueWithConfig(l, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: clock})
			},
			Resource: step{"janitor", func(context.Context, resource.Operation) error {
				rounds++
				return nil
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = p.Start(t.Context()) }()
		for want := 1; want <= 3; want++ {
			synctest.Wait()
			if rounds != want {
				t.Errorf("rounds: got %d, want %d", rounds, want)
			}
			clock.Step(2 * time.Hour)
		}
	})
}

func TestNewPeriodic(t *testing.T) {
	r := step{name: "janitor"}
	for name, cfg := range map[string]PeriodicConfig{
		"without a name":     {Resource: r, Interval: 1},
		"without a resource": {Name: "a", Interval: 1},
		"without a interval": {Name: "a", Resource: r},
	} {
		if _, err := NewPeriodic(cfg); err == nil {
			t.Errorf("it accepts a configuration %s", name)
		}
	}
}
