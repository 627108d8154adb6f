//go:build k8srequired

package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestPassHasATimeLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stuck func(ctx context.Context) error
		want  string
	}{
		"whose end a resource returns": {
			stuck: func(ctx context.Context) error {
				<-ctx.Done()
				return fmt.Errorf("wait for the network: %w", ctx.Err())
			},
			want: "False Failed: reconcile within 1s: wait for the network: context deadline exceeded",
		},
		"whose end a resource conceals": {
			stuck: func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			},
			want: "False Failed: reconcile within 1s: context deadline exceeded",
		},
		"after which a resource waits on": {
			stuck: func(ctx context.Context) error {
				<-ctx.Done()
				return resource.RequeueAfter(100*time.Millisecond, "no network yet")
			},
			want: "False Waiting: no network yet",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			first := counting.Named("first").Do(func(ctx context.Context, _ resource.Operation, obj client.Object) error {
				if obj.GetName() == "stuck" {
					return test.stuck(ctx)
				}
				return nil
			})
			second := counting.Named("second")
			cfg := counting.Services("queue", first, second)
			cfg.Timeout = time.Second // with one worker
			op := bed.Start(counting.Controller(cfg))
			bed.Make(counting.Service("stuck"))
			bed.AtLeast(1, "passes", func() int { return first.Created("stuck") })
			bed.Make(counting.Service("well"))
			bed.Ready("well", "True Done")
			bed.Ready("stuck", test.want)
			bed.AtLeast(3, "passes", func() int { return first.Created("stuck") })
			if n := second.Created("stuck"); n != 0 {
				t.Errorf("the slice went on %d times after its time was over", n)
			}
			first.Do(nil)
			bed.Ready("stuck", "True Done")
			op.Stop()
		})
	}
}
