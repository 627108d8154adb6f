package controller

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NewQueue makes the queue of a controller. Its name and its back-off are given. Tests make queues whose delays are by a clock of theirs.
type NewQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// minBackoff is the delay after the first failure of an object. It is long compared to the quick repetitions of a
// single call, which came before.
const minBackoff = 500 * time.Millisecond

// limiter is the queue's back-off: exponential, per object. It exists because controller-runtime ignores the
// RequeueAfter of a pass that also returns an error, while ours may have both: one scope fails, another one waits.
type limiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	soonest sync.Map // reconcile.Request to time.Duration
}

func newLimiter(longest time.Duration) *limiter {
	return &limiter{TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
		min(minBackoff, longest), longest)}
}

// within makes the next delay of req at most d.
func (l *limiter) within(req reconcile.Request, d time.Duration) { l.soonest.Store(req, d) }

// When returns the delay before the next try, and counts it. It is up to a fifth shorter than the back-off: objects that failed together do not come back
// together.
func (l *limiter) When(req reconcile.Request) time.Duration {
	delay := l.TypedRateLimiter.When(req)
	delay -= rand.N(delay/5 + 1)
	if d, ok := l.soonest.LoadAndDelete(req); ok {
		delay = min(delay, d.(time.Duration))
	}
	return delay
}

// jitter spreads d by up to a fifth to both sides, so that what began together does not stay together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// earliest returns the shortest of the positive durations, zero if there is none.
func earliest(ds ...time.Duration) time.Duration {
	var shortest time.Duration
	for _, d := range ds {
		if d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return shortest
}
