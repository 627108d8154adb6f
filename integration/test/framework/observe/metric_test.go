//go:build k8srequired

package observe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const (
	failures  = "operatorkit_controller_errors_total"
	created   = "operatorkit_controller_creation_timestamp"
	deleted   = "operatorkit_controller_deletion_timestamp"
	heartbeat = "keysmith_controller_heartbeat_timestamp_seconds"
	latency   = "keysmith_controller_event_latency_seconds"
)

// series returns the number of series of each metric.
func series(t *testing.T, op *counting.Operator) map[string]int {
	t.Helper()
	families, err := op.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, family := range families {
		n[family.GetName()] = len(family.GetMetric())
	}
	return n
}

// failFor makes calls for the objects of these names fail, each with a text of its own.
func failFor(names ...string) counting.Decide {
	return func(_ context.Context, _ resource.Operation, obj client.Object) error {
		for _, name := range names {
			if obj.GetName() == name {
				return fmt.Errorf("no power for %s", obj.GetName())
			}
		}
		return nil
	}
}

func TestTimeStampsComeAndGoWithTheObject(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter").Do(failFor("sick"))
	cfg := counting.Secrets("observe", r)
	cfg.MaxBackoff = 100 * time.Millisecond
	op := bed.Start(counting.Controller(cfg))
	objects := []*corev1.Secret{counting.Secret("well"), counting.Secret("sick")}
	shows := func(s *corev1.Secret, metric string, want float64) {
		t.Helper()
		bed.Eventually(func(context.Context) error {
			got := op.Metric(metric, "controller", "observe", "kind", "Secret", "name", s.Name, "namespace", bed.Namespace)
			if got != want {
				return fmt.Errorf("%s of %s is %v, want %v", metric, s.Name, got, want)
			}
			return nil
		})
	}
	for _, s := range objects {
		bed.Make(s)
		bed.AtLeast(1, "creations", func() int { return r.Created(s.Name) })
		shows(s, created, float64(s.CreationTimestamp.Unix()))
		shows(s, deleted, 0)
	}

	r.Do(failFor("well", "sick"))
	for _, s := range objects {
		bed.Remove(s)
		bed.AtLeast(1, "deletions", func() int { return r.Deleted(s.Name) })
		bed.Read(s)
		shows(s, created, float64(s.CreationTimestamp.Unix()))
		shows(s, deleted, float64(s.DeletionTimestamp.Unix()))
	}
	r.Do(nil)
	bed.Eventually(func(context.Context) error {
		if n := series(t, op); n[created]+n[deleted] != 0 {
			return fmt.Errorf("%d and %d time stamps, but all objects are gone", n[created], n[deleted])
		}
		return nil
	})
}

func TestScrapeMakesNoCall(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	op, calls := start(bed, counting.Controller(counting.Secrets("observe", r)))
	const objects = 10
	for i := range objects {
		s := counting.Secret(fmt.Sprintf("cart-%d", i))
		bed.Make(s)
		bed.AtLeast(1, "creations", func() int { return r.Created(s.Name) })
		bed.Finalizers(s, controller.Finalizer("observe"))
	}
	scrape := func() map[string]int {
		before := calls.all()
		var n map[string]int
		for range 20 {
			n = series(t, op)
		}
		if diff := cmp.Diff(before, calls.all()); diff != "" {
			t.Errorf("calls: (-before +after)\n%s", diff)
		}
		return n
	}
	scrape()
	op.Stop() // what is shown is known, and needs nobody to ask
	if n := scrape()[created]; n != objects {
		t.Errorf("%d time stamps, want %d", n, objects)
	}
	op.Healthy()
}

func TestFailuresOnlyGrow(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter").Do(failFor("sick"))
	cfg := counting.Secrets("observe", r)
	cfg.MaxBackoff = 100 * time.Millisecond
	op := bed.Start(counting.Controller(cfg))
	if n := series(t, op)[failures]; n != 1 || op.Metric(failures) != 0 {
		t.Errorf("%d series before anything failed, with %v failures, want one with none", n, op.Metric(failures))
	}
	var last float64
	grown := func(by float64) {
		t.Helper()
		bed.Eventually(func(context.Context) error {
			now := op.Metric(failures, "controller", "observe")
			if now < last {
				t.Fatalf("the number of failures went from %v to %v", last, now)
			}
			if now < last+by {
				return fmt.Errorf("%v failures, want at least %v", now, last+by)
			}
			return nil
		})
		last = op.Metric(failures, "controller", "observe")
	}
	sick := counting.Secret("sick")
	for range 3 {
		bed.Make(sick)
		grown(3)
		before := r.Created("sick")
		r.Do(nil)
		bed.AtLeast(before+1, "creations", func() int { return r.Created("sick") })
		grown(0)
		bed.Remove(sick)
		bed.Gone(sick)
		grown(0)
		r.Do(failFor("sick"))
		sick = counting.Secret("sick")
	}
	if n := series(t, op)[failures]; n != 1 {
		t.Errorf("%d series, want one", n)
	}
}

