package middleware

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// step is a resource of two functions.
type step struct {
	create, delete func(ctx context.Context) error
}

func (s step) EnsureCreated(ctx context.Context, _ any) error { return s.create(ctx) }
func (s step) EnsureDeleted(ctx context.Context, _ any) error { return s.delete(ctx) }
func (s step) Name() string                                   { return "step" }

// answers returns a function that takes d and then returns the errors one after the other, and the last for ever.
func answers(calls *int, d time.Duration, errs ...error) func(context.Context) error {
	return func(context.Context) error {
		*calls++
		<-time.After(d) // in fake time
		return errs[min(*calls, len(errs))-1]
	}
}

func wrap(r resource.Interface, ms ...resource.Middleware) resource.Interface {
	return resource.Wrap([]resource.Interface{r}, ms...)[0]
}

func TestRetry(t *testing.T) {
	var (
		failed   = errors.New("boom")
		conflict = apierrors.NewConflict(schema.GroupResource{}, "a", nil)
		terminal = reconcile.TerminalError(failed)
		waiting  = resource.RequeueAfter(time.Second, "x")
		lasting  = fmt.Errorf("down: %w", resource.ErrLasting)
	)
	tests := map[string]struct {
		errs      []error
		takes     time.Duration
		deadline  time.Duration
		backOff   func() backoff.BackOff
		wantCalls int
		wantErr   error
		within    time.Duration
	}{
		"does not repeat what is done":                    {errs: []error{nil}, wantCalls: 1},
		"does not repeat what waits":                      {errs: []error{waiting}, wantCalls: 1, wantErr: waiting},
		"does not repeat what is terminal":                {errs: []error{terminal}, wantCalls: 1, wantErr: terminal},
		"does not repeat after a conflict":                {errs: []error{conflict}, wantCalls: 1, wantErr: conflict},
		"does not repeat what goes on failing":            {errs: []error{lasting}, wantCalls: 1, wantErr: lasting},
		"repeats what failed until it is done":            {errs: []error{failed, nil}, wantCalls: 2, within: time.Second},
		"stops repeating when the outcome is another":     {errs: []error{failed, terminal}, wantCalls: 2, wantErr: terminal, within: time.Second},
		"does not repeat a call that took long":           {errs: []error{failed}, takes: 3 * time.Second, wantCalls: 1, wantErr: failed, within: 3 * time.Second},
		"does not wait for longer than the context":       {errs: []error{failed}, deadline: 100 * time.Millisecond, wantCalls: 1, wantErr: failed},
		"does not repeat when the context has ended":      {errs: []error{failed}, takes: time.Second, deadline: time.Second, wantCalls: 1, wantErr: failed, within: time.Second},
		"repeats as often as the back-off says":           {errs: []error{failed}, backOff: func() backoff.BackOff { return backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 6) }, wantCalls: 7, wantErr: failed},
		"does not repeat where the back-off says at once": {errs: []error{failed}, backOff: func() backoff.BackOff { return &backoff.StopBackOff{} }, wantCalls: 1, wantErr: failed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
					defer cancel()
				}
				var created, deleted int
				r := wrap(step{answers(&created, tc.takes, tc.errs...), answers(&deleted, tc.takes, tc.errs...)}, Retry(tc.backOff, nil))

				start := time.Now()
				err := r.EnsureCreated(ctx, nil)
				if took := time.Since(start); took > tc.within {
					t.Errorf("took %s, want at most %s", took, tc.within)
				}
				if err != tc.wantErr { // the very same, not a wrapped one
					t.Errorf("error: got %v, want %v", err, tc.wantErr)
				}
				if created != tc.wantCalls {
					t.Errorf("calls: got %d, want %d", created, tc.wantCalls)
				}
				if tc.deadline > 0 {
					return
				}
				// The same for the other operation, with a back-off of its own.
				if err := r.EnsureDeleted(ctx, nil); err != tc.wantErr || deleted != tc.wantCalls {
					t.Errorf("delete: got %v after %d calls", err, deleted)
				}
			})
		})
	}
}

func TestRetryByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls int
		failed := errors.New("boom")
		r := wrap(step{create: answers(&calls, 0, failed)}, Retry(nil, nil))
		start := time.Now()
		if err := r.EnsureCreated(t.Context(), nil); err != failed {
			t.Errorf("it returns the last error: got %v", err)
		}
		if took := time.Since(start); took > 2*time.Second || took < 500*time.Millisecond {
			t.Errorf("it is quick but not hasty: took %s", took)
		}
		if calls < 3 || calls > 5 {
			t.Errorf("it tries a few times: got %d calls", calls)
		}
	})
}

func TestRetryCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls int
		r := wrap(step{create: answers(&calls, 0, errors.New("boom"))}, Retry(nil, nil))
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		_ = r.EnsureCreated(ctx, nil)
		if took := time.Since(start); calls != 1 || took != 100*time.Millisecond {
			t.Errorf("it stops waiting when the context ends: %d calls in %s", calls, took)
		}
	})
}

func TestRetryWithManyWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := wrap(step{create: func(context.Context) error { return errors.New("boom") }},
			Retry(func() backoff.BackOff { return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 2) }, nil))
		start := time.Now()
		var wg sync.WaitGroup
		defer wg.Wait()
		for range 20 {
			wg.Go(func() {
				_ = r.EnsureCreated(t.Context(), nil)
				if took := time.Since(start); took != 2*time.Second {
					t.Errorf("each call has its own back-off: one took %s", took)
				}
			})
		}
	})
}

func TestLogging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
		ctx := log.IntoContext(t.Context(), logger.WithValues("controller", "c"))
		var calls int
		r := wrap(step{
			create: func(ctx context.Context) error {
				log.FromContext(ctx).Info("inside")
				return answers(&calls, time.Second, errors.New("secret text"))(ctx)
			},
			delete: answers(&calls, 0, nil),
		}, Logging(nil))
		_ = r.EnsureCreated(ctx, nil)
		_ = r.EnsureDeleted(ctx, nil)
		want := []string{
			`"level"=0 "msg"="inside" "controller"="c" "resource"="step"`,
			`"level"=1 "msg"="resource ran" "controller"="c" "resource"="step" "operation"="create" "outcome"="failed" "duration"="1s"`,
			`"level"=1 "msg"="resource ran" "controller"="c" "resource"="step" "operation"="delete" "outcome"="done" "duration"="0s"`,
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m := NewMetrics(reg, nil)
		var calls int
		s := step{
			create: answers(&calls, time.Second, nil, errors.New("boom")),
			delete: answers(new(int), 2*time.Second, resource.RequeueAfter(time.Second, "x")),
		}
		app, secret := wrap(s, m.Middleware("app")), wrap(s, m.Middleware("secret"))
		_ = app.EnsureCreated(t.Context(), nil)
		_ = app.EnsureCreated(t.Context(), nil)
		_ = secret.EnsureDeleted(t.Context(), nil)
		want := []string{
			"controller=app,operation=create,outcome=done,resource=step: 1 in 1s",
			"controller=app,operation=create,outcome=failed,resource=step: 1 in 1s",
			"controller=secret,operation=delete,outcome=waiting,resource=step: 1 in 2s",
		}
		if diff := cmp.Diff(want, histogram(t, reg)); diff != "" {
			t.Error(diff)
		}
	})
}

func histogram(t *testing.T, reg *prometheus.Registry) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			h := m.GetHistogram()
			lines = append(lines, fmt.Sprintf("%s: %d in %gs", strings.Join(labels, ","), h.GetSampleCount(), h.GetSampleSum()))
		}
	}
	return lines
}
