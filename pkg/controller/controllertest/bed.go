package controllertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

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

	mu    sync.Mutex
	calls []*expected
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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
