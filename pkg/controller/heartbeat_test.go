package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestHeart(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	tests := map[string]struct {
		do   func(h *heart)
		want int // second of the last beat
	}{
		"beats when there is nothing to do": {func(h *heart) { h.tick(at(1)); h.tick(at(20)) }, 20},
		"beats while passes run as long as they may": {func(h *heart) {
			h.begin(at(1))
			h.tick(at(11))
		}, 11},
		"stops when a pass takes longer": {func(h *heart) {
			h.tick(at(0))
			h.begin(at(1))
			h.tick(at(5))
			h.tick(at(12))
		}, 5},
		"stops though another worker is busy": {func(h *heart) {
			h.begin(at(1))
			h.begin(at(10))(at(11))
			h.begin(at(12))(at(13))
		}, 11},
		"goes on when the pass ends after all": {func(h *heart) {
			end := h.begin(at(1))
			h.tick(at(30))
			end(at(40))
		}, 40},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var last time.Time
			tc.do(newHeart(10*time.Second, func(now time.Time) { last = now }))
			if !last.Equal(at(tc.want)) {
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
