// Package clockwork runs an operator whose time the caller moves. The operator runs in the caller's process, with all that a process of its own has but
// the signal handler and the commands; it and the simulated Aiven go by one clock, which stands still between two moves. The API server goes by the real
// time, at which the clock begins.
package clockwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/flag"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/service"
)

const (
	// Deadline is how long the operator may take to come to rest, in real time. It is generous: machines that run tests are slow at times.
	Deadline = 90 * time.Second
	// queuesOfOperator are those of its two controllers and of its janitor.
	queuesOfOperator = 3
)

// managed are the labels of the Secrets that the operator sees.
var managed = client.MatchingLabels{key.LabelType: key.TypeAivenator}

// Clockwork is a clock, and the operator that goes by it, one at a time.
type Clockwork struct {
	// Quick lets AdvanceTo not ask the API server what there is: whoever else has written something calls Settle.
	Quick bool
	// Grain is the least step of AdvanceTo on its way: what falls due within one is late, and done together. Zero: everything happens at its moment.
	Grain time.Duration

	clock  *clocktesting.FakePassiveClock
	inside *surroundings // of the operator that runs; nil: none does
}

// Operator says which operator runs, and where.
type Operator struct {
	// Client is the caller's. It reads from the API server.
	Client client.Reader
	// Namespaces are those that the flags let the operator work in.
	Namespaces []string
	// Token is for Aiven.
	Token string
	// Args are its flags. What they do not say is as in production.
	Args []string
}

// surroundings are what can be seen of an operator.
type surroundings struct {
	Operator
	informers func() []*informer
	written   *written
	process   *operator.Process

	mu     sync.Mutex
	queues []*queue
}

// New makes a clock that begins now, at a full second.
func New() *Clockwork {
	return &Clockwork{clock: clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second))}
}

// Clock is what all go by.
func (c *Clockwork) Clock() clock.PassiveClock { return c.clock }

// Now is the time by the clock.
func (c *Clockwork) Now() time.Time { return c.clock.Now() }

// Start starts an operator, and does not wait until it is ready. Before another one is started it has to end, and Ended to be called. Its timers are by the
// clock, the janitor's too.
func (c *Clockwork) Start(o Operator) (*operator.Process, error) {
	var f flag.Flags
	flags := pflag.NewFlagSet("operator", pflag.ContinueOnError)
	f.Bind(flags)
	if err := flags.Parse(append([]string{"--metrics-address=0", "--health-address=0"}, o.Args...)); err != nil {
		return nil, fmt.Errorf("read the operator's flags: %w", err)
	}
	f.AivenToken = flag.Token(o.Token)
	if err := f.Validate(); err != nil {
		return nil, fmt.Errorf("read the operator's flags: %w", err)
	}
	in, registry := &surroundings{Operator: o, written: newWritten()}, prometheus.NewRegistry()
	s := service.Surroundings{
		Clock: c.clock, Registry: registry,
		NewQueue: func(_ string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			q := newQueue(c.clock, limiter)
			in.mu.Lock()
			defer in.mu.Unlock()
			in.queues = append(in.queues, q)
			return q
		},
		Manager: func(o *manager.Options) {
			o.Controller.SkipNameValidation = new(true) // there are others in the process
			o.Cache.NewInformer, in.informers = newInformer(o.Scheme)
			o.NewClient = in.written.client
		},
	}
	in.process = operator.Inside(registry, func(ctx context.Context, stopping <-chan struct{}, output io.Writer) error {
		s.Stopping = stopping
		return service.RunIn(ctx, s, f, service.NewLogger(output, f.LogLevel))
	})
	c.inside = in
	return in.process, nil
}

// Ended says that the operator has been stopped or killed, or is about to be.
func (c *Clockwork) Ended() { c.inside = nil }

// AdvanceTo moves the time on. Everything that falls due in between happens at its moment and in its order, and has been done when it returns:
// what is due next is waited for, and done, before the time moves on. Without an operator the time just moves.
func (c *Clockwork) AdvanceTo(ctx context.Context, end time.Time) error {
	if end.Before(c.Now()) {
		end = c.Now()
	}
	for {
		if err := c.settle(ctx, c.Quick); err != nil {
			return err
		}
		next := c.next(end)
		c.Jump(next)
		if next.Equal(end) {
			return c.settle(ctx, c.Quick)
		}
	}
}

