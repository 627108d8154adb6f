//go:build k8srequired

// Package election shows two replicas with leader election: only one works, the other one takes over when it stops or loses the lease, and never
// do both work.
package election

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const (
	lease     = "election"
	heartbeat = "keysmith_controller_heartbeat_timestamp_seconds"
)

// elected lets managers elect the one that works. Another one takes over after duration at the earliest, unless the lease was given back.
func elected(bed *counting.Bed, duration, renew time.Duration) func(*manager.Options) {
	return func(o *manager.Options) {
		o.LeaderElection = true
		o.LeaderElectionID = lease
		o.LeaderElectionNamespace = bed.Namespace
		o.LeaderElectionReleaseOnCancel = true
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = new(duration), new(renew), new(500*time.Millisecond)
	}
}

// leads waits until an operator leads.
func leads(t *testing.T, o *counting.Operator) {
	t.Helper()
	select {
	case <-o.Manager.Elected():
	case <-time.After(counting.Deadline):
		t.Fatal("it does not lead")
	}
}

// journal notes what happens, in order.
type journal struct {
	mu    sync.Mutex
	notes []string
}

func (j *journal) note(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.notes); n == 0 || j.notes[n-1] != what { // repetitions add nothing
		j.notes = append(j.notes, what)
	}
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.notes)
}

func TestOneReplicaWorksUntilItStops(t *testing.T) {
	t.Parallel()
	const objects = 10
	bed := counting.New(t)
	release := make(chan struct{})
	first := counting.Named("counter").Do(func(ctx context.Context, _ resource.Operation, obj client.Object) error {
		if obj.GetName() == "long" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	})
	second := counting.Named("counter")
	stopping := make(chan struct{})
	cfg := counting.Services("election", first)
	cfg.Workers, cfg.Stopping, cfg.Grace = 4, stopping, counting.Grace
	change := elected(bed, 10*time.Minute, 5*time.Minute) // the test ends before a lease does that is not given back
	leader := bed.StartWith(change, counting.Controller(cfg))
	leads(t, leader)
	next := counting.Services("election", second)
	standby := bed.StartWith(change, counting.Controller(next))

	for i := range objects {
		name := fmt.Sprintf("cart-%d", i)
		bed.Make(counting.Service(name))
		bed.Ready(name, "True Done")
	}
	bed.Make(counting.Service("long"))
	bed.AtLeast(1, "passes of the long one", func() int { return first.Created("long") })
	standby.Logs("Attempting to acquire leader lease")
	if n := leader.Metric(heartbeat, "controller", "election"); n == 0 {
		t.Error("the leader shows no sign of life")
	}

	// While the leader finishes its last pass it keeps the lease.
	close(stopping)
	var stopped sync.WaitGroup
	stopped.Go(leader.Stop)
	leader.Logs("Shutdown signal received")
	bed.Make(counting.Service("late"))
	if n := second.Created() + int(standby.Metric(heartbeat)); n != 0 || first.Created("late") != 0 {
		t.Errorf("%d signs of life of a replica that does not lead, %d passes of one that stops", n, first.Created("late"))
	}
	close(release)
	stopped.Wait()
	bed.Ready("long", "True Done")

	leads(t, standby)
	bed.Ready("late", "True Done")
	bed.AtLeast(objects+2, "creations by the next leader", func() int { return second.Created() })
	if n := standby.Metric(heartbeat, "controller", "election"); n == 0 {
		t.Error("the next leader shows no sign of life")
	}
	for _, line := range leader.Errors() {
		// The libraries call it an error too that a lease is given back, and that this interrupts a renewal under way.
		interrupted := strings.Contains(line, `"logger":"leaderelection"`) && strings.Contains(line, "context canceled")
		if !interrupted && !strings.Contains(line, "leader election lost") {
			t.Errorf("the first leader logged an error: %s", line)
		}
	}
	standby.Healthy()
}

func TestLostLeaseEndsAllWorkBeforeAnotherBegins(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	change := elected(bed, 24*time.Second, 10*time.Second)
	var events journal
	// work has effects as long as it may.
	work := func(ctx context.Context, _ resource.Operation, _ client.Object) error {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				events.note("first was cancelled")
				return ctx.Err()
			case <-tick.C:
				if ctx.Err() == nil {
					events.note("first works")
				}
			}
		}
	}
	first := counting.Named("counter").Do(work)
	second := counting.Named("counter").Do(func(context.Context, resource.Operation, client.Object) error {
		events.note("second works")
		return nil
	})
	cfg := counting.Services("election", first)
	cfg.Stopping = make(chan struct{}) // nobody asks it to stop
	leader := bed.StartWith(change, counting.Fails, counting.Controller(cfg))
	leads(t, leader)
	bed.Make(counting.Service("cart"))
	bed.AtLeast(1, "passes", func() int { return first.Created("cart") })
	standby := bed.StartWith(change, counting.Controller(counting.Services("election", second)))
	standby.Logs("Attempting to acquire leader lease")

	counting.Change(bed, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease}}, func(l *coordinationv1.Lease) {
		l.Spec.HolderIdentity = new("somebody else")
		l.Spec.RenewTime = new(metav1.NowMicro())
	})
	err := leader.Err()
	events.note("first has ended")
	if err == nil || !strings.Contains(err.Error(), "leader election lost") {
		t.Errorf("the operator that lost its lease ended with %v, want an error that says so", err)
	}
	bed.Ready("cart", "True Done") // by the second

	var got []string
	for _, event := range events.read() {
		// The manager does not wait for the pass that it cancelled.
		if event != "first has ended" {
			got = append(got, event)
		}
	}
	want := []string{"first works", "first was cancelled", "second works"}
	if got = slices.Compact(got); !slices.Equal(want, got) {
		t.Errorf("events %q, want %q", got, want)
	}
	all := events.read()
	if slices.Index(all, "first has ended") > slices.Index(all, "second works") {
		t.Errorf("the second begins before the first has ended: %q", all)
	}
	if n := leader.Metric("operatorkit_controller_errors_total"); n != 0 {
		t.Errorf("%v failures are counted, but a pass that was interrupted is none", n)
	}
	standby.Healthy()
}
