// Command demo shows keysmith at work, from an application to its Secrets and back, and checks every step:
//
//	make demo
//
// It needs a cluster, which E2E_KUBECONFIG names, and nothing else: Aiven is simulated, the operator is built and runs as a process beside
// it. All happens in a namespace that is removed at the end. The exit status is 0 only if everything was as it should be, and 130 after an
// interruption.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keysmith-io/keysmith/integration/stage"
)

// Exit statuses.
const (
	failure     = 1
	interrupted = 130
)

// logLines is how much of the operator's log is shown when a step fails.
const logLines = 25

// step is one thing that is shown and checked.
type step struct {
	name string
	run  func(*demo, context.Context) error
}

// steps is the order of events. Each builds on those before it.
var steps = []step{
	{"Build the operator", (*demo).build},
	{"Start a simulated Aiven, and the operator", (*demo).start},
	{"Ask for credentials", (*demo).apply},
	{"What became of the application", (*demo).status},
	{"What Aiven holds now", (*demo).users},
	{"Secret webshop-kafka", (*demo).kafkaSecret},
	{"The Kafka certificate and the stores for Java clients", (*demo).certificate},
	{"Secret webshop-opensearch", (*demo).openSearchSecret},
	{"Secret webshop-valkey, for two instances", (*demo).valkeySecret},
	{"Lower the access to OpenSearch from readwrite to read", (*demo).lower},
	{"Edit a Secret by hand", (*demo).edit},
	{"Delete the application while a Deployment still uses one of its Secrets", (*demo).deleteApplication},
	{"Delete the Deployment", (*demo).deleteDeployment},
	{"Nothing is left", (*demo).nothingLeft},
}

func main() {
	ctrl.SetLogger(logr.Discard()) // that of the libraries in this process; the operator has its own
	os.Exit(run(stage.Interruptible(), os.Stdout))
}

// run returns the exit status.
func run(ctx context.Context, out io.Writer) int {
	began := time.Now()
	d := &demo{out: out}
	err := d.play(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(out, "\nInterrupted.")
	case err != nil:
		fmt.Fprintf(out, "\nFAILED: %s\n", err)
		if d.operator != nil {
			fmt.Fprintf(out, "\nThe end of the operator's log:\n%s\n", stage.Tail(d.operator.Log(), logLines))
		}
	}
	fmt.Fprintln(out, "\nCleaning up.")
	if e := d.close(); e != nil {
		fmt.Fprintf(out, "FAILED to clean up: %s\n", e)
		err = errors.Join(err, e)
	}
	switch {
	case ctx.Err() != nil:
		return interrupted
	case err != nil:
		return failure
	}
	fmt.Fprintf(out, "All %d steps were as they should be, in %s.\n", len(steps), time.Since(began).Round(time.Second))
	return 0
}

// play runs the steps until one fails.
func (d *demo) play(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.cancel = cancel
	for i, s := range steps {
		fmt.Fprintf(d.out, "\n%d. %s\n\n", i+1, s.name)
		if err := s.run(d, ctx); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}
