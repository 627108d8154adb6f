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

	"github.com/giantswarm/microerror"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

var errBoom = errors.New("boom")

func TestSlice(t *testing.T) {
	tests := map[string]struct {
		obj       *corev1.Service
		plan      Plan
		failing   string
		partly    bool
		wantCalls []string
	}{
		"runs forwards for a live object": {
			obj: service(finalizers(theFinalizer)), plan: Plan{Ensure: []any{"x"}},
			wantCalls: []string{"create a of x", "create b of x", "create c of x"},
		},
		"runs backwards for a deleted object": {
			obj: service(finalizers(theFinalizer), deleted), plan: Plan{Delete: []any{"x"}},
			wantCalls: []string{"delete c of x", "delete b of x", "delete a of x", "patch"},
		},
		"deletes scopes of a live object": {
			obj: service(finalizers(theFinalizer)), plan: Plan{Delete: []any{"x"}},
			wantCalls: []string{"delete c of x", "delete b of x", "delete a of x"},
		},
		"stops at the first error, forwards": {
			obj: service(finalizers(theFinalizer)), plan: Plan{Ensure: []any{"x"}}, failing: "b",
			wantCalls: []string{"create a of x", "create b of x"},
		},
		"stops at the first error, backwards, and keeps the finalizer": {
			obj: service(finalizers(theFinalizer), deleted), plan: Plan{Delete: []any{"x"}}, failing: "b",
			wantCalls: []string{"delete c of x", "delete b of x"},
		},
		"goes on after a partial error, forwards": {
			obj: service(finalizers(theFinalizer)), plan: Plan{Ensure: []any{"x"}}, failing: "b", partly: true,
			wantCalls: []string{"create a of x", "create b of x", "create c of x"},
		},
		"goes on after a partial error, backwards, and keeps the finalizer": {
			obj: service(finalizers(theFinalizer), deleted), plan: Plan{Delete: []any{"x"}}, failing: "b", partly: true,
			wantCalls: []string{"delete c of x", "delete b of x", "delete a of x"},
		},
		"does nothing without a scope": {obj: service(finalizers(theFinalizer))},
		"puts the finalizer on before it does anything": {
			obj: service(), plan: Plan{Ensure: []any{"x"}},
			wantCalls: []string{"patch", "create a of x", "create b of x", "create c of x"},
		},
		"leaves a deleted object alone that has no finalizer of ours": {
			obj: service(finalizers("x/y"), deleted), plan: Plan{Delete: []any{"x"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tc.obj, func(b *bed, cfg *Config[*corev1.Service]) {
				cfg.Prepare = planned(tc.plan)
				cfg.Resources = nil
				for _, name := range []string{"a", "b", "c"} {
					cfg.Resources = append(cfg.Resources, b.step(name, func(context.Context, resource.Operation) error {
						switch {
						case name != tc.failing:
							return nil
						case tc.partly:
							return resource.Partial(errBoom)
						default:
							return errBoom
						}
					}))
				}
			})
			_, err := b.pass(t.Context())
			if errors.Is(err, errBoom) != (tc.failing != "") {
				t.Errorf("error: got %v", err)
			}
			if diff := cmp.Diff(tc.wantCalls, b.calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithoutPrepare(t *testing.T) {
	b := newBed(t, service(), nil)
	b.mustPass(t)
	if err := b.client.Delete(t.Context(), service()); err != nil {
		t.Fatal(err)
	}
	b.mustPass(t)
	want := []string{"patch", "create a", "create b", "delete b", "delete a", "patch"}
	if diff := cmp.Diff(want, b.calls); diff != "" {
		t.Error(diff)
	}
	if b.object(t) != nil {
		t.Error("the object is still there")
	}
}

func TestScopesRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		started := make(chan string, 3)
		b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
			cfg.Prepare = planned(Plan{Ensure: []any{"x", "bad"}, Delete: []any{"old"}})
			cfg.Report = conditions
			cfg.Resources = []resource.Interface{b.step("a", func(ctx context.Context, _ resource.Operation) error {
				scope, _ := resource.Scope[string](ctx, nil)
				if scope == "bad" {
					return errBoom
				}
				started <- scope
				<-release
				return nil
			})}
		})
		go func() { // lets go only when both are there
			<-started
			<-started
			close(release)
		}()
		_, err := b.pass(t.Context())
		if !errors.Is(err, errBoom) {
			t.Errorf("error: got %v", err)
		}
		if diff := cmp.Diff([]string{"x done", "bad failed: boom", "old done"}, reported(b.object(t))); diff != "" {
			t.Error(diff)
		}
	})
}

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
		about      bool // times are those of a resync, give or take a fifth
		wantErrors int
	}{
		"done: waits for an event": {wantRuns: times(0)},
		"done: comes back at the resync": {
			resync: 40 * time.Minute, wantRuns: times(0, 40*time.Minute), about: true},
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
			errs: map[string][]error{"x": {terminal}}, resync: 40 * time.Minute, wantRuns: times(0, 40*time.Minute), about: true, wantErrors: 1},
		"terminal: does not hold back a scope that waits": {
			errs:     map[string][]error{"x": {terminal, terminal}, "y": {resource.RequeueAfter(time.Second, "w")}},
			wantRuns: times(0, time.Second), wantErrors: 2},
		"failed: comes back with a growing delay": {
			errs:     map[string][]error{"x": {errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom, errBoom}},
			wantRuns: times(0, 500*time.Millisecond, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 32*time.Second, time.Minute, time.Minute), wantErrors: 9},
		"failed: comes back even if another scope is terminal": {
			errs:     map[string][]error{"x": {errBoom}, "y": {terminal}},
			wantRuns: times(0, 500*time.Millisecond), wantErrors: 1},
		"failed: comes back even if another part is terminal": {
			errs:     map[string][]error{"x": {errors.Join(terminal, errBoom)}},
			wantRuns: times(0, 500*time.Millisecond), wantErrors: 1},
		"failed: comes back earlier for a scope that waits": {
			errs:     map[string][]error{"x": {errBoom, errBoom, errBoom}, "y": {nil, nil, resource.RequeueAfter(time.Millisecond, "w")}},
			wantRuns: times(0, 500*time.Millisecond, time.Second, time.Millisecond), wantErrors: 3},
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

				ok := cmp.Equal(tc.wantRuns, runs)
				if tc.about && len(runs) == len(tc.wantRuns) {
					spread := runs[1] - tc.wantRuns[1]
					ok = spread.Abs() <= tc.resync/5
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

// runQueue runs the controller in controller-runtime's for some time of the test's bubble, with one event at its
// start. It returns the log.
func runQueue(t *testing.T, b *bed, d time.Duration) *[]string {
	t.Helper()
	lines := &[]string{}
	options := b.controller.options(logr.New(&sink{lines: lines}))
	options.Reconciler = reconcile.Func(b.controller.reconcile)
	options.SkipNameValidation = new(true)
	c, err := crcontroller.NewUnmanaged(theName, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(b.controller.pulses()); err != nil {
		t.Fatal(err)
	}
	err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(reconcile.Request{NamespacedName: theKey})
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

func TestPrepareFails(t *testing.T) {
	tests := map[string]struct {
		obj  *corev1.Service
		err  error
		want []string
		fail bool
	}{
		"reports a failure":            {service(finalizers(theFinalizer)), errBoom, []string{"Object failed: boom"}, true},
		"reports what it waits for":    {service(finalizers(theFinalizer)), resource.RequeueAfter(time.Second, "later"), []string{"Object waiting: later"}, false},
		"reports it for a deleted one": {service(finalizers(theFinalizer), deleted), errBoom, []string{"Object failed: boom"}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tc.obj, func(_ *bed, cfg *Config[*corev1.Service]) {
				cfg.Report = conditions
				cfg.Prepare = func(context.Context, *corev1.Service) (Plan, error) { return Plan{Delete: []any{"x"}}, tc.err }
			})
			if _, err := b.pass(t.Context()); (err != nil) != tc.fail {
				t.Errorf("error: got %v", err)
			}
			if diff := cmp.Diff(tc.want, reported(b.object(t))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"patch status"}, b.calls); diff != "" {
				t.Errorf("nothing else happens: %s", diff)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	panics := func(context.Context, resource.Operation) error { panic("no address") }
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Prepare = planned(Plan{Ensure: []any{"x", "y"}})
		cfg.Report = conditions
		cfg.Resources = []resource.Interface{b.step("a", func(ctx context.Context, op resource.Operation) error {
			if scope, _ := resource.Scope[string](ctx, nil); scope == "x" {
				return panics(ctx, op)
			}
			return nil
		})}
	})
	if _, err := b.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "resource a: recover from panic: no address") {
		t.Errorf("it becomes the pass's error: got %v", err)
	}
	if diff := cmp.Diff([]string{"x failed: recover from panic: no address", "y done"}, reported(b.object(t))); diff != "" {
		t.Errorf("it is the error of one scope: %s", diff)
	}
	if lines := strings.Join(b.errorLines(), ""); !strings.Contains(lines, "TestPanic") || !strings.Contains(lines, `"resource"="a"`) {
		t.Errorf("the log says where: %s", lines)
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
			cfg.Timeout = time.Minute
			cfg.Prepare = planned(Plan{Ensure: []any{"slow"}, Delete: []any{"deaf"}})
			cfg.Report = conditions
			cfg.Resources = []resource.Interface{
				b.step("a", nil),
				b.step("b", func(ctx context.Context, op resource.Operation) error {
					if op == resource.Delete {
						<-time.After(2 * time.Minute) // does not look at the context
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}),
			}
		})
		if _, err := b.pass(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error: got %v", err)
		}
		want := []string{
			"slow failed: reconcile within 1m0s: context deadline exceeded",
			"deaf failed: reconcile within 1m0s: context deadline exceeded",
		}
		if diff := cmp.Diff(want, reported(b.object(t))); diff != "" {
			t.Errorf("the status says why: %s", diff)
		}
	})
}

