//go:build k8srequired

// Package statusupdate shows that resources can write the status of the object themselves, beside what the controller reports, while others write
// the object too. It works on headless Services, which have a status and no controller that writes it.
package statusupdate

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func condition(of string) metav1.Condition {
	return metav1.Condition{Type: of, Status: metav1.ConditionTrue, Reason: "Done"}
}

// writer returns a resource that reads the object anew and writes a condition with an update of the status, unless it is there; again if somebody
// else was faster.
func writer(bed *counting.Bed) *counting.Resource {
	return counting.Named("writer").Do(func(ctx context.Context, op resource.Operation, obj client.Object) error {
		if op == resource.Delete {
			return nil
		}
		return retry.RetryOnConflict(wait.Backoff{Steps: 20, Duration: 5 * time.Millisecond, Jitter: 1}, func() error {
			s := &corev1.Service{}
			if err := bed.Get(ctx, client.ObjectKeyFromObject(obj), s); err != nil {
				return err
			}
			if !meta.SetStatusCondition(&s.Status.Conditions, condition("Written")) {
				return nil
			}
			return bed.Status().Update(ctx, s)
		})
	})
}

// report writes a condition of the controller.
func report(s *corev1.Service, results []resource.Result) {
	c := condition("Reported")
	for _, r := range results {
		if r.Err != nil {
			c.Status, c.Reason = metav1.ConditionFalse, "Failed"
		}
	}
	meta.SetStatusCondition(&s.Status.Conditions, c)
}

func config(name string, slice ...resource.Interface) controller.Config[*corev1.Service] {
	return controller.Config[*corev1.Service]{Name: name, Resources: slice, Report: report}
}

// are waits until the conditions of a Service are these and all true.
func are(bed *counting.Bed, s *corev1.Service, want ...string) {
	bed.Eventually(func(ctx context.Context) error {
		if err := bed.Get(ctx, bed.Key(s.Name), s); err != nil {
			return err
		}
		got := map[string]metav1.ConditionStatus{}
		for _, c := range s.Status.Conditions {
			got[c.Type] = c.Status
		}
		all := map[string]metav1.ConditionStatus{}
		for _, name := range want {
			all[name] = metav1.ConditionTrue
		}
		if diff := cmp.Diff(all, got); diff != "" {
			return fmt.Errorf("conditions of %s: (-want +got)\n%s", s.Name, diff)
		}
		return nil
	})
}

func TestResourceWritesStatus(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		report func(*corev1.Service, []resource.Result)
		want   []string
	}{
		"of which the controller writes nothing":       {want: []string{"Written"}},
		"to which the controller adds what it reports": {report: report, want: []string{"Reported", "Written"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			r := writer(bed)
			cfg := config("status", r)
			cfg.Report, cfg.Resync = test.report, 200*time.Millisecond
			op := bed.Start(counting.Controller(cfg))
			s := counting.Service("cart")
			bed.Make(s)
			are(bed, s, test.want...)

			// From now on nothing is written.
			version, before := s.ResourceVersion, r.Created("cart")
			bed.AtLeast(before+10, "creations", func() int { return r.Created("cart") })
			bed.Read(s)
			if s.ResourceVersion != version {
				t.Errorf("the object was written: its version was %s, and is %s", version, s.ResourceVersion)
			}
			bed.Event("cart")
			bed.Remove(s)
			bed.Gone(s)
			op.Healthy()
		})
	}
}

func TestOtherWritersAreNoFailure(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := writer(bed)
	var setups []counting.Setup
	for _, name := range []string{"one", "two"} { // controllers that write the same objects
		cfg := config(name, r)
		cfg.Workers = 4
		setups = append(setups, counting.Controller(cfg))
	}
	op := bed.Start(setups...)

	const objects, touches = 3, 200
	var services []*corev1.Service
	for i := range objects {
		s := counting.Service("cart-" + strconv.Itoa(i))
		services = append(services, s)
		bed.Make(s)
	}
	touch := func(name string) {
		s := counting.Service(name)
		s.Namespace = bed.Namespace
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := range touches {
			<-tick.C
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, i))
			if err := client.IgnoreNotFound(bed.Patch(t.Context(), s, patch)); err != nil {
				t.Errorf("touch %s: %v", name, err)
			}
		}
	}
	var wg sync.WaitGroup
	for _, s := range services {
		wg.Go(func() { touch(s.Name) })
	}
	wg.Wait()
	for _, s := range services {
		are(bed, s, "Reported", "Written")
		bed.Finalizers(s, controller.Finalizer("one"), controller.Finalizer("two"))
	}
	for _, s := range services {
		wg.Go(func() { touch(s.Name) })
		bed.Remove(s)
	}
	wg.Wait()
	for _, s := range services {
		bed.Gone(s)
	}
	op.Healthy()
}
