//go:build k8srequired

// Package reconnect shows an operator that loses the API server for a while: it stays up, says what does not work, and goes on with all that changed
// as soon as the API server is back.
package reconnect

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/controlplane"
	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestOperatorOutlivesTheAPIServer(t *testing.T) {
	t.Parallel()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	bed := counting.NewAt(t, plane.Config())
	o := start(t, bed, plane.Config())
	if err := plane.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	o.fails()
	if err := plane.StartAPIServer(); err != nil {
		t.Fatal(err)
	}
	o.change()
	o.recovers()
}

func TestChangesDuringALostWatchAreSeen(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err     syscall.Errno // of attempts to connect
		counted bool          // as failures of watches
	}{
		"while nothing listens": {err: syscall.ECONNREFUSED}, // which client-go repeats without a word
		"while there is no way": {err: syscall.EHOSTUNREACH, counted: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			var w wire
			config := bed.Config()
			config.Dial = w.dial
			o := start(t, bed, config)
			w.cut(test.err)
			o.fails()
			if test.counted {
				bed.AtLeast(1, "watch errors", func() int { return int(o.Metric(watches, "kind", "Secret", "reason", "failed")) })
			}
			o.change()
			if o.saw("changed", "yes") || o.reader.Created("made") != 0 || o.reader.Deleted() != 0 {
				t.Error("the operator reaches the API server")
			}
			w.mend()
			o.recovers()
		})
	}
}

const (
	failures = "operatorkit_controller_errors_total"
	watches  = "keysmith_watch_errors_total"
)

// operator is one whose resource reads each object from the API server in each pass, of which there are several in a second.
type operator struct {
	*counting.Operator

	t      *testing.T
	bed    *counting.Bed
	reader *counting.Resource

	mu      sync.Mutex
	touched map[string]string // what the annotation "touched" of objects was when they were read last
}

func start(t *testing.T, bed *counting.Bed, config *rest.Config) *operator {
	o := &operator{t: t, bed: bed, reader: counting.Named("reader"), touched: map[string]string{}}
	setup := func(op *counting.Operator) error {
		api := op.Manager.GetAPIReader()
		o.reader.Do(func(ctx context.Context, _ resource.Operation, obj client.Object) error {
			s := counting.Secret(obj.GetName())
			if err := api.Get(ctx, client.ObjectKeyFromObject(obj), s); err != nil {
				return fmt.Errorf("read anew: %w", err)
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.touched[s.Name] = s.Annotations["touched"]
			return nil
		})
		cfg := counting.Secrets("reconnect", o.reader)
		cfg.Resync, cfg.MaxBackoff = 200*time.Millisecond, time.Second
		return counting.Controller(cfg)(op)
	}
	o.Operator = bed.StartAs(config, nil, setup)
	bed.Make(counting.Secret("kept"), counting.Secret("changed"), counting.Secret("deleted"))
	for _, name := range []string{"kept", "changed", "deleted"} {
		bed.AtLeast(3, "creations", func() int { return o.reader.Created(name) })
	}
	o.Healthy()
	return o
}

func (o *operator) saw(name, touched string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.touched[name] == touched
}

// fails waits until the operator has noticed that the API server is away, and has said so.
func (o *operator) fails() {
	o.t.Helper()
	o.bed.AtLeast(10, "failed passes", func() int { return int(o.Metric(failures, "controller", "reconnect")) })
	for _, name := range []string{"kept", "changed", "deleted"} {
		o.Logs(`"msg":"Reconciler error"`, `"controller":"reconnect"`, o.bed.Namespace+"/"+name, "resource reader: read anew: ")
	}
}

// change changes what the operator works on.
func (o *operator) change() {
	o.bed.Annotate(counting.Secret("changed"), "touched", "yes")
	o.bed.Remove(counting.Secret("deleted"))
	o.bed.Make(counting.Secret("made"))
}

// recovers waits until all is done that is to do, and sees that it stays so.
func (o *operator) recovers() {
	o.t.Helper()
	o.bed.Gone(counting.Secret("deleted"))
	o.bed.AtLeast(1, "creations", func() int { return o.reader.Created("made") })
	o.bed.Eventually(func(context.Context) error {
		if !o.saw("changed", "yes") {
			return fmt.Errorf("the change was not reconciled")
		}
		return nil
	})
	rounds := func(n int) {
		for _, name := range []string{"kept", "changed", "made"} {
			before := o.reader.Created(name)
			o.bed.AtLeast(before+n, "creations of "+name, func() int { return o.reader.Created(name) })
		}
	}
	rounds(2) // the first one after the outage may have begun during it
	failed, watched, logged := o.Metric(failures), o.Metric(watches), len(o.Errors())
	rounds(10)
	if failed != o.Metric(failures) || watched != o.Metric(watches) || logged != len(o.Errors()) {
		o.t.Errorf("the failures do not stop: %v passes and %v watches failed before, %v and %v now; log: %q",
			failed, watched, o.Metric(failures), o.Metric(watches), o.Errors()[logged:])
	}
	o.Stop()
}