func TestStop(t *testing.T) {
	tests := map[string]struct {
		stopping   bool // before the manager's context ends
		takes      time.Duration
		wantTook   time.Duration
		wantStatus []string
	}{
		"finishes the running pass when the process is asked to stop":    {true, 10 * time.Second, 10 * time.Second, []string{"Object done"}},
		"cancels it when that takes longer than the grace":               {true, time.Hour, time.Second + 20*time.Second, nil},
		"cancels it at once, and writes nothing, when the lease is lost": {false, 10 * time.Second, time.Second, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopping := make(chan struct{})
				b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
					cfg.Stopping = stopping
					cfg.Report = conditions
					cfg.Resources = []resource.Interface{b.step("a", func(ctx context.Context, _ resource.Operation) error {
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-time.After(tc.takes):
							return nil
						}
					})}
				})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, func() {
					if tc.stopping {
						close(stopping)
					}
					cancel()
				})
				start := time.Now()
				if _, err := b.pass(ctx); err != nil {
					t.Errorf("an interruption is no error: got %v", err)
				}
				if took := time.Since(start); took != tc.wantTook {
					t.Errorf("took %s, want %s", took, tc.wantTook)
				}
				if diff := cmp.Diff(tc.wantStatus, reported(b.object(t))); diff != "" {
					t.Error(diff)
				}
				if n := b.metrics(t)["errors_total{test}"]; n != 0 || len(b.errorLines()) > 0 {
					t.Errorf("nothing failed: counted %g, logged %q", n, b.errorLines())
				}
				if !tc.stopping {
					return
				}
				b.calls = nil
				if _, err := b.pass(t.Context()); err != nil || len(b.calls) > 0 {
					t.Errorf("no new pass starts: got %q, %v", b.calls, err)
				}
			})
		})
	}
}

