package middleware

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"k8s.io/utils/clock"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// quick is the time within which the default back-off repeats a call, from the call's beginning.
const quick = 2 * time.Second

// Retry repeats a call whose outcome is failed: not one that waits or is terminal, nor one that met a conflict, which
// only a new read can resolve. It is for the hiccup that the next second heals; longer waits belong to the queue, and so does a failure that is
// resource.ErrLasting.
//
// newBackOff gives the waits. It is called anew for each call that failed, because a back-off has state: one that is
// shared by several workers is a data race and ends their tries for each other. The call ends when the back-off says
// backoff.Stop, when ctx ends, or when ctx would end before the wait does; the last error is returned as it is.
// With nil, a call is repeated after about 0.5 and 0.75 seconds, as long as less than two seconds have passed
// since it began, so that a call which takes long by itself is not repeated at all.
//
// Back-offs of github.com/giantswarm/backoff fit too, except its NewExponential of v1.0.1: together with the
// v4.3.0 of the library underneath it does not stop when its time is over, but goes on without any wait.
func Retry(newBackOff func() backoff.BackOff, clk clock.Clock) resource.Middleware {
	if clk == nil {
		clk = clock.RealClock{}
	}
	return resource.Around(func(ctx context.Context, c resource.Call) error {
		start := clk.Now()
		err := c.Run(ctx)
		if !worth(err) {
			return err
		}
		var waits backoff.BackOff
		if newBackOff != nil {
			waits = newBackOff()
		} else if waits = quickly(clk.Since(start), clk); waits == nil {
			return err
		}
		for worth(err) && wait(ctx, waits.NextBackOff(), clk) {
			err = c.Run(ctx)
		}
		return err
	})
}

// worth tells whether to repeat a call helps.
func worth(err error) bool {
	return resource.OutcomeOf(err) == resource.Failed && !errors.Is(err, resource.ErrLasting)
}

// quickly returns the default back-off of a call that has taken some time already, nil if it took too long.
func quickly(taken time.Duration, clk backoff.Clock) backoff.BackOff {
	if taken >= quick { // a back-off without time never stops
		return nil
	}
	return backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(quick-taken), backoff.WithClockProvider(clk))
}

// wait returns true when d has passed. It returns false at once where d is backoff.Stop or ctx ends before.
func wait(ctx context.Context, d time.Duration, clk clock.Clock) bool {
	if d == backoff.Stop || ctx.Err() != nil {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
