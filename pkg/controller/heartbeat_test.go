package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestHeart(t *testing.T) {
	start := time.Unix(1000, 0)
	tests := map[string]struct {
		do   func(at func(second int) *heart) // at lets time pass
		want int                              // second of the last beat
	}{
		"beats when there is nothing to do": {func(at func(int) *heart) { at(1).tick(); at(20).tick() }, 20},
		"beats while passes run as long as they may": {func(at func(int) *heart) {
			at(1).begin()
			at(11).tick()
		}, 11},
		"stops when a pass takes longer": {func(at func(int) *heart) {
			at(0).tick()
			at(1).begin()
			at(5).tick()
			at(12).tick()
		}, 5},
		"stops though another worker is busy": {func(at func(int) *heart) {
			at(1).begin()
			end := at(10).begin()
			at(11)
			end()
			end = at(12).begin()
			at(13)
			end()
		}, 11},
		"goes on when the pass ends after all": {func(at func(int) *heart) {
			end := at(1).begin()
			at(30).tick()
			at(40)
			end()
		}, 40},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var last time.Time
			clk := clocktesting.NewFakePassiveClock(start)
			h := newHeart(clk, 10*time.Second, func(now time.Time) { last = now })
			tc.do(func(second int) *heart {
				clk.SetTime(start.Add(time.Duration(second) * time.Second))
				return h
			})
			if want := start.Add(time.Duration(tc.want) * time.Second); !last.Equal(want) {
				t.Errorf("last beat: got second %g, want %d", last.Sub(start).Seconds(), tc.want)
			}
		})
	}
}

// TestHeartbeat runs a controller with a real queue for an hour of fake time.
func TestHeartbeat(t *testing.T) {
	tests := map[string]struct {
		obj     *corev1.Service
		workers int
		hangs   bool
		min     time.Duration
		max     time.Duration
	}{
		"goes on where no object exists":          {nil, 1, false, time.Hour - beatInterval, time.Hour},
		"goes on where nothing changes":           {service(finalizers(theFinalizer)), 1, false, time.Hour - beatInterval, time.Hour},
		"stops when the worker hangs":             {service(finalizers(theFinalizer)), 1, true, 0, time.Minute},
		"stops when one of several workers hangs": {service(finalizers(theFinalizer)), 4, true, time.Minute, 2 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				release := make(chan struct{})
				b := newBed(t, tc.obj, func(b *bed, cfg *Config[*corev1.Service]) {
					cfg.Timeout = time.Minute
					cfg.Workers = tc.workers
					cfg.Resources = []resource.Interface{b.step("deaf", func(context.Context, resource.Operation) error {
						if tc.hangs {
							<-release // whatever its context says
						}
						return nil
					})}
				})
				beats := make(chan time.Duration, 1)
				time.AfterFunc(time.Hour, func() {
					beats <- b.lastBeat(t, "test", start)
					close(release)
				})
				runQueue(t, b, time.Hour+time.Second)
				if last := <-beats; last < tc.min || last > tc.max {
					t.Errorf("last beat: got after %s, want between %s and %s", last, tc.min, tc.max)
				}
			})
		})
	}
}

func TestHeartbeatOfPeriodic(t *testing.T) {
	tests := map[string]struct {
		hangs    bool
		min, max time.Duration
	}{
		"goes on between rounds":     {false, time.Hour - beatInterval, time.Hour},
		"stops when the round hangs": {true, time.Minute - beatInterval, time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				release := make(chan struct{})
				b := newBed(t, nil, nil)
				p, err := NewPeriodic(PeriodicConfig{
					Name: "janitor", Interval: 24 * time.Hour, Timeout: time.Minute, Metrics: b.controller.cfg.Metrics,
					Resource: b.step("deaf", func(context.Context, resource.Operation) error {
						if tc.hangs {
							<-release
						}
						return nil
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				beats := make(chan time.Duration, 1)
				time.AfterFunc(time.Hour, func() {
					beats <- b.lastBeat(t, "janitor", start)
					close(release)
					cancel()
				})
				if err := p.Start(ctx); err != nil {
					t.Fatal(err)
				}
				if last := <-beats; last < tc.min || last > tc.max {
					t.Errorf("last beat: got after %s, want between %s and %s", last, tc.min, tc.max)
				}
			})
		})
	}
}

// lastBeat returns when the last sign of life was, as the time since start.
func (b *bed) lastBeat(t *testing.T, controller string, start time.Time) time.Duration {
	seconds := b.metrics(t)["keysmith_controller_heartbeat_timestamp_seconds{"+controller+"}"]
	return time.Duration((seconds - float64(start.UnixMilli())/1000) * float64(time.Second))
}
