//go:build k8srequired

package queue

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// explode stands in the stack of its panic.
func explode() { panic("no power") }

func TestPanicFailsItsObjectAlone(t *testing.T) {
	t.Parallel()
	type config = controller.Config[*corev1.Service]
	in := func(op resource.Operation) func(*config, func(client.Object)) {
		return func(cfg *config, explode func(client.Object)) {
			cfg.Resources[0].(*counting.Resource).Do(func(_ context.Context, got resource.Operation, obj client.Object) error {
				if got == op {
					explode(obj)
				}
				return nil
			})
		}
	}
	tests := map[string]struct {
		where  string                                         // its place, as the log names it
		arm    func(cfg *config, explode func(client.Object)) // calls explode there
		end    bool                                           // it happens when the object is deleted
		silent bool                                           // it prevents the status from telling
	}{
		"in a resource":              {where: "work", arm: in(resource.Create)},
		"in a resource that deletes": {where: "work", end: true, arm: in(resource.Delete)},
		"in a resource with all middleware": {where: "work", arm: func(cfg *config, explode func(client.Object)) {
			in(resource.Create)(cfg, explode)
			measure := middleware.NewMetrics(prometheus.NewRegistry(), nil).Middleware("queue")
			cfg.Resources = resource.Wrap(cfg.Resources, middleware.Logging(nil), measure, middleware.Retry(nil, nil))
		}},
		"in one of several scopes": {where: "scoped", arm: func(cfg *config, explode func(client.Object)) {
			cfg.Resources = append(cfg.Resources, scoped(explode))
			cfg.Prepare = func(context.Context, *corev1.Service) (controller.Plan, error) {
				return controller.Plan{Ensure: []any{1, 2, 3}}, nil
			}
		}},
		"in Prepare": {where: "prepare", arm: func(cfg *config, explode func(client.Object)) {
			cfg.Prepare = func(_ context.Context, obj *corev1.Service) (controller.Plan, error) {
				explode(obj)
				return controller.Plan{Ensure: []any{nil}}, nil
			}
		}},
		"in Report": {where: "report", silent: true, arm: func(cfg *config, explode func(client.Object)) {
			report := cfg.Report
			cfg.Report = func(obj *corev1.Service, results []resource.Result) {
				explode(obj)
				report(obj, results)
			}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			r := counting.Named("work")
			cfg := counting.Services("queue", r)
			cfg.MaxBackoff = 50 * time.Millisecond
			var defused atomic.Bool
			test.arm(&cfg, func(obj client.Object) {
				if obj.GetName() == "sick" && !defused.Load() {
					explode()
				}
			})
			op := bed.Start(counting.Controller(cfg))
			sick := counting.Service("sick")
			bed.Make(sick)
			if test.end {
				bed.Ready("sick", "True Done")
				bed.Remove(sick)
			}
			const failures = "operatorkit_controller_errors_total"
			bed.AtLeast(3, "failures", func() int { return int(op.Metric(failures)) })
			bed.Make(counting.Service("well"))
			bed.Ready("well", "True Done")

			op.Logs(`"msg":"Observed a panic"`, `"controller":"queue"`, bed.Namespace+"/sick", fmt.Sprintf(`"resource":%q`, test.where),
				"no power", "queue.explode") // the last one stands in the stack
			for _, line := range op.Errors() {
				if !strings.Contains(line, "/sick") {
					t.Errorf("a line about something else than the object: %s", line)
				}
			}
			if !test.silent {
				bed.Ready("sick", "False Failed: recover from panic: no power")
			}
			defused.Store(true)
			if test.end {
				bed.Gone(sick)
				return
			}
			bed.Ready("sick", "True Done")
		})
	}
}

// scoped explodes in the second of three scopes.
type scoped func(client.Object)

func (s scoped) EnsureCreated(ctx context.Context, obj any) error {
	if n, err := resource.Scope[int](ctx, obj); err != nil || n != 2 {
		return err
	}
	s(obj.(client.Object))
	return nil
}

func (scoped) EnsureDeleted(context.Context, any) error { return nil }

func (scoped) Name() string { return "scoped" }
