package controllertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bed is what stands around the controller of one case.
type Bed struct {
	// T is the case's test.
	T testing.TB
	// Client is for the controller and its resources: at its calls happens what the case says.
	Client client.WithWatch
	// Server is the same API server without that, for the test itself.
	Server client.WithWatch
	// Clock shows Now until it is moved.
	Clock *clocktesting.FakePassiveClock
	// Registry has the controller's metrics.
	Registry *prometheus.Registry
	// Recorder takes the events.
	Recorder *Recorder

	mu      sync.Mutex
	calls   []*expected
	journal []string
	log     []string
}

// Note adds a line to the journal. Each write to the API server through Client is noted when it is tried, such as
// "create ConfigMap ns/name" or "patch status Node name"; fakes of a test note theirs, so that the order of all is seen.
func (b *Bed) Note(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journal = append(b.journal, line)
}

// Journal returns all notes so far, nil if there are none.
func (b *Bed) Journal() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.journal)
}

// Log returns what the controller and its resources have logged so far, by lines: for what must be there, and for what
// must not, such as a password.
func (b *Bed) Log() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}

// logger writes to Log, and to the log of the test.
func (b *Bed) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		b.T.Log(line)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.log = append(b.log, line)
	}, funcr.Options{Verbosity: 1})
}

// delete puts finalizers on an object and deletes it.
func (b *Bed) delete(like client.Object, finalizers []string) {
	b.T.Helper()
	obj := get(b, like)
	if isNil(obj) || obj.GetDeletionTimestamp() != nil {
		return
	}
	obj.SetFinalizers(finalizers)
	if err := b.Server.Update(b.T.Context(), obj); err != nil {
		b.T.Fatalf("put finalizers on %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
	}
	if err := b.Server.Delete(b.T.Context(), obj); err != nil {
		b.T.Fatalf("delete %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
	}
}

// Recorder keeps events (events.k8s.io) for tests to look at. It is a k8s.io/client-go/tools/events.EventRecorder. The
// zero value is ready for use.
type Recorder struct {
	mu     sync.Mutex
	events []string
}

// Eventf keeps an event as "Type Reason note".
func (r *Recorder) Eventf(_, _ runtime.Object, eventtype, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, eventtype+" "+reason+" "+fmt.Sprintf(note, args...))
}

// Events returns all events so far, nil if there are none.
func (r *Recorder) Events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Metric returns the value of a counter or a gauge, or the number of observations of a histogram, as written in a
// query, labels in the order of their names: operatorkit_controller_errors_total{controller="test"}. It is zero where there
// is no such series.
func (b *Bed) Metric(series string) float64 {
	b.T.Helper()
	families, err := b.Registry.Gather()
	if err != nil {
		b.T.Fatalf("read metrics: %v", err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
			}
			if family.GetName()+"{"+strings.Join(labels, ",")+"}" == series {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}
