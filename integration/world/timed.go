package world

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/flag"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/service"
)

// Timed is a world whose time the test moves. The operator and the simulator go by one clock, which stands still between two calls of Advance; the
// operator runs in the process of the test, with all that a process of its own has but the signal handler and the commands. The API server goes by the
// real time, at which the clock begins.
//
// Operators can be stopped, killed and started at any time, one at a time. One that was started with the production's settings looks at each
// application every 15 minutes; Advance is quickest where --resync and --janitor-period are long.
type Timed struct {
	*World

	clock  *clocktesting.FakePassiveClock
	inside *surroundings // of the operator that runs
}

// surroundings are what a test sees of an operator.
type surroundings struct {
	informers func() []*informer

	mu     sync.Mutex
	queues []*queue
}

// managed are the labels of the Secrets that the operator sees.
var managed = client.MatchingLabels{key.LabelType: key.TypeAivenator}

// queuesOfOperator are those of its two controllers and of its janitor.
const queuesOfOperator = 3

// NewTimed makes a world as New does, with a clock that begins now, at a full second.
func NewTimed(t testing.TB) *Timed {
	t.Helper()
	clk := clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second))
	return &Timed{World: newWorld(t, aivensim.Options{Clock: clk}), clock: clk}
}

// Now is the time of the world.
func (w *Timed) Now() time.Time { return w.clock.Now() }

// Start starts an operator with the defaults of production and these flags, and waits until it has nothing to do. The janitor is not quick here: its
// timer is by the clock.
func (w *Timed) Start(args ...string) {
	w.t.Helper()
	var f flag.Flags
	flags := pflag.NewFlagSet("operator", pflag.ContinueOnError)
	f.Bind(flags)
	args = append(append(w.args(), "--kubeconfig="+w.Kubeconfig(), "--metrics-address=0", "--health-address=0"), args...)
	if err := flags.Parse(args); err != nil {
		w.t.Fatalf("flags of the operator: %v", err)
	}
	f.AivenToken = Token
	if err := f.Validate(); err != nil {
		w.t.Fatalf("flags of the operator: %v", err)
	}
	in, registry := &surroundings{}, prometheus.NewRegistry()
	s := service.Surroundings{
		Clock: w.clock, Registry: registry,
		NewQueue: func(_ string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			q := newQueue(w.clock, limiter)
			in.mu.Lock()
			defer in.mu.Unlock()
			in.queues = append(in.queues, q)
			return q
		},
		Manager: func(o *manager.Options) {
			o.Controller.SkipNameValidation = new(true) // there are others in the process
			o.Cache.NewInformer, in.informers = newInformer(o.Scheme)
		},
	}
	w.inside = in
	w.Operator = operator.Inside(registry, func(ctx context.Context, stopping <-chan struct{}, output io.Writer) error {
		s.Stopping = stopping
		return service.RunIn(ctx, s, f, service.NewLogger(output, f.LogLevel))
	})
	w.Settle()
}

// Stop asks the operator to stop and waits for it.
func (w *Timed) Stop() {
	w.t.Helper()
	w.inside = nil
	w.World.Stop()
}

// Kill ends the operator in the middle of what it does. What it has sent may take effect or not.
func (w *Timed) Kill() {
	w.t.Helper()
	w.inside = nil
	w.World.Kill()
}

// Restart ends the operator well and starts another one.
func (w *Timed) Restart(args ...string) {
	w.t.Helper()
	w.Stop()
	w.Start(args...)
}

// Advance moves the time on by d. Everything that falls due in between happens at its moment and in its order, and has been done when it returns:
// what is due next is waited for, and done, before the time moves on. Without an operator the time just moves.
func (w *Timed) Advance(d time.Duration) {
	w.t.Helper()
	w.AdvanceTo(w.Now().Add(d))
}

// AdvanceTo is Advance up to a time.
func (w *Timed) AdvanceTo(end time.Time) {
	w.t.Helper()
	for {
		w.Settle()
		next := end
		for _, q := range w.queues() {
			if at := q.next(); !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if next.Before(w.Now()) {
			next = w.Now()
		}
		w.clock.SetTime(next)
		for _, q := range w.queues() {
			q.release()
		}
		if next.Equal(end) {
			w.Settle()
			return
		}
	}
}

func (w *Timed) queues() []*queue {
	if w.inside == nil {
		return nil
	}
	w.inside.mu.Lock()
	defer w.inside.mu.Unlock()
	return append([]*queue(nil), w.inside.queues...)
}

// Settle waits until the operator has nothing to do at this moment: its queues are empty, none of its passes runs, and everything that the API server
// has of the namespace has passed through its caches and handlers into its queues. What the test has written before the call is part of that; what other
// programs make of it, such as Pods of a Deployment, has to be waited for before.
func (w *Timed) Settle() {
	w.t.Helper()
	if w.inside == nil {
		return
	}
	limit := time.After(Deadline)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var err error
	for {
		if err = w.settled(); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-w.Operator.Done():
			w.t.Fatalf("the operator has ended:\n%s", w.Operator.Log())
		case <-limit:
			w.t.Fatalf("the operator does not come to rest within %s: %v", Deadline, err)
		}
	}
}

// settled tells what there still is to do.
func (w *Timed) settled() error {
	before, err := w.idle()
	if err != nil {
		return err
	}
	if err := w.caughtUp(); err != nil {
		return err
	}
	after, err := w.idle()
	if err == nil && after != before {
		err = errors.New("something was done in the meantime")
	}
	return err
}

// idle tells whether the queues are at work, and how many items they have handed out.
func (w *Timed) idle() (taken int, err error) {
	queues := w.queues()
	if len(queues) < queuesOfOperator {
		return 0, errors.New("the operator is starting")
	}
	for _, q := range queues {
		idle, n := q.idle()
		if !idle {
			return 0, errors.New("there are passes to be made")
		}
		taken += n
	}
	return taken, nil
}

// caughtUp tells what the operator has not seen yet.
func (w *Timed) caughtUp() error {
	for _, i := range w.inside.informers() {
		if i.kind.Kind == "Namespace" { // of all tests
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(i.kind.GroupVersion().WithKind(i.kind.Kind + "List"))
		options := []client.ListOption{client.InNamespace(w.Namespace)}
		if i.kind.Kind == "Secret" {
			options = append(options, managed)
		}
		if err := w.List(w.t.Context(), list, options...); err != nil {
			return err
		}
		want := map[client.ObjectKey]string{}
		for j := range list.Items {
			want[client.ObjectKeyFromObject(&list.Items[j])] = list.Items[j].ResourceVersion
		}
		if err := i.caughtUp(want, w.Namespace); err != nil {
			return err
		}
	}
	return nil
}
