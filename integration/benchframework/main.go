// Command benchframework measures the framework, without the operator that is built on it:
//
//	make bench-framework
//	go run ./integration/benchframework -objects=0
//
// It measures two things. The overhead: passes over objects that need no write, by resources that do nothing, with all
// middleware, against the same resources in the loop of a bare controller-runtime reconciler; called directly, and by
// controller-runtime's queue. And a burst: many objects at once whose resources take their time, with one worker and with
// many. The burst's objects are in the cluster of E2E_KUBECONFIG, in namespaces that are removed at the end, or, without
// one, in memory.
//
// It prints a table, with -json a line of JSON instead; what it is at goes to standard error. The exit status is 0 if every
// pass did what it should, however long it took: a goal that a slow machine misses is shown, and no failure. It is 130 after
// an interruption.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
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

// settings say what is measured.
type settings struct {
	resources      int // of the slice
	rounds, passes int // of the overhead
	objects        int // of the burst
	workers        int
	takes          time.Duration // each resource, in the burst
	json           bool
}

func main() {
	ctrl.SetLogger(logr.Discard()) // for what has no logger of its own
	// A set of its own, because controller-runtime adds a flag to the common one.
	flags := flag.NewFlagSet("benchframework", flag.ExitOnError)
	var s settings
	flags.IntVar(&s.resources, "resources", 10, "number of resources in the slice, at least 2")
	flags.IntVar(&s.rounds, "rounds", 11, "number of times that the overhead is measured, of which the median counts; 0: not at all")
	flags.IntVar(&s.passes, "passes", 10_000, "number of passes in each of these measurements, each over another object")
	flags.IntVar(&s.objects, "objects", 1000, "number of objects in the burst; 0: no burst")
	flags.IntVar(&s.workers, "workers", 16, "number of workers in the burst, which is compared with one of a single worker")
	flags.DurationVar(&s.takes, "takes", 20*time.Millisecond, "time that each resource takes in the burst")
	flags.BoolVar(&s.json, "json", false, "print a line of JSON instead of a table")
	_ = flags.Parse(os.Args[1:]) // which exits if it fails
	if s.resources < 2 || s.rounds < 0 || s.passes < 1 || s.objects < 0 || s.workers < 1 || flags.NArg() > 0 {
		flags.Usage()
		os.Exit(usage)
	}
	os.Exit(run(stage.Interruptible(), os.Stdout, os.Stderr, s))
}

// run returns the exit status.
func run(ctx context.Context, out, progress io.Writer, s settings) int {
	b := &bench{settings: s, progress: progress}
	r, err := b.measure(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(progress, "Interrupted: %s\n", err)
		return interrupted
	case err != nil:
		fmt.Fprintf(progress, "FAILED: %s\n", err)
		return failure
	case !s.json:
		r.print(out)
		return 0
	}
	if err := json.NewEncoder(out).Encode(r); err != nil {
		fmt.Fprintf(progress, "FAILED: %s\n", err)
		return failure
	}
	return 0
}

// bench is what the measurements share.
type bench struct {
	settings
	progress io.Writer
	running  sync.WaitGroup // what goes on in the background until its context ends
}

// say prints what is going on.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

func (b *bench) measure(ctx context.Context) (report, error) {
	r := report{Resources: b.resources}
	if b.rounds > 0 {
		overhead, err := b.measureOverhead(ctx)
		if err != nil {
			return report{}, fmt.Errorf("measure the overhead: %w", err)
		}
		r.Overhead = overhead
	}
	if b.objects > 0 {
		burst, err := b.measureBurst(ctx)
		if err != nil {
			return report{}, fmt.Errorf("measure the burst: %w", err)
		}
		r.Burst = burst
	}
	return r, context.Cause(ctx)
}
