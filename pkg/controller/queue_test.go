package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// TestOutcomes runs the controller with a real queue, in fake time, for an hour.
func TestOutcomes(t *testing.T) {
	terminal := reconcile.TerminalError(errBoom)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "svc", errBoom)
	times := func(first time.Duration, more ...time.Duration) []time.Duration {
		all := []time.Duration{first}
		for _, d := range more {
			all = append(all, all[len(all)-1]+d)
		}
		return all
	}
	tests := map[string]struct {
		errs       map[string][]error // by scope, for its first runs; then nil
		resync     time.Duration
		next       time.Duration
		wantRuns   []time.Duration
		early      bool // each may be a fifth earlier after the one before
		late       bool // or later
		wantErrors int
	}{
		"done: waits for an event": {wantRuns: times(0)},
		"done: comes back at the resync": {
			resync: 40 * time.Minute, wantRuns: times(0, 40*time.Minute), early: true, late: true},
		"done: comes back when the plan says": {
			resync: 50 * time.Minute, next: 25 * time.Minute, wantRuns: times(0, 25*time.Minute, 25*time.Minute)},
		"waiting: comes back after the given time": {
			errs:     map[string][]error{"x": {resource.RequeueAfter(time.Minute, "w"), resource.RequeueAfter(time.Second, "w")}},
			wantRuns: times(0, time.Minute, time.Second)},
		"waiting: the earliest wins": {
			errs: map[string][]error{"x": {resource.RequeueAfter(time.Hour, "w")}, "y": {resource.RequeueAfter(time.Second, "w")}},
			next: 59 * time.Minute, wantRuns: times(0, time.Second, 59*time.Minute)},
		"waiting: for an event": {
			errs:     map[string][]error{"x": {resource.RequeueAfter(0, "w")}},
			wantRuns: times(0)},
		"waiting: after a conflict": {
			errs:     map[string][]error{"x": {conflict}},
			wantRuns: times(0, resource.ConflictDelay)},
		"terminal: waits for an event": {
			errs: map[string][]error{"x": {terminal}}, wantRuns: times(0), wantErrors: 1},
		"terminal: comes back at the resync": {
			errs: map[string][]error{"x": {terminal}}, resync: 40 * time.Minute, wantRuns: times(0, 40*time.Minute), early: true, late: true, wantErrors: 1},
		"terminal: does not hold back a scope that waits": {
			errs:     map[string][]error{"x": {terminal, terminal}, "y": {resource.RequeueAfter(time.Second, "w")}},
			wantRuns: times(0, time.Second), wantErrors: 2},
		"failed: comes back with a growing delay": {
			errs:     map[string][]error{"x": {errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom}},
			wantRuns: times(0, 500*time.Millisecond, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 32*time.Second, time.Minute, time.Minute), early: true, wantErrors: 9},
		"failed: comes back even if another scope is terminal": {
			errs:     map[string][]error{"x": {errBoom}, "y": {terminal}},
			wantRuns: times(0, 500*time.Millisecond), early: true, wantErrors: 1},
		"failed: comes back even if another part is terminal": {
			errs:     map[string][]error{"x": {errors.Join(terminal, errBoom)}},
			wantRuns: times(0, 500*time.Millisecond), early: true, wantErrors: 1},
		"failed: comes back earlier for a scope that waits": {
			errs:     map[string][]error{"x": {errBoom, errBoom, errBoom}, "y": {nil, nil, resource.RequeueAfter(time.Millisecond, "w")}},
			wantRuns: times(0, 500*time.Millisecond, time.Second, time.Millisecond), early: true, wantErrors: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var runs []time.Duration
				b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
					cfg.Resync = tc.resync
					cfg.Prepare = func(context.Context, *corev1.Service) (Plan, error) {
						runs = append(runs, time.Since(start))
						return Plan{Ensure: []any{"x", "y"}, RequeueAfter: tc.next}, nil
					}
					cfg.Resources = []resource.Interface{b.step("a", func(ctx context.Context, _ resource.Operation) error {
						scope, _ := resource.Scope[string](ctx, nil)
						if errs := tc.errs[scope]; len(runs) <= len(errs) {
							return errs[len(runs)-1]
						}
						return nil
					})}
				})
				lines := runQueue(t, b, time.Hour)

				ok := len(runs) == len(tc.wantRuns)
				for i := 1; ok && i < len(runs); i++ {
					got, want := runs[i]-runs[i-1], tc.wantRuns[i]-tc.wantRuns[i-1]
					ok = got == want || tc.early && got < want && got >= want-want/5-1 || tc.late && got > want && got <= want+want/5
				}
				if !ok {
					t.Errorf("runs: got %s, want %s", runs, tc.wantRuns)
				}
				if n := b.metrics(t)["errors_total{test}"]; n != float64(tc.wantErrors) {
					t.Errorf("errors_total: got %g, want %d", n, tc.wantErrors)
				}
				if n := strings.Count(strings.Join(*lines, "\n"), "Reconciler error"); n != tc.wantErrors {
					t.Errorf("each error is logged once: got %d lines for %d errors: %q", n, tc.wantErrors, *lines)
				}
				for i, line := range *lines {
					if want := fmt.Sprintf("controller=test object=ns/svc loop=%d ", i+1); !strings.Contains(line+" ", want) {
						t.Errorf("line %q: want %q", line, want)
					}
				}
			})
		})
	}
}