func TestWarnings(t *testing.T) {
	known := &microerror.Error{Kind: "quotaExceeded", Desc: "The project has no room left."}
	longer := &microerror.Error{Kind: "quotaExceeded", Desc: strings.Repeat("é", 1000)}
	var err error
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Resources = []resource.Interface{b.step("a", func(context.Context, resource.Operation) error { return err })}
	})
	var got []string
	for _, err = range []error{
		microerror.Mask(known), microerror.Mask(known), // once per change, not per retry
		nil, microerror.Maskf(known, "again"),
		&microerror.Error{Kind: "noDescription"},
		resource.RequeueAfter(time.Second, "w: %w", known),
		reconcile.TerminalError(microerror.Mask(longer)),
	} {
		_, _ = b.pass(t.Context())
		got = append(got, strings.Join(b.events(), "; "))
	}
	event := "Warning quotaExceeded The project has no room left."
	want := []string{event, "", "", event, "", "", "Warning quotaExceeded " + strings.Repeat("é", 512)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWarningsOfSeveralScopes(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Prepare = planned(Plan{Ensure: []any{"x", "y"}})
		cfg.Resources = []resource.Interface{b.step("a", func(ctx context.Context, _ resource.Operation) error {
			scope, _ := resource.Scope[string](ctx, nil)
			return &microerror.Error{Kind: "quotaExceeded", Desc: scope}
		})}
	})
	_, _ = b.pass(t.Context())
	_, _ = b.pass(t.Context())
	if diff := cmp.Diff([]string{"Warning quotaExceeded x", "Warning quotaExceeded y"}, b.events()); diff != "" {
		t.Errorf("each is told once: %s", diff)
	}
}

