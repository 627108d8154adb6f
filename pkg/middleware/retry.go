package middleware

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Retry repeats a call whose outcome is failed: not one that waits or is terminal, nor one that met a conflict, which
// only a new read can resolve. It is for the hiccup that the next second heals; longer waits belong to the queue.
//
// newBackOff gives the waits. It is called anew for each call, because a back-off has state: one that is shared by
// several workers is a data race and ends their tries for each other. The call ends when the back-off says
// backoff.Stop, when ctx ends, or when ctx would end before the wait does; the last error is returned as it is.
// With nil, a call is repeated after about 0.5 and 0.75 seconds, as long as less than two seconds have passed
// since it began, so that a call which takes long by itself is not repeated at all.
//
// Back-offs of github.com/giantswarm/backoff fit too, except its NewExponential of v1.0.1: together with the
// v4.3.0 of the library underneath it does not stop when its time is over, but goes on without any wait.
func Retry(newBackOff func() backoff.BackOff) resource.Middleware {
	if newBackOff == nil {
		newBackOff = quick
	}
	return resource.Around(func(ctx context.Context, c resource.Call) error {
		waits := newBackOff()
		err := c.Run(ctx)
		for resource.OutcomeOf(err) == resource.Failed && wait(ctx, waits.NextBackOff()) {
			err = c.Run(ctx)
		}
		return err
	})
}

func quick() backoff.BackOff {
	return backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(2 * time.Second))
}

// wait returns true when d has passed. It returns false at once where d is backoff.Stop or ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	if d == backoff.Stop || ctx.Err() != nil {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