// TestResyncsSpread runs many objects that start together, for some resyncs of fake time.
func TestResyncsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, resync, end = 1000, time.Hour, 3 * time.Hour
		start := time.Now()
		passes, first := 0, 0
		minutes := map[time.Duration]int{} // passes after the first of each object
		b := newBed(t, nil, func(_ *bed, cfg *Config[*corev1.Service]) {
			cfg.Client = crowd{cfg.Client}
			cfg.Resync = resync
			cfg.Resources = []resource.Interface{step{"count", func(context.Context, resource.Operation) error {
				passes++
				if at := time.Since(start); at < time.Minute {
					first++
				} else {
					minutes[at.Truncate(time.Minute)]++
				}
				return nil
			}}}
		})
		runQueue(t, b, end, crowdOf(objects)...)

		if first != objects || passes < 3*objects {
			t.Fatalf("passes: got %d at the start, %d in all", first, passes)
		}
		for at, n := range minutes {
			if most := passes / 20; n > most {
				t.Errorf("passes in the minute after %s: got %d, want at most %d of %d", at, n, most, passes)
			}
		}
	})
}

// crowd is an API server with Services of all names, each with our finalizer.
type crowd struct{ client.Client }

func (crowd) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s := service(finalizers(theFinalizer))
	s.Namespace, s.Name, s.UID = key.Namespace, key.Name, types.UID(key.Name)
	s.DeepCopyInto(obj.(*corev1.Service))
	return nil
}

// crowdOf returns the names of the first n of them.
func crowdOf(n int) []types.NamespacedName {
	keys := make([]types.NamespacedName, n)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("svc-%d", i)}
	}
	return keys
}

// runQueue runs the controller in controller-runtime's for some time of the test's bubble, with one event at its
// start for each of the objects, by default for theKey. It returns the log.
func runQueue(t *testing.T, b *bed, d time.Duration, objects ...types.NamespacedName) *[]string {
	t.Helper()
	if len(objects) == 0 {
		objects = []types.NamespacedName{theKey}
	}
	lines := &[]string{}
	options := b.controller.options(logr.New(&sink{lines: lines}))
	options.Reconciler = reconcile.Func(b.controller.reconcile)
	options.SkipNameValidation = new(true)
	c, err := crcontroller.NewUnmanaged(theName, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(pulses{b.controller.heart.tick}); err != nil {
		t.Fatal(err)
	}
	err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for _, key := range objects {
			q.Add(reconcile.Request{NamespacedName: key})
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return lines
}

// sink keeps the lines that are logged as errors: message, error, and the values as key=value.
type sink struct {
	lines  *[]string
	values []any
}

func (s *sink) Init(logr.RuntimeInfo)        {}
func (s *sink) Enabled(int) bool             { return true }
func (s *sink) Info(int, string, ...any)     {}
func (s *sink) WithName(string) logr.LogSink { return s }
func (s *sink) WithValues(kv ...any) logr.LogSink {
	return &sink{lines: s.lines, values: slices.Concat(s.values, kv)}
}
func (s *sink) Error(err error, msg string, kv ...any) {
	line := msg + ": " + err.Error()
	for pair := range slices.Chunk(slices.Concat(s.values, kv), 2) {
		line += fmt.Sprintf(" %v=%v", pair[0], pair[1])
	}
	*s.lines = append(*s.lines, line)
}

// Resyncs and failures let others go first; what somebody waits for does not.
func TestWhatLetsOthersGoFirst(t *testing.T) {
	tests := map[string]struct {
		resync, next time.Duration
		first        bool // others go
	}{
		"it is so for a resync":                      {resync: time.Hour, first: true},
		"it is not so for a time that was asked for": {next: time.Minute},
		"it is not so for one before the resync":     {resync: time.Hour, next: time.Minute},
		"it is so for a resync that comes before":    {resync: time.Hour, next: 2 * time.Hour, first: true},
		"it is not so where nothing comes again":     {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &pass[*corev1.Service]{Controller: &Controller[*corev1.Service]{cfg: Config[*corev1.Service]{Resync: tt.resync}}, resync: true}
			got := p.again(tt.next)
			if (got.Priority != nil && *got.Priority < 0) != tt.first {
				t.Errorf("got %+v", got)
			}
		})
	}
}
