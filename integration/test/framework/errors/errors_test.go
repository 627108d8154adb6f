//go:build k8srequired

// Package errors shows that an error stops the slice of one object in one controller, and nothing else: other objects and other controllers go on,
// the object is tried again, and is healed when the error is.
package errors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// failFor makes calls for the object of that name fail.
func failFor(name string, err error) counting.Decide {
	return func(_ context.Context, _ resource.Operation, obj client.Object) error {
		if obj.GetName() == name {
			return err
		}
		return nil
	}
}

func TestErrorStopsItsObjectAlone(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	first, second := counting.Named("first").Do(failFor("sick", errors.New("no power"))), counting.Named("second")
	other := counting.Named("other")
	failing := counting.Secrets("failing", first, second) // with one worker
	failing.MaxBackoff = 50 * time.Millisecond
	op := bed.Start(counting.Controller(failing), counting.Controller(counting.Secrets("other", other)))

	bed.Make(counting.Secret("sick"))
	bed.AtLeast(3, "tries", func() int { return first.Created("sick") })
	bed.Make(counting.Secret("well"))
	bed.AtLeast(1, "creations of the other object", func() int { return second.Created("well") })
	bed.AtLeast(1, "creations by the other controller", func() int { return other.Created("sick") })
	tries := first.Created("sick")
	bed.AtLeast(tries+3, "tries", func() int { return first.Created("sick") })
	if n := second.Created("sick"); n != 0 {
		t.Errorf("the slice went on %d times after an error", n)
	}

	first.Do(nil)
	bed.AtLeast(1, "creations after the error is over", func() int { return second.Created("sick") })
	op.Stop()
	// Each failed pass is counted once and logged once, with where it happened.
	lines := op.Errors()
	for _, want := range []string{`"controller":"failing"`, fmt.Sprintf(`"object":"%s/sick"`, bed.Namespace), "resource first: no power"} {
		for _, line := range lines {
			if !strings.Contains(line, want) {
				t.Errorf("no %s in the line %s", want, line)
			}
		}
	}
	failed := first.Created("sick") - second.Created("sick")
	if n := op.Metric("operatorkit_controller_errors_total", "controller", "failing"); int(n) != failed || len(lines) != failed {
		t.Errorf("%d failed passes, %v counted, %d logged", failed, n, len(lines))
	}
	if n := op.Metric("operatorkit_controller_errors_total", "controller", "other"); n != 0 {
		t.Errorf("%v failures counted for the controller that had none", n)
	}
}

func TestOutcomeSaysWhatComesNext(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err     error
		repeats bool
		fails   bool
	}{
		"tries a failure again":            {err: errors.New("no power"), repeats: true, fails: true},
		"leaves a terminal error as it is": {err: reconcile.TerminalError(errors.New("never")), fails: true},
		"comes back when it was asked to":  {err: resource.RequeueAfter(50*time.Millisecond, "not yet"), repeats: true},
		"waits for an event":               {err: resource.RequeueAfter(0, "not yet")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			first, second := counting.Named("first").Do(failFor("cart", test.err)), counting.Named("second")
			cfg := counting.Secrets("outcome", first, second)
			cfg.MaxBackoff = 50 * time.Millisecond
			op := bed.Start(counting.Controller(cfg))
			bed.Make(counting.Secret("cart"))
			if test.repeats {
				bed.AtLeast(5, "passes", func() int { return first.Created("cart") })
			} else {
				pulse(bed, second, 5) // another object runs often meanwhile
				if n := first.Created("cart"); n != 1 {
					t.Errorf("%d passes, want the one of the creation", n)
				}
			}
			if n := second.Created("cart"); n != 0 {
				t.Errorf("the slice went on %d times", n)
			}
			if failed := op.Metric("operatorkit_controller_errors_total") > 0; failed != test.fails {
				t.Errorf("a failure is counted: %t, want %t", failed, test.fails)
			}
			first.Do(nil)
			bed.Annotate(counting.Secret("cart"), "touched", "1") // an event ends all waiting
			bed.AtLeast(1, "creations", func() int { return second.Created("cart") })
		})
	}
}

// pulse lets r run n times for an object of its own.
func pulse(bed *counting.Bed, r *counting.Resource, n int) {
	s := counting.Secret("pulse")
	bed.Make(s)
	for i := range n {
		before := r.Created("pulse")
		bed.Annotate(s, "touched", fmt.Sprint(i))
		bed.AtLeast(before+1, "passes of the pulse", func() int { return r.Created("pulse") })
	}
}
