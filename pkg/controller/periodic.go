package controller

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/cachekeycontext"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// PeriodicConfig says what a Periodic runs and when. Name, Resource and Interval are required.
type PeriodicConfig struct {
	// Name names it in metrics and log lines.
	Name string
	// Resource is run: EnsureCreated with a nil object.
	Resource resource.Interface
	// Interval is the time from the end of a round to the beginning of the next, spread by up to a fifth to both sides.
	Interval time.Duration
	// Debounce is how long a trigger waits for others, so that many become one round. Default one second.
	Debounce time.Duration
	// Timeout limits a round. Default ten minutes.
	Timeout time.Duration
	// Stopping and Grace let a running round finish, as in Config.
	Stopping <-chan struct{}
	Grace    time.Duration
	// Clock tells the time. Default: the real one.
	Clock clock.PassiveClock
	// NewQueue makes the queue, whose delays are the interval and the debounce. nil: one with real delays.
	NewQueue NewQueue
	// Metrics counts failed rounds and tells the time of the last good one. Default: one that nobody sees.
	Metrics *Metrics
}

// Periodic runs a resource at start, on a timer, and when it is triggered, on the leader only. A round that fails or
// panics is logged and counted, and the timer goes on. One that answers resource.RequeueAfter is followed by the next
// after that time, if that is earlier. It is made by NewPeriodic.
type Periodic struct {
	cfg    PeriodicConfig
	logger *logr.Logger // nil: that of the context
	queue  atomic.Pointer[queue]
	heart  *heart
	loops  int
}

// next is the only item in the queue of a Periodic: the next round.
var next = reconcile.Request{}

// NewPeriodic returns a Periodic. It fails if the configuration is incomplete.
func NewPeriodic(cfg PeriodicConfig) (*Periodic, error) {
	if cfg.Name == "" || cfg.Resource == nil || cfg.Interval <= 0 {
		return nil, fmt.Errorf("set up periodic %q: name, resource and a positive interval are required", cfg.Name)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if cfg.NewQueue == nil {
		cfg.NewQueue = func(_ string, l workqueue.TypedRateLimiter[reconcile.Request]) queue {
			return workqueue.NewTypedRateLimitingQueue(l)
		}
	}
	cfg.Debounce = defaulted(cfg.Debounce, time.Second)
	cfg.Timeout = defaulted(cfg.Timeout, 10*time.Minute)
	cfg.Grace = defaulted(cfg.Grace, defaultGrace)
	cfg.Metrics.announce(cfg.Name)
	return &Periodic{cfg: cfg, heart: newHeart(cfg.Clock, cfg.Timeout, cfg.Metrics.beat(cfg.Name))}, nil
}

// SetupWithManager adds it to the manager, whose logger it uses.
func (p *Periodic) SetupWithManager(mgr manager.Manager) error {
	p.logger = new(mgr.GetLogger())
	return mgr.Add(p)
}

// Trigger asks for a round soon. Triggers that come while another one waits are one with it; a trigger during a round leads
// to another round. The first round answers those that came before it.
func (p *Periodic) Trigger() {
	if q := p.queue.Load(); q != nil {
		(*q).AddAfter(next, p.cfg.Debounce)
	}
}

// NeedLeaderElection tells the manager to start it on the leader only.
func (p *Periodic) NeedLeaderElection() bool { return true }

// Start runs rounds until ctx ends or the process is asked to stop. It returns nil.
func (p *Periodic) Start(ctx context.Context) error {
	logger := log.FromContext(ctx)
	if p.logger != nil {
		logger = *p.logger
	}
	ctx = log.IntoContext(ctx, logger.WithValues("controller", p.cfg.Name))
	p.heart.tick()
	go every(ctx, beatInterval, p.heart.tick)
	q := p.cfg.NewQueue(p.cfg.Name, newLimiter(p.cfg.Interval))
	p.queue.Store(&q)
	go func() {
		select {
		case <-ctx.Done():
		case <-p.cfg.Stopping:
		}
		q.ShutDown()
	}()
	q.Add(next)
	for {
		_, shutdown := q.Get()
		if shutdown || isClosed(ctx.Done()) || isClosed(p.cfg.Stopping) {
			return nil
		}
		q.AddAfter(next, p.round(ctx))
		q.Done(next)
	}
}

// round runs the resource once and returns the time to the next round.
func (p *Periodic) round(ctx context.Context) time.Duration {
	defer p.heart.begin()()
	alive, cancel := outlive(ctx, p.cfg.Stopping, p.cfg.Grace)
	defer cancel()
	ctx, cancel = context.WithTimeout(alive, p.cfg.Timeout)
	defer cancel()

	p.loops++
	loop := strconv.Itoa(p.loops)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("loop", loop))
	ctx = cachekeycontext.NewContext(ctx, p.cfg.Name+"-"+loop)
	_, err := runSlice(ctx, []resource.Interface{p.cfg.Resource}, nil, resource.Create,
		&logLabels{controller: p.cfg.Name, loop: loop})

	wait, _ := resource.After(err)
	switch o := resource.OutcomeOf(err); {
	case o == resource.Done, o == resource.Waiting:
		p.cfg.Metrics.succeeded(p.cfg.Name, p.cfg.Clock.Now())
	case alive.Err() != nil:
		log.FromContext(ctx).V(1).Info("round was interrupted")
	default:
		p.cfg.Metrics.failed(p.cfg.Name)
		log.FromContext(ctx).Error(microerror.Mask(explain(err)), "round failed")
	}
	return earliest(wait, jitter(p.cfg.Interval))
}
