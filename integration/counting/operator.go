package counting

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Operator is a running manager with its controllers, metrics and log.
type Operator struct {
	Manager  manager.Manager
	Registry *prometheus.Registry // of this operator alone
	Metrics  *controller.Metrics  // registered there

	bed   *Bed
	log   log
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of the manager; to be read after ended is closed
	fails bool  // is expected to end with an error
}

// Setup adds something to an operator before it starts.
type Setup func(*Operator) error

// Controller is a Setup of a controller. Client, Recorder and Metrics are those of the operator unless cfg has its own.
func Controller[T client.Object](cfg controller.Config[T]) Setup {
	return func(o *Operator) error {
		if cfg.Client == nil {
			cfg.Client = o.Manager.GetClient()
		}
		if cfg.Recorder == nil {
			cfg.Recorder = o.Manager.GetEventRecorder(cfg.Name)
		}
		if cfg.Metrics == nil {
			cfg.Metrics = o.Metrics
		}
		c, err := controller.New(cfg)
		if err != nil {
			return err
		}
		obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		gvk, err := apiutil.GVKForObject(obj, cfg.Client.Scheme())
		if err != nil {
			return err
		}
		o.bed.works(gvk)
		return c.SetupWithManager(o.Manager)
	}
}

// Secrets is the configuration of a controller of Secrets.
func Secrets(name string, slice ...resource.Interface) controller.Config[*corev1.Secret] {
	return controller.Config[*corev1.Secret]{Name: name, Resources: slice}
}

// Start starts an operator that sees the namespace of the bed alone. It ends with Stop, at the latest when the test ends. The test fails if it
// ends in another way.
func (b *Bed) Start(setups ...Setup) *Operator {
	b.t.Helper()
	return b.StartWith(nil, setups...)
}

// StartWith is Start with changed options of the manager.
func (b *Bed) StartWith(change func(*manager.Options), setups ...Setup) *Operator {
	b.t.Helper()
	return b.StartAs(b.at, change, setups...)
}

// StartAs is StartWith as another client of the cluster than that of the bed. change may be nil.
func (b *Bed) StartAs(as *rest.Config, change func(*manager.Options), setups ...Setup) *Operator {
	b.t.Helper()
	o := &Operator{bed: b, Registry: prometheus.NewRegistry(), ended: make(chan struct{})}
	o.Metrics = controller.NewMetrics(o.Registry)
	options := manager.Options{
		Scheme:     b.Scheme(),
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{b.Namespace: {}}},
		Logger:     funcr.NewJSON(o.log.add, funcr.Options{Verbosity: 1}),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // tests run side by side in one process

		GracefulShutdownTimeout: new((Grace + Deadline) / 2), // between the two: Stop waits until Deadline
	}
	options.Cache.DefaultWatchErrorHandler = o.Metrics.WatchErrorHandler(options.Logger)
	if change != nil {
		change(&options)
	}
	var err error
	if o.Manager, err = manager.New(as, options); err != nil {
		b.t.Fatalf("make a manager: %v", err)
	}
	for _, setup := range setups {
		if err := setup(o); err != nil {
			b.t.Fatalf("set up the operator: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), options.Logger)) // outlives the test's context until Stop
	o.stop = cancel
	go func() {
		defer close(o.ended)
		if o.err = o.Manager.Start(ctx); o.err != nil && !o.fails {
			b.t.Errorf("the operator ended: %v", o.err)
		}
	}()
	b.t.Cleanup(func() {
		o.Stop()
		if b.t.Failed() {
			b.t.Logf("the operator's log:\n%s", strings.Join(o.Log(), "\n"))
		}
	})
	return o
}

// Stop asks the operator to end and waits for it. Once it has ended, nothing happens.
func (o *Operator) Stop() {
	o.bed.t.Helper()
	o.stop()
	o.wait()
}

// Fails is a Setup of an operator that ends by itself, with an error. See Err.
func Fails(o *Operator) error {
	o.fails = true
	return nil
}

// Err waits until an operator has ended by itself or was stopped, and returns its error.
func (o *Operator) Err() error {
	o.bed.t.Helper()
	if !o.wait() {
		return nil
	}
	return o.err
}

// wait tells whether the operator has ended in time.
func (o *Operator) wait() bool {
	o.bed.t.Helper()
	select {
	case <-o.ended:
		return true
	case <-time.After(Deadline):
		o.bed.t.Errorf("the operator did not end within %s", Deadline)
		return false
	}
}

// Log returns the lines that the operator logged up to now, each a JSON object.
func (o *Operator) Log() []string { return o.log.matching(func(string) bool { return true }) }

// Lines returns the lines that have all these texts in them.
func (o *Operator) Lines(texts ...string) []string {
	return o.log.matching(func(line string) bool {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				return false
			}
		}
		return true
	})
}

// Logs waits until there is a line that has all these texts in it.
func (o *Operator) Logs(texts ...string) {
	o.bed.t.Helper()
	o.bed.AtLeast(1, fmt.Sprintf("lines with %q", texts), func() int { return len(o.Lines(texts...)) })
}

// Errors returns the lines of the level error.
func (o *Operator) Errors() []string { return o.log.matching(isError) }

// Healthy fails the test if the operator logged an error or counted a failure.
func (o *Operator) Healthy() {
	o.bed.t.Helper()
	for _, line := range o.Errors() {
		o.bed.t.Errorf("the operator logged an error: %s", line)
	}
	if n := o.Metric("operatorkit_controller_errors_total"); n != 0 {
		o.bed.t.Errorf("the operator counted %v failures", n)
	}
}

// isError tells lines of Error from those of Info, which alone have a level.
func isError(line string) bool { return !strings.Contains(line, `"level":`) }

// Metric returns the value of a series, the number of observations for a histogram. labels are names and values in turn; those of the series
// may be more, and the sum is returned of all that have these. It is 0 where there are none.
func (o *Operator) Metric(name string, labels ...string) float64 {
	o.bed.t.Helper()
	families, err := o.Registry.Gather()
	if err != nil {
		o.bed.t.Errorf("read metrics: %v", err)
	}
	var sum float64
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			if contains(has, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func contains(has map[string]string, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		if has[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// log collects lines.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) matching(wanted func(string) bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, line := range l.lines {
		if wanted(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// works notes a kind that controllers put finalizers on.
func (b *Bed) works(gvk schema.GroupVersionKind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kinds[gvk] = true
}

// release removes all finalizers in the namespace, which would hold it for ever when the operators are gone.
func (b *Bed) release(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for gvk := range b.kinds {
		list := partialList(gvk)
		if err := b.List(ctx, list, client.InNamespace(b.Namespace)); err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			obj := &list.Items[i]
			if len(obj.Finalizers) == 0 {
				continue
			}
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := client.IgnoreNotFound(b.Patch(ctx, obj, patch)); err != nil {
				return fmt.Errorf("release %s %s: %w", gvk.Kind, obj.Name, err)
			}
		}
	}
	return nil
}
