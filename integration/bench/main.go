// Command bench measures the operator at work on many applications, with three services and three Secrets each:
//
//	make bench
//	E2E_KUBECONFIG=... go run ./integration/bench -applications=1000 -- --workers=32
//
// It measures three things: all applications made at once, until every one is Ready; a pass over all of them while nothing changed; and a restart.
// The second and the third may not write anything, to Kubernetes or to Aiven: that is checked. What follows "--" goes to the operator.
//
// Operator and simulator run as processes of their own, in namespaces that are removed at the end. It prints a table and, as the last line, the same
// in JSON. The exit status is 0 if every application became Ready and nothing was written without need, and 130 after an interruption.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keysmith-io/keysmith/integration/stage"
)

// Exit statuses.
const (
	failure     = 1
	usage       = 2
	interrupted = 130
)

// logLines is how much of the operator's log is shown when something fails.
const logLines = 25

// settings say what is measured.
type settings struct {
	applications, namespaces, cores int
	latency                         time.Duration
	wholeCluster                    bool     // the operator works in other namespaces too
	binary                          string   // of the operator; empty: to be built
	args                            []string // more flags of the operator
}

func main() {
	ctrl.SetLogger(logr.Discard()) // that of the libraries in this process; the operator has its own
	var s settings
	flag.IntVar(&s.applications, "applications", 200, "number of applications")
	flag.IntVar(&s.namespaces, "namespaces", 10, "number of namespaces that they are in")
	flag.DurationVar(&s.latency, "latency", 20*time.Millisecond, "time that each call to the simulated Aiven takes")
	flag.StringVar(&s.binary, "operator", "", "operator to measure, a path; empty: it is built")
	flag.BoolVar(&s.wholeCluster, "whole-cluster", false, "let the operator work in all namespaces, as installed ones do, which takes fewer watches; it disturbs others in the cluster")
	flag.IntVar(&s.cores, "cores", 2, "cores that the operator may use at the same time")
	flag.Parse()
	s.args = flag.Args()
	if s.applications < 1 || s.namespaces < 1 || s.cores < 1 {
		fmt.Fprintln(os.Stderr, "bench: -applications, -namespaces and -cores must be at least 1")
		os.Exit(usage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal does not wait for anything
	os.Exit(run(ctx, os.Stdout, s))
}

// run returns the exit status.
func run(ctx context.Context, out io.Writer, s settings) int {
	b := &bench{settings: s, out: out}
	err := b.measure(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(out, "\nInterrupted.")
	case err != nil:
		fmt.Fprintf(out, "\nFAILED: %s\n", err)
		if b.operator != nil {
			fmt.Fprintf(out, "\nThe end of the operator's log:\n%s\n", stage.Tail(b.operator.Log(), logLines))
		}
	}
	fmt.Fprintln(out, "Cleaning up.")
	if e := b.close(); e != nil {
		fmt.Fprintf(out, "FAILED to clean up: %s\n", e)
		err = errors.Join(err, e)
	}
	if len(b.phases) > 0 && ctx.Err() == nil {
		b.report()
	}
	switch {
	case ctx.Err() != nil:
		return interrupted
	case err != nil:
		return failure
	}
	return 0
}
