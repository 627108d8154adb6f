package resource

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Outcome is what a returned error means for what happens next.
//
//	returned                     outcome   slice     finalizer  next run                            is an error
//	nil                          done      goes on   removed    next event or resync                no
//	RequeueAfter                 waiting   stops     kept       after the given time                no
//	a conflict of the API server waiting   stops     kept       after ConflictDelay                 no
//	reconcile.TerminalError      terminal  stops     kept       when the object changes, or resync  yes
//	any other error              failed    stops     kept       after the back-off of the queue     yes
//
// Partial keeps the slice going in spite of an error, whose outcome it does not change.
type Outcome string

// The outcomes, from best to worst.
const (
	Done     Outcome = "done"
	Waiting  Outcome = "waiting"
	Terminal Outcome = "terminal"
	Failed   Outcome = "failed"
)

// ConflictDelay is when a reconcile that met a conflict runs again: somebody else wrote the object meanwhile, and
// by then the caches have seen it.
const ConflictDelay = 200 * time.Millisecond

// OutcomeOf tells what err means. It is the one place that does: middleware, controller and status ask it.
//
// The outermost statement of a wrapped error counts: a terminal error that wraps a RequeueAfter is terminal. An
// error with several causes (errors.Join, several %w) is as bad as the worst of them.
//
// A conflict of the API server (apierrors.IsConflict) is waiting: another writer was faster, the next run derives
// everything anew, and nobody needs to be told. A cancelled or expired context is failed, as any other error: who
// ended the context knows why, and asks the context and not the error.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Done
	}
	worst := Done
	visit(err, func(o Outcome, _ time.Duration) {
		if rank(o) > rank(worst) {
			worst = o
		}
	})
	return worst
}

// After returns the time to wait that err asks for: the shortest of all its causes that are waiting. It is false
// where none of them gives a time.
func After(err error) (time.Duration, bool) {
	if err == nil {
		return 0, false
	}
	var shortest time.Duration
	visit(err, func(_ Outcome, after time.Duration) {
		if after > 0 && (shortest == 0 || after < shortest) {
			shortest = after
		}
	})
	return shortest, shortest > 0
}

// ErrLasting marks a failure that will not be over within seconds, for errors.Is: what was called has failed for others too. Whoever repeats calls at
// once leaves it to the queue, which has more patience, and occupies no worker.
var ErrLasting = errors.New("lasting")

// RequeueAfter says that there is nothing to do but wait: for d, or, where d is not positive, for the next event or
// resync. It is not a failure. The text is made as by fmt.Errorf, %w included, and says to people what is waited for.
func RequeueAfter(d time.Duration, format string, args ...any) error {
	return &waiting{after: max(d, 0), why: fmt.Errorf(format, args...)}
}

type waiting struct {
	after time.Duration
	why   error
}

func (w *waiting) Error() string { return w.why.Error() }

func (w *waiting) Unwrap() error { return w.why }

// visit calls f for each cause of err, with its outcome and the time it asks to wait, zero for none.
func visit(err error, f func(Outcome, time.Duration)) {
	if err == nil {
		return // a cause may be nil
	}
	if w, ok := err.(*waiting); ok { //nolint:errorlint // err itself is meant, not what it wraps
		f(Waiting, w.after)
		return
	}
	// An aggregate answers Is for all its causes, so that it is taken apart before it is asked.
	if causes := causesOf(err); causes != nil {
		for _, cause := range causes {
			visit(cause, f)
		}
		return
	}
	if isTerminal(err) {
		f(Terminal, 0)
		return
	}
	if _, ok := err.(apierrors.APIStatus); ok && apierrors.IsConflict(err) {
		f(Waiting, ConflictDelay)
		return
	}
	if cause := errors.Unwrap(err); cause != nil {
		visit(cause, f)
		return
	}
	f(Failed, 0)
}

func causesOf(err error) []error {
	switch e := err.(type) { //nolint:errorlint // err itself is meant, not what it wraps
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Errors() []error }: // apimachinery's Aggregate
		return e.Errors()
	default:
		return nil
	}
}

// isTerminal tells whether err itself is terminal, whatever it wraps. Its type is not exported, its Is method is.
func isTerminal(err error) bool {
	e, ok := err.(interface{ Is(error) bool })
	return ok && e.Is(reconcile.TerminalError(nil))
}

func rank(o Outcome) int {
	switch o {
	case Done:
		return 0
	case Waiting:
		return 1
	case Terminal:
		return 2
	default:
		return 3
	}
}

// Result is what became of one run of the slice.
type Result struct {
	// Scope is the state that the run worked on. It is nil where the object as a whole could not be prepared.
	Scope any
	// Operation is what was asked for: Create for a scope to ensure, Delete for a scope to delete.
	Operation Operation
	// Resource names the resource at which the run ended early, empty if there is none.
	Resource string
	// Err is what the run ended with, nil if all of it is done.
	Err error
}

// Outcome tells what the result means.
func (r Result) Outcome() Outcome { return OutcomeOf(r.Err) }
