package world

import (
	"slices"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/integration/clockwork"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// Timed is a world whose time the test moves. The operator and the simulator go by one clock, which stands still between two calls of Advance; the
// operator runs in the process of the test, with all that a process of its own has but the signal handler and the commands. The API server goes by the
// real time, at which the clock begins.
//
// Operators can be stopped, killed and started at any time, one at a time. One that was started with the production's settings looks at each
// application every 15 minutes; Advance is quickest where --resync and --janitor-period are long.
type Timed struct {
	*World

	works *clockwork.Clockwork
}

// NewTimed makes a world as New does, with a clock that begins now, at a full second.
func NewTimed(t testing.TB) *Timed {
	t.Helper()
	works := clockwork.New()
	return &Timed{World: newWorld(t, aivensim.Options{Clock: works.Clock()}), works: works}
}

// Now is the time of the world.
func (w *Timed) Now() time.Time { return w.works.Now() }

// Start starts an operator with the defaults of production and these flags, and waits until it has nothing to do. The janitor is not quick here: its
// timer is by the clock.
func (w *Timed) Start(args ...string) {
	w.t.Helper()
	process, err := w.works.Start(clockwork.Operator{
		Client: w.Client, Namespaces: []string{w.Namespace}, Token: Token,
		Args: slices.Concat(w.args(), []string{"--kubeconfig=" + w.Kubeconfig()}, args),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Operator = process
	w.Settle()
}

// Stop asks the operator to stop and waits for it.
func (w *Timed) Stop() {
	w.t.Helper()
	w.works.Ended()
	w.World.Stop()
}

// Kill ends the operator in the middle of what it does. What it has sent may take effect or not.
func (w *Timed) Kill() {
	w.t.Helper()
	w.works.Ended()
	w.World.Kill()
}

// Restart ends the operator well and starts another one.
func (w *Timed) Restart(args ...string) {
	w.t.Helper()
	w.Stop()
	w.Start(args...)
}

// Advance moves the time on by d. Everything that falls due in between happens at its moment and in its order, and has been done when it returns:
// what is due next is waited for, and done, before the time moves on. Without an operator the time just moves.
func (w *Timed) Advance(d time.Duration) {
	w.t.Helper()
	w.AdvanceTo(w.Now().Add(d))
}

// AdvanceTo is Advance up to a time.
func (w *Timed) AdvanceTo(end time.Time) {
	w.t.Helper()
	if err := w.works.AdvanceTo(w.t.Context(), end); err != nil {
		w.t.Fatal(err)
	}
}

// Settle waits until the operator has nothing to do at this moment: its queues are empty, none of its passes runs, and everything that the API server
// has of the namespace has passed through its caches and handlers into its queues. What the test has written before the call is part of that; what other
// programs make of it, such as Pods of a Deployment, has to be waited for before.
func (w *Timed) Settle() {
	w.t.Helper()
	if err := w.works.Settle(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}