func TestConflicts(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Report = conditions
		cfg.Resources = []resource.Interface{b.step("a", func(context.Context, resource.Operation) error {
			return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "s", errBoom)
		})}
	})
	for range maxConflicts {
		if got := b.mustPass(t); got.RequeueAfter != resource.ConflictDelay {
			t.Errorf("a conflict is repeated at once: got %v", got)
		}
	}
	if diff := cmp.Diff([]string(nil), reported(b.object(t))); diff != "" {
		t.Errorf("and not reported: %s", diff)
	}
	if _, err := b.pass(t.Context()); err == nil {
		t.Error("one that does not go away is no failure")
	}
	if got := reported(b.object(t)); len(got) != 1 || !strings.HasPrefix(got[0], "Object failed: give up after too many conflicts") {
		t.Errorf("nor is it reported: got %q", got)
	}
}

func TestMetrics(t *testing.T) {
	created := metav1.NewTime(time.Unix(1000, 0))
	b := newBed(t, service(finalizers(theFinalizer), func(s *corev1.Service) { s.CreationTimestamp = created }),
		func(_ *bed, cfg *Config[*corev1.Service]) { cfg.Finalizers = []string{"x/old"} })
	want := map[string]float64{
		"errors_total{test}": 0, "keysmith_controller_paused_deletions{test}": 0, "keysmith_controller_event_latency_seconds{test}": 0,
	}
	if diff := cmp.Diff(want, b.metrics(t)); diff != "" {
		t.Errorf("at start: %s", diff)
	}

	b.update(t, finalizers("x/y"))
	b.mustPass(t)
	if err := b.client.Delete(t.Context(), service()); err != nil {
		t.Fatal(err)
	}
	b.mustPass(t)
	got := b.metrics(t)
	for _, name := range []string{"last_reconciled{test}", "keysmith_controller_heartbeat_timestamp_seconds{test}"} {
		if got[name] == 0 {
			t.Errorf("it tells no %s", name)
		}
		delete(got, name)
	}
	want["creation_timestamp{test,Service,svc,ns}"] = 1000
	want["deletion_timestamp{test,Service,svc,ns}"] = float64(b.object(t).DeletionTimestamp.Unix())
	want["event{update}"], want["event{delete}"] = 1, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of a deleted object: %s", diff)
	}

	b.update(t, func(s *corev1.Service) { s.Finalizers = nil })
	b.mustPass(t)
	for name := range b.metrics(t) {
		if strings.Contains(name, "svc") {
			t.Errorf("of an object that is gone: got %s", name)
		}
	}
	if len(b.controller.records) > 0 {
		t.Error("the controller still remembers the object")
	}
}

func TestSelector(t *testing.T) {
	labelled := func(s *corev1.Service) { s.Labels = map[string]string{"app": "ours"} }
	b := newBed(t, service(labelled, finalizers(theFinalizer)), func(_ *bed, cfg *Config[*corev1.Service]) {
		cfg.Selector = labels.SelectorFromSet(labels.Set{"app": "ours"})
	})
	b.mustPass(t)
	b.update(t, func(s *corev1.Service) { s.Labels = nil })
	b.mustPass(t)
	if diff := cmp.Diff([]string{"create a", "create b"}, b.calls); diff != "" {
		t.Errorf("it leaves an object alone that is not ours any more: %s", diff)
	}
	if _, ok := b.metrics(t)["creation_timestamp{test,Service,svc,ns}"]; ok {
		t.Error("it does not forget it")
	}
}

func TestNamespaces(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"other", "ns"}, {"other"}} {
		b := newBed(t, service(finalizers(theFinalizer)), func(_ *bed, cfg *Config[*corev1.Service]) { cfg.Namespaces = namespaces })
		b.mustPass(t)
		ours := len(namespaces) != 1
		if (len(b.calls) > 0) != ours {
			t.Errorf("of %q: got calls %q", namespaces, b.calls)
		}
		if passes := b.controller.predicate().Create(event.CreateEvent{Object: service()}); passes != ours {
			t.Errorf("of %q: event passes: %t", namespaces, passes)
		}
	}
}

func TestReadFails(t *testing.T) {
	b := newBed(t, nil, nil)
	b.mustPass(t) // gone: nothing to do
	broken := newBed(t, nil, func(_ *bed, cfg *Config[*corev1.Service]) {
		cfg.Client = brokenReader{cfg.Client}
	})
	if _, err := broken.pass(t.Context()); !errors.Is(err, errBoom) {
		t.Errorf("got %v", err)
	}
	if n := broken.metrics(t)["errors_total{test}"]; n != 1 {
		t.Errorf("errors_total: got %g", n)
	}
}

type brokenReader struct{ client.Client }

func (brokenReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errBoom
}
