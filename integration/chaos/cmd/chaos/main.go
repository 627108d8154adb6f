// Command chaos lets chaos loose on the operator, in namespaces of its own of the cluster that E2E_KUBECONFIG names:
//
//	make chaos DURATION=10m SEED=7
//
// It prints the seed, what it did and how often, and what does not hold, with the history of what it concerns. The exit status is 0 if everything holds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keysmith-io/keysmith/integration/chaos"
	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/stage"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // that of the libraries in this process; the operator has its own
	c := chaos.Config{Kubeconfig: os.Getenv(env.Kubeconfig), Log: say}
	flag.Uint64Var(&c.Seed, "seed", uint64(time.Now().UnixNano()), "what is random comes from it; default: the time")
	flag.DurationVar(&c.Duration, "duration", 10*time.Minute, "how long faults go on")
	flag.DurationVar(&c.Patience, "patience", 3*time.Minute, "how long all may take to be in order afterwards")
	flag.DurationVar(&c.Pause, "pause", time.Second, "average time between two operations in a namespace")
	flag.IntVar(&c.Namespaces, "namespaces", 3, "number of namespaces")
	flag.IntVar(&c.Applications, "applications", 4, "number of applications in each, at most")
	flag.IntVar(&c.Replicas, "replicas", 2, "number of operators; more than one contend for the lease")
	flag.StringVar(&c.Logs, "logs", "", "folder in which the operators' logs are kept")
	flag.StringVar(&c.Binary, "operator", "", "operator to test, a path; empty: it is built, with the race detector")
	flag.Parse()
	os.Exit(run(stage.Interruptible(), c))
}

func say(format string, args ...any) {
	fmt.Printf(time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// run returns the exit status.
func run(ctx context.Context, c chaos.Config) int {
	say("seed %d, %s of faults", c.Seed, c.Duration)
	if c.Binary == "" {
		dir, err := os.MkdirTemp("", "keysmith-operator-")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }() // it is a temporary folder
			c.Binary, err = operator.Build(ctx, dir, "-race")
		}
		if err != nil {
			say("FAILED: %v", err)
			return 1
		}
	}
	report, err := chaos.Run(ctx, c)
	violations := 0
	if report != nil {
		fmt.Print(report.Print())
		violations = len(report.Violations)
	}
	return stage.Verdict(say, violations, c.Seed, err)
}
