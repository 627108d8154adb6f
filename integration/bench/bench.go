package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/stage"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// The simulated Aiven: one Kafka service for all, and an OpenSearch and a Valkey instance for each namespace.
const (
	project      = "bench"
	slowProject  = "slow" // has a Kafka service too
	floorProject = "floor"
	token        = "avnT_bench_token"
	instance     = "shared"
)

const (
	// patience is how long a phase may take.
	patience = 10 * time.Minute
	// stopTime is how long the operator may take to end.
	stopTime = 30 * time.Second
)

// bench is what the phases share.
type bench struct {
	settings
	out io.Writer

	dir       string // for files that go at the end
	stage     *stage.Stage
	in        []string // the namespaces
	floorIn   []string // those of the floor
	gateway   *gateway
	simulator *simulator
	operator  *operator.Process
	floor     time.Duration // of the burst; zero: not measured
	results   []phase
	peak      int64 // the most memory that any process of the operator has held
}

// part is a phase as it can be chosen.
type part struct {
	name    string
	foreign bool // any operator can be measured in it
	run     func(*bench, context.Context) error
}

var parts = []part{
	{"burst", true, (*bench).burst},
	{"resync", false, (*bench).resync},
	{"restart", true, (*bench).restart},
	{"janitor", false, (*bench).janitor},
	{"failing", false, (*bench).failing},
	{"hanging", false, (*bench).hanging},
	{"namespace", false, (*bench).namespace},
	{"deletion", false, (*bench).deletion},
}

