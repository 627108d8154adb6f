// Command bench measures the operator at work on many applications, with three services and three Secrets each:
//
//	make bench
//	E2E_KUBECONFIG=... go run ./integration/bench -applications=1000 -pods=2000 -- --workers=32
//
// First it measures the floor: a driver that makes only the calls that nobody can avoid. Then come the phases of -phases:
//
//	burst       all applications made at once, until every one is Ready
//	resync      a pass over all of them while nothing changed
//	restart     a new process, which finds everything in order
//	janitor     rounds of the janitor while nothing is unused
//	slow        a tenth as many more applications, twice: alone, and while a project of others answers 503
//	namespace   one namespace deleted with all that is in it
//	deletion    all applications deleted with their Secrets
//
// Resync, restart and janitor may not write anything, to Kubernetes or to Aiven: that is checked. What follows "--" goes to the operator. With -foreign
// another operator is measured, which gets nothing but that: {kubeconfig}, {aiven}, {token}, {project} and {metrics} in it, and in -env, are
// replaced; it is measured in the phases burst and restart.
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
	"slices"
	"strings"
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
	pods, secrets, largeSecrets     int // that are there besides
	latency                         time.Duration
	topics                          bool     // each application has a topic right
	sharedSearch                    bool     // one OpenSearch service for all namespaces
	wholeCluster                    bool     // the operator works in other namespaces too
	withoutFloor                    bool     // the floor is not measured
	keep                            bool     // what was made is left in the cluster
	phases                          []string // names of what is measured, in this order
	binary                          string   // of the operator; empty: to be built
	foreign                         bool     // it is another operator, and gets no flags but args
	args                            []string // more flags of the operator
	env                             []string // more environment of a foreign operator, "NAME=value"
}

func main() {
	ctrl.SetLogger(logr.Discard()) // that of the libraries in this process; the operator has its own
	var s settings
	flag.IntVar(&s.applications, "applications", 300, "number of applications")
	flag.IntVar(&s.namespaces, "namespaces", 10, "number of namespaces that they are in")
	flag.IntVar(&s.pods, "pods", 0, "number of Pods that refer to the applications' Secrets, with a Deployment for every ten of them")
	flag.IntVar(&s.secrets, "secrets", 0, "number of small Secrets that are nobody's")
	flag.IntVar(&s.largeSecrets, "large-secrets", 0, "number of Secrets of 1 MiB that are nobody's")
	flag.BoolVar(&s.topics, "topics", false, "let every application ask for a right on a topic too")
	flag.BoolVar(&s.sharedSearch, "shared-opensearch", false, "let all namespaces share one OpenSearch service, whose rights are one document")
	flag.BoolVar(&s.withoutFloor, "without-floor", false, "do not measure the floor")
	flag.BoolVar(&s.keep, "keep", false, "leave in the cluster what was made, which saves minutes where the cluster goes too")
	flag.BoolVar(&s.foreign, "foreign", false, "measure another operator, the one of -operator")
	flag.Func("env", "environment variable of a foreign operator, NAME=value; can be repeated", func(text string) error {
		s.env = append(s.env, text)
		return nil
	})
	list := flag.String("phases", "", "phases to measure, separated by commas; default: all that can be")
	flag.DurationVar(&s.latency, "latency", 20*time.Millisecond, "time that each call to the simulated Aiven takes")
	flag.StringVar(&s.binary, "operator", "", "operator to measure, a path; empty: it is built")
	flag.BoolVar(&s.wholeCluster, "whole-cluster", false, "let the operator work in all namespaces, as installed ones do, which takes fewer watches; it disturbs others in the cluster")
	flag.IntVar(&s.cores, "cores", 2, "cores that the operator may use at the same time")
	flag.Parse()
	s.args = flag.Args()
	if err := s.choose(*list); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s\n", err)
		os.Exit(usage)
	}
	os.Exit(run(stage.Interruptible(), os.Stdout, s))
}

// choose fills in the phases, and says what is wrong with the settings.
func (s *settings) choose(list string) error {
	if s.applications < 1 || s.namespaces < 1 || s.cores < 1 {
		return errors.New("-applications, -namespaces and -cores must be at least 1")
	}
	if min(s.pods, s.secrets, s.largeSecrets) < 0 {
		return errors.New("-pods, -secrets and -large-secrets must not be negative")
	}
	if s.foreign && s.binary == "" {
		return errors.New("-foreign needs -operator")
	}
	s.phases = strings.Split(list, ",")
	if list == "" {
		s.phases = nil
		for _, p := range parts {
			if !s.foreign || p.foreign {
				s.phases = append(s.phases, p.name)
			}
		}
	}
	for _, name := range s.phases {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name && (p.foreign || !s.foreign) }) {
			return fmt.Errorf("-phases: %q cannot be measured; see the package comment", name)
		}
	}
	return nil
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
	if len(b.results) > 0 && ctx.Err() == nil {
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
