//go:build k8srequired

package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// gate opens when as many calls wait at it as there are workers, and stays open.
type gate struct {
	mu      sync.Mutex
	missing int
	open    chan struct{}
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	if g.missing--; g.missing == 0 {
		close(g.open)
	}
	g.mu.Unlock()
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the other workers: %w", ctx.Err())
	}
}

func TestManyWorkersShareACrowd(t *testing.T) {
	t.Parallel()
	const workers, objects = 16, 200
	bed := counting.New(t)
	var busy, failed sync.Map
	all := &gate{missing: workers, open: make(chan struct{})}
	first := counting.Named("first").Do(func(ctx context.Context, _ resource.Operation, _ client.Object) error {
		return all.pass(ctx)
	})
	flaky := counting.Named("flaky").Do(func(_ context.Context, op resource.Operation, obj client.Object) error {
		if _, again := failed.LoadOrStore(string(op)+obj.GetName(), true); !again {
			return errors.New("fail once") // which the repetition of the call heals
		}
		return nil
	})
	last := counting.Named("last")
	op := bed.Start(func(o *counting.Operator) error {
		waits := func() backoff.BackOff {
			return backoff.WithMaxRetries(backoff.NewConstantBackOff(10*time.Millisecond), 3)
		}
		cfg := counting.Services("queue", resource.Wrap([]resource.Interface{first, flaky, last},
			middleware.Logging(nil), middleware.NewMetrics(o.Registry, nil).Middleware("queue"), middleware.Retry(waits, nil))...)
		cfg.Workers = workers
		cfg.Prepare = func(_ context.Context, s *corev1.Service) (controller.Plan, error) {
			if _, twice := busy.LoadOrStore(s.Name, true); twice {
				t.Errorf("%s is reconciled twice at the same time", s.Name)
			}
			if s.DeletionTimestamp != nil {
				return controller.Plan{Delete: []any{nil}}, nil
			}
			return controller.Plan{Ensure: []any{nil}}, nil
		}
		report := cfg.Report
		cfg.Report = func(s *corev1.Service, results []resource.Result) {
			report(s, results)
			busy.Delete(s.Name)
		}
		return counting.Controller(cfg)(o)
	})

	names := make([]string, objects)
	var wg sync.WaitGroup
	for i := range names {
		names[i] = fmt.Sprintf("cart-%d", i)
	}
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < objects; i += workers {
				s := counting.Service(names[i])
				s.Namespace = bed.Namespace
				if err := bed.Create(t.Context(), s); err != nil {
					t.Errorf("create %s: %v", names[i], err)
				}
			}
		})
	}
	wg.Wait()
	for _, name := range names {
		bed.Ready(name, "True Done")
	}
	op.Healthy()
	if err := bed.DeleteAllOf(t.Context(), &corev1.Service{}, client.InNamespace(bed.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		bed.Gone(counting.Service(name))
		if last.Deleted(name) < 1 || flaky.Deleted(name) < 2 || first.Deleted(name) < 1 {
			t.Errorf("%s is gone, and its resources were deleted %d, %d and %d times",
				name, last.Deleted(name), flaky.Deleted(name), first.Deleted(name))
		}
	}
	op.Healthy()
}