// close ends what runs, and removes all that was made unless it is kept.
func (b *bench) close() error {
	var errs []error
	if b.operator != nil {
		b.operator.Kill()
	}
	if b.stage != nil && !b.keep {
		errs = append(errs, b.stage.Close())
	}
	if b.simulator != nil {
		b.simulator.stop()
	}
	if b.gateway != nil {
		b.gateway.close()
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// say prints a line.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// measure runs the phases.
func (b *bench) measure(ctx context.Context) error {
	b.say("Preparing %d applications in %d namespaces, on a machine with %d cores, of which the operator uses %d.",
		b.applications, b.namespaces, runtime.NumCPU(), b.cores)
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, name := range b.phases {
		p := parts[slices.IndexFunc(parts, func(p part) bool { return p.name == name })]
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (b *bench) prepare(ctx context.Context) (err error) {
	if b.stage, err = stage.Open(ctx); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "keysmith-bench-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	b.say("Building operator and simulator. The first time this compiles the Kubernetes libraries, which takes a minute or two.")
	if b.binary == "" {
		if b.binary, err = operator.Build(ctx, b.dir); err != nil {
			return err
		}
	}
	if b.gateway, err = newGateway(b.stage.Config, b.dir); err != nil {
		return err
	}
	// Users are as large as Aiven's, but to sign their certificates takes the simulator no time.
	args := []string{"--token=" + token, "--latency=" + b.latency.String(), "--ecdsa-ca", "--user-limit=-1"}
	for _, p := range []string{project, slowProject, floorProject} {
		args = append(args, "--service="+p+"/"+kafkaOf(p)+":kafka:schema_registry")
	}
	for n := range b.namespaces {
		namespace, err := b.stage.Namespace(ctx, "bench-")
		if err != nil {
			return err
		}
		b.in = append(b.in, namespace)
		for _, kind := range []binding.Kind{binding.OpenSearch, binding.Valkey} {
			args = append(args, fmt.Sprintf("--service=%s/%s:%s", floorProject, floorService(kind, n), kind))
			service := fmt.Sprintf("%s-%s-%s", kind, namespace, instance)
			shared := kind == binding.OpenSearch && b.sharedSearch
			if shared {
				service = instance
			}
			if !shared || n == 0 {
				args = append(args, fmt.Sprintf("--service=%s/%s:%s", project, service, kind))
			}
			if err := b.stage.Instance(ctx, kind, namespace, service); err != nil {
				return err
			}
		}
		if !b.withoutFloor {
			if namespace, err = b.stage.Namespace(ctx, "bench-floor-"); err != nil {
				return err
			}
			b.floorIn = append(b.floorIn, namespace)
		}
	}
	if b.simulator, err = startSimulator(ctx, b.dir, args...); err != nil {
		return err
	}
	if err := b.populate(ctx); err != nil {
		return err
	}
	if !b.withoutFloor {
		b.say("Measuring the floor.")
		if b.floor, err = b.measureFloor(ctx); err != nil {
			return err
		}
		b.say("%6.2fs  the calls that cannot be avoided are made", b.floor.Seconds())
	}
	if err := b.start(); err != nil {
		return err
	}
	return b.atWork(ctx)
}

// kafkaOf is the name of a project's Kafka service.
func kafkaOf(project string) string {
	if project == slowProject {
		return project + "-kafka"
	}
	return "kafka"
}

// atWork waits until the operator is.
func (b *bench) atWork(ctx context.Context) error {
	ctx, cancel := b.whileItRuns(ctx)
	defer cancel()
	if b.foreign { // nothing is known of it but that it lists what it works on
		return stage.Await(ctx, patience, func(context.Context) error {
			if b.gateway.requests()["watch aivenapplications"] == 0 {
				return errors.New("the operator does not watch applications yet")
			}
			return nil
		})
	}
	// The janitor starts when the caches are filled, as everything does.
	return stage.Await(ctx, patience, func(ctx context.Context) error {
		if err := b.operator.Ready(ctx); err != nil {
			return err
		}
		s, err := b.sample(ctx)
		if err == nil && !s.rounds {
			err = errors.New("the operator is not at work yet")
		}
		return err
	})
}

// start starts the operator, with more arguments than those that it always has. Without leader election it writes nothing but its work.
func (b *bench) start(more ...string) (err error) {
	o := operator.Options{Binary: b.binary, Env: []string{"GOMAXPROCS=" + strconv.Itoa(b.cores)}}
	if b.foreign {
		return b.startForeign(o)
	}
	args := []string{"--leader-election=false", "--aiven-url=" + b.simulator.url, "--projects=" + project + "," + slowProject, "--cluster-name=bench"}
	if !b.wholeCluster {
		args = append(args, "--namespaces="+strings.Join(b.in, ","))
	}
	o.Kubeconfig = b.gateway.kubeconfig
	o.Args = slices.Concat(args, more, b.args)
	o.Env = append(o.Env, "KEYSMITH_AIVEN_TOKEN="+token)
	b.operator, err = operator.Start(o)
	return err
}

// startForeign starts another operator.
func (b *bench) startForeign(o operator.Options) (err error) {
	metrics, err := operator.FreeAddress()
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("{kubeconfig}", b.gateway.kubeconfig, "{aiven}", b.simulator.url, "{token}", token, "{project}", project, "{metrics}", metrics)
	for _, arg := range b.args {
		o.Args = append(o.Args, fill.Replace(arg))
	}
	for _, variable := range b.env {
		o.Env = append(o.Env, fill.Replace(variable))
	}
	b.operator, err = operator.StartPlain(o)
	return err
}

// stop ends the operator and keeps its peak of memory.
func (b *bench) stop() error {
	b.peak = max(b.peak, peakMemory(b.operator.PID()))
	status, err := b.operator.Stop(stopTime)
	if err == nil && status != 0 && !b.foreign {
		err = fmt.Errorf("stop the operator: exit status %d", status)
	}
	return err
}

// whileItRuns returns a context that ends with the operator, if there is one, at the latest.
func (b *bench) whileItRuns(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.operator == nil {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-b.operator.Done():
			cancel(errors.New("the operator has ended"))
		}
	}()
	return ctx, func() { cancel(nil) }
}

// each calls f for each application, side by side for the namespaces.
func (b *bench) each(f func(i int, namespace string) error) error {
	return b.eachIn(b.in, func(i, ns int) error { return f(i, b.in[ns]) })
}

// eachIn calls f for each application with the number of its namespace, side by side for the namespaces.
func (b *bench) eachIn(in []string, f func(i, ns int) error) error {
	errs := make([]error, len(in))
	var wg sync.WaitGroup
	for n := range in {
		wg.Go(func() {
			for i := n; i < b.applications && errs[n] == nil; i += len(in) {
				errs[n] = f(i, n)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
