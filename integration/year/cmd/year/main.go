// Command year lets applications, an operator and a simulated Aiven live through a year, in namespaces of its own of the cluster that E2E_KUBECONFIG names:
//
//	make year SEED=7
//
// It prints the seed, a timeline, what was done and how often, and what does not hold. The exit status is 0 if everything holds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/stage"
	"github.com/keysmith-io/keysmith/integration/year"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // those of the libraries in this process; the operator has its own
	klog.SetLogger(logr.Discard())
	c := year.Config{Kubeconfig: os.Getenv(env.Kubeconfig), Log: say}
	flag.Uint64Var(&c.Seed, "seed", uint64(time.Now().UnixNano()), "what is random comes from it; default: the time")
	flag.IntVar(&c.Weeks, "weeks", 52, "simulated time, at least 6")
	flag.IntVar(&c.Applications, "applications", 50, "number of applications, at least 5")
	flag.IntVar(&c.Outages, "outages", 3, "number of outages")
	flag.IntVar(&c.Restarts, "restarts", 10, "number of restarts of the operator")
	flag.Parse()
	os.Exit(run(stage.Interruptible(), c))
}

func say(format string, args ...any) {
	fmt.Printf(time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
}

// run returns the exit status.
func run(ctx context.Context, c year.Config) int {
	say("seed %d", c.Seed)
	report, err := year.Run(ctx, c)
	violations := 0
	if report != nil {
		fmt.Print(report.Print())
		violations = len(report.Violations)
	}
	return stage.Verdict(say, violations, c.Seed, err)
}