// next is the moment to which the time moves on its way to an end.
func (c *Clockwork) next(end time.Time) time.Time {
	next := end
	for _, q := range c.queues() {
		if at := q.next(); !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	if least := c.Now().Add(c.Grain); next.Before(least) {
		next = least
	}
	if next.After(end) {
		return end
	}
	return next
}

// Jump moves the time without any wait: what has fallen due by then is begun.
func (c *Clockwork) Jump(to time.Time) {
	c.clock.SetTime(to)
	for _, q := range c.queues() {
		q.release()
	}
}

func (c *Clockwork) queues() []*queue {
	if c.inside == nil {
		return nil
	}
	c.inside.mu.Lock()
	defer c.inside.mu.Unlock()
	return slices.Clone(c.inside.queues)
}

// Settle waits until the operator has nothing to do at this moment: its queues are empty, none of its passes runs, and everything that the API server
// has of the namespaces has passed through its caches and handlers into its queues. What the caller has written before the call is part of that; what other
// programs make of it, such as Pods of a Deployment, has to be waited for before.
func (c *Clockwork) Settle(ctx context.Context) error { return c.settle(ctx, false) }

// settle is Settle; a quick one waits for nothing but what the operator itself has written.
func (c *Clockwork) settle(ctx context.Context, quick bool) error {
	if c.inside == nil {
		return nil
	}
	limit := time.After(Deadline)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.settled(ctx, quick)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the operator to come to rest: %w: %w", context.Cause(ctx), err)
		case <-c.inside.process.Done():
			return fmt.Errorf("wait for the operator to come to rest: it has ended:\n%s", c.inside.process.Log())
		case <-limit:
			return fmt.Errorf("wait for the operator to come to rest: not so after %s: %w", Deadline, err)
		}
	}
}

// settled tells what there still is to do.
func (c *Clockwork) settled(ctx context.Context, quick bool) error {
	before, err := c.idle()
	if err != nil {
		return err
	}
	if quick {
		err = c.inside.written.caughtUp(c.inside.informers())
	} else {
		err = c.caughtUp(ctx)
	}
	if err != nil {
		return err
	}
	after, err := c.idle()
	if err == nil && after != before {
		err = errors.New("something was done in the meantime")
	}
	return err
}

// idle tells whether the queues are at work, and how many items they have handed out.
func (c *Clockwork) idle() (taken int, err error) {
	queues := c.queues()
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

// caughtUp tells what the operator has not seen yet. The API server is asked for all kinds at once: after a write to one kind it may take a tenth of a second
// to be sure of another.
func (c *Clockwork) caughtUp(ctx context.Context) error {
	byKind := map[schema.GroupVersionKind][]*informer{}
	for _, i := range c.inside.informers() {
		if i.kind.Kind != "Namespace" { // those of others, too
			byKind[i.kind] = append(byKind[i.kind], i)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for kind, informers := range byKind {
		group.Go(func() error {
			want, err := c.versions(ctx, kind)
			if err != nil {
				return err
			}
			return haveCaughtUp(informers, want, c.inside.Namespaces)
		})
	}
	return group.Wait()
}

// versions are those of the objects that the API server has of a kind in the namespaces.
func (c *Clockwork) versions(ctx context.Context, kind schema.GroupVersionKind) (map[client.ObjectKey]string, error) {
	lists := make([]map[client.ObjectKey]string, len(c.inside.Namespaces))
	group, ctx := errgroup.WithContext(ctx)
	for i, namespace := range c.inside.Namespaces {
		group.Go(func() error {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			options := []client.ListOption{client.InNamespace(namespace)}
			if kind.Kind == "Secret" {
				options = append(options, managed)
			}
			if err := c.inside.Client.List(ctx, list, options...); err != nil {
				return fmt.Errorf("list %s of namespace %s: %w", kind.Kind, namespace, err)
			}
			lists[i] = map[client.ObjectKey]string{}
			for j := range list.Items {
				lists[i][client.ObjectKeyFromObject(&list.Items[j])] = list.Items[j].ResourceVersion
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := map[client.ObjectKey]string{}
	for _, list := range lists {
		maps.Copy(all, list)
	}
	return all, nil
}
