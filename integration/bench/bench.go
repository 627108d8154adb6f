package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/stage"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// The simulated Aiven: one Kafka service for all, and an OpenSearch and a Valkey instance for each namespace.
const (
	project  = "bench"
	token    = "avnT_bench_token"
	instance = "shared"
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
	simulator *simulator
	operator  *operator.Process
	phases    []phase
}

// close ends and removes all that was made.
func (b *bench) close() error {
	var errs []error
	if b.operator != nil {
		b.operator.Kill()
	}
	if b.stage != nil {
		errs = append(errs, b.stage.Close())
	}
	if b.simulator != nil {
		b.simulator.stop()
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
	for _, f := range []func(context.Context) error{b.provision, b.unchanged, b.restart} {
		if err := f(ctx); err != nil {
			return err
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
	args := []string{
		"--token=" + token, "--latency=" + b.latency.String(), "--ecdsa-ca", "--key-size=2048", "--user-limit=-1",
		"--service=" + project + "/kafka:kafka:schema_registry",
	}
	for range b.namespaces {
		namespace, err := b.stage.Namespace(ctx, "bench-")
		if err != nil {
			return err
		}
		b.in = append(b.in, namespace)
		for _, kind := range []binding.Kind{binding.OpenSearch, binding.Valkey} {
			service := fmt.Sprintf("%s-%s-%s", kind, namespace, instance)
			args = append(args, fmt.Sprintf("--service=%s/%s:%s", project, service, kind))
			if err := b.stage.Instance(ctx, kind, namespace, service); err != nil {
				return err
			}
		}
	}
	if b.simulator, err = startSimulator(ctx, b.dir, args...); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	ctx, cancel := b.whileItRuns(ctx)
	defer cancel()
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

// start starts the operator. Without leader election it writes nothing but its work.
func (b *bench) start() (err error) {
	args := []string{"--leader-election=false", "--aiven-url=" + b.simulator.url, "--projects=" + project, "--cluster-name=bench"}
	if !b.wholeCluster {
		args = append(args, "--namespaces="+strings.Join(b.in, ","))
	}
	b.operator, err = operator.Start(operator.Options{
		Binary:     b.binary,
		Kubeconfig: os.Getenv(env.Kubeconfig),
		Args:       append(args, b.args...),
		Env:        []string{"KEYSMITH_AIVEN_TOKEN=" + token, "GOMAXPROCS=" + strconv.Itoa(b.cores)},
	})
	return err
}

// whileItRuns returns a context that ends with the operator at the latest.
func (b *bench) whileItRuns(ctx context.Context) (context.Context, context.CancelFunc) {
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
	errs := make([]error, len(b.in))
	var wg sync.WaitGroup
	for n, namespace := range b.in {
		wg.Go(func() {
			for i := n; i < b.applications && errs[n] == nil; i += len(b.in) {
				errs[n] = f(i, namespace)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
