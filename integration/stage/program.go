package stage

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interruptible is a context for a whole program that ends when somebody interrupts it. A second signal does not wait for anything.
func Interruptible() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Verdict says what a trial came to, where that is not that all holds, and returns the exit status of its program. The seed draws the same again.
func Verdict(say func(format string, args ...any), violations int, seed uint64, err error) int {
	switch {
	case err != nil:
		say("FAILED: %v", err)
	case violations > 0:
		say("FAILED: %d violations; seed %d", violations, seed)
	default:
		return 0
	}
	return 1
}
