package clockwork

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is the queue of a controller whose delays are by a clock that is moved. What is asked for several times waits for the earliest moment, as
// in controller-runtime's own queue. Nothing in it happens by itself: release adds what has become due.
type queue struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	clock clock.PassiveClock

	mu      sync.Mutex
	changed sync.Cond
	ready   []reconcile.Request
	running map[reconcile.Request]bool
	again   map[reconcile.Request]bool // was added while it was running
	delayed map[reconcile.Request]time.Time
	taken   int // how many items were given to workers
	soon    int // items that are added after a real delay
	waiting int // workers that wait for an item
	down    bool
}

var _ workqueue.TypedRateLimitingInterface[reconcile.Request] = (*queue)(nil)

func newQueue(clk clock.PassiveClock, limiter workqueue.TypedRateLimiter[reconcile.Request]) *queue {
	q := &queue{
		TypedRateLimiter: limiter, clock: clk,
		running: map[reconcile.Request]bool{}, again: map[reconcile.Request]bool{}, delayed: map[reconcile.Request]time.Time{},
	}
	q.changed.L = &q.mu
	return q
}

// Add adds an item unless it is there.
func (q *queue) Add(item reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(item)
}

func (q *queue) add(item reconcile.Request) {
	delete(q.delayed, item)
	switch {
	case q.down || slices.Contains(q.ready, item):
	case q.running[item]:
		q.again[item] = true
	default:
		q.ready = append(q.ready, item)
		q.changed.Broadcast()
	}
}

// short delays are real: they give caches, which go by the real time, a moment to catch up. The shortest back-off is longer.
const short = 500 * time.Millisecond

// AddAfter adds an item once the clock has moved on by d.
func (q *queue) AddAfter(item reconcile.Request, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.clock.Now().Add(d)
	before, ok := q.delayed[item]
	switch {
	case d <= 0:
		q.add(item)
	case d < short:
		q.soon++
		time.AfterFunc(d, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.soon--
			q.add(item)
		})
	case !ok || at.Before(before):
		q.delayed[item] = at
	}
}

// AddRateLimited adds an item after its back-off.
func (q *queue) AddRateLimited(item reconcile.Request) { q.AddAfter(item, q.When(item)) }

// Get waits for an item.
func (q *queue) Get() (item reconcile.Request, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting++
	for len(q.ready) == 0 && !q.down {
		q.changed.Wait()
	}
	q.waiting--
	if q.down {
		return reconcile.Request{}, true
	}
	item, q.ready = q.ready[0], q.ready[1:]
	q.running[item] = true
	q.taken++
	return item, false
}

// Done says that an item is no longer worked on.
func (q *queue) Done(item reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, item)
	if q.again[item] {
		delete(q.again, item)
		q.add(item)
	}
}

// Len is how many items wait for a worker.
func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ready)
}

// ShutDown ends all workers after the item that they work on.
func (q *queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.down = true
	q.changed.Broadcast()
}

// ShutDownWithDrain is ShutDown: workers end with their item.
func (q *queue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown tells whether the queue was shut down.
func (q *queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.down
}

// idle tells whether workers are there and have nothing to do, and how many items they were given so far.
func (q *queue) idle() (bool, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting > 0 && q.soon == 0 && len(q.ready) == 0 && len(q.running) == 0, q.taken
}

// next is when the first delay ends; zero: there is none.
func (q *queue) next() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	var first time.Time
	for _, at := range q.delayed {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// release adds what is due, the longest due first.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	var due []reconcile.Request
	for item, at := range q.delayed {
		if !at.After(now) {
			due = append(due, item)
		}
	}
	slices.SortFunc(due, func(a, b reconcile.Request) int { return q.delayed[a].Compare(q.delayed[b]) })
	for _, item := range due {
		q.add(item)
	}
}
