package controller

import (
	"context"
	"time"
)

const defaultGrace = 20 * time.Second

// isClosed tells whether a signal was given by closing its channel. A nil one never is.
func isClosed(signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	default:
		return false
	}
}

// outlive returns a context with the values of parent. Where the process was asked to stop, it outlives parent by
// grace; where parent ends without that, because the lease is lost, it ends at the same moment.
func outlive(parent context.Context, stopping <-chan struct{}, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		if isClosed(stopping) {
			timer := time.NewTimer(grace)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		cancel()
	})
	return ctx, func() {
		stop()
		cancel()
	}
}
