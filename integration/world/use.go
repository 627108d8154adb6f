package world

import (
	"os"
	"testing"

	"github.com/keysmith-io/keysmith/integration/operator"
)

// RunLight is Run for tests that start operators by the hundred: it builds one without the race detector, which takes more than half of the time of a
// start.
func RunLight(m *testing.M) {
	race = nil
	_ = os.Unsetenv(operator.BinaryVariable) // cannot fail for a valid name
	Run(m)
}

// Use makes another test the one that fails, until the function that it returns is called: for a world that outlives the tests in it, which come one
// after the other.
func (w *World) Use(t testing.TB) (back func()) {
	before := w.t
	w.t = t
	return func() { w.t = before }
}