func TestSeriesDoNotGrowWithObjects(t *testing.T) {
	t.Parallel()
	count := func(t *testing.T, objects int) map[string]int {
		beds := []*counting.Bed{counting.New(t)}
		beds = append(beds, beds[0].Neighbour(), beds[0].Neighbour())
		namespaces := map[string]cache.Config{}
		for _, bed := range beds {
			namespaces[bed.Namespace] = cache.Config{}
		}
		r := counting.Named("counter")
		r.Do(func(_ context.Context, _ resource.Operation, obj client.Object) error {
			if obj.GetLabels()["sick"] != "" {
				return fmt.Errorf("no power for %s at %s", obj.GetName(), time.Now())
			}
			return nil
		})
		op := beds[0].StartWith(func(o *manager.Options) { o.Cache.DefaultNamespaces = namespaces }, func(o *counting.Operator) error {
			cfg := counting.Secrets("observe", resource.Wrap([]resource.Interface{r},
				middleware.NewMetrics(o.Registry, nil).Middleware("observe"))...)
			cfg.MaxBackoff, cfg.Workers = time.Second, 4
			return counting.Controller(cfg)(o)
		})
		for i := range objects {
			bed, s, passes := beds[i%len(beds)], counting.Secret(fmt.Sprintf("cart-%d", i)), 1
			if i%3 == 0 {
				s.Labels, passes = map[string]string{"sick": "yes"}, 2
			}
			bed.Make(s)
			bed.AtLeast(passes, "creations", func() int { return r.Created(s.Name) })
		}
		n := series(t, op)
		if n[created] != objects || n[deleted] != 0 {
			t.Errorf("%d and %d time stamps of %d objects", n[created], n[deleted], objects)
		}
		delete(n, created)
		return n
	}
	few, many := count(t, 6), count(t, 50)
	if diff := cmp.Diff(few, many); diff != "" {
		t.Errorf("series of a few objects and of many: (-few +many)\n%s", diff)
	}
}

func TestHeartbeatNeedsNoObject(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	begin := float64(time.Now().Unix())
	op := bed.Start(counting.Controller(counting.Secrets("observe", counting.Named("idle"))))
	beats := func(after float64) float64 {
		bed.Eventually(func(context.Context) error {
			if op.Metric(heartbeat, "controller", "observe") <= after {
				return errors.New("no beat")
			}
			return nil
		})
		return op.Metric(heartbeat, "controller", "observe")
	}
	beats(beats(begin - 1))
	op.Healthy()
}

func TestLatencyIsThatOfChanges(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	cfg := counting.Secrets("observe", r)
	cfg.Resync = 100 * time.Millisecond
	op := bed.Start(counting.Controller(cfg))
	resyncs := func(name string) {
		before := r.Created(name)
		bed.AtLeast(before+10, "resyncs", func() int { return r.Created(name) })
	}
	measured := func() int { return int(op.Metric(latency, "controller", "observe")) }
	bed.Make(counting.Secret("first")) // when it is reconciled, the watch is there
	resyncs("first")
	before := measured()

	// It has our finalizer already, so that the controller does not write it.
	cart := counting.Secret("cart", func(s *corev1.Secret) { s.Finalizers = []string{controller.Finalizer("observe")} })
	bed.Make(cart)
	bed.AtLeast(before+1, "changes", measured)
	const changes = 5
	for i := range changes {
		bed.Annotate(cart, "touched", fmt.Sprint(i))
		bed.AtLeast(before+2+i, "changes", measured)
	}
	resyncs("cart")
	resyncs("first")
	if n := measured() - before; n != 1+changes {
		t.Errorf("%d latencies, want those of the creation and of %d changes", n, changes)
	}
	op.Healthy()
}
