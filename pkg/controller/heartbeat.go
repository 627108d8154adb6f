package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// beatInterval is how often a controller shows that it lives, with or without objects.
const beatInterval = 15 * time.Second

// heart tells whether a controller or a Periodic lives: whether none of its passes takes longer than it may.
type heart struct {
	clock clock.PassiveClock
	limit time.Duration // of a pass
	beat  func(now time.Time)

	mu      sync.Mutex
	next    int
	running map[int]time.Time // beginnings of passes
}

func newHeart(clk clock.PassiveClock, limit time.Duration, beat func(time.Time)) *heart {
	return &heart{clock: clk, limit: limit, beat: beat, running: map[int]time.Time{}}
}

// begin notes a pass, and returns what is called at its end.
func (h *heart) begin() (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.next
	h.next++
	h.running[id] = h.clock.Now()
	return func() {
		h.mu.Lock()
		delete(h.running, id)
		h.mu.Unlock()
		h.tick()
	}
}

// tick beats, unless a pass hangs: one that does not obey its context is never cut off, and holds a worker for good.
func (h *heart) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	for _, began := range h.running {
		if now.Sub(began) > h.limit {
			return
		}
	}
	h.beat(now)
}

// pulse is the request that stands for no object: it goes through the queue and the workers as every other, so that
// the heart stops with them.
var pulse = reconcile.Request{}

// pulses adds the pulse to the queue now and then. It begins when the controller does, before its caches are filled.
type pulses struct{ tick func() }

// String names the source in the log.
func (pulses) String() string { return "heartbeat" }

// Start returns at once.
func (p pulses) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	p.tick()
	go every(ctx, beatInterval, func() { queue.Add(pulse) })
	return nil
}

// every calls f at each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}
