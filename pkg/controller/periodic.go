package controller

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/cachekeycontext"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

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
	// Clock tells the time and keeps the timers. Default: the real one.
	Clock clock.Clock
	// Metrics counts failed rounds and tells the time of the last good one. Default: one that nobody sees.
	Metrics *Metrics
}

// Periodic runs a resource at start, on a timer, and when it is triggered, on the leader only. A round that fails or
// panics is logged and counted, and the timer goes on. One that answers resource.RequeueAfter is followed by the next
// after that time, if that is earlier. It is made by NewPeriodic.
type Periodic struct {
	cfg       PeriodicConfig
	logger    *logr.Logger // nil: that of the context
	triggered chan struct{}
	heart     *heart
	loops     int
}

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
	cfg.Debounce = defaulted(cfg.Debounce, time.Second)
	cfg.Timeout = defaulted(cfg.Timeout, 10*time.Minute)
	cfg.Grace = defaulted(cfg.Grace, defaultGrace)
	cfg.Metrics.announce(cfg.Name)
	return &Periodic{cfg: cfg, triggered: make(chan struct{}, 1), heart: newHeart(cfg.Clock, cfg.Timeout, cfg.Metrics.beat(cfg.Name))}, nil
}

// SetupWithManager adds it to the manager, whose logger it uses.
func (p *Periodic) SetupWithManager(mgr manager.Manager) error {
	p.logger = new(mgr.GetLogger())
	return mgr.Add(p)
}

// Trigger asks for a round soon. It never blocks. Triggers that come while another one waits are one with it; a
// trigger during a round leads to another round.
func (p *Periodic) Trigger() {
	select {
	case p.triggered <- struct{}{}:
	default:
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
	for ctx.Err() == nil && !isClosed(p.cfg.Stopping) {
		p.wait(ctx, p.round(ctx))
	}
	return nil
}

// wait returns after d, or some time after a trigger, or when ctx ends.
func (p *Periodic) wait(ctx context.Context, d time.Duration) {
	timer := p.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.cfg.Stopping:
	case <-timer.C():
	case <-p.triggered:
		debounce := p.cfg.Clock.NewTimer(p.cfg.Debounce)
		defer debounce.Stop()
		select {
		case <-ctx.Done():
		case <-p.cfg.Stopping:
		case <-debounce.C():
		}
	}
}

// round runs the resource once and returns the time to the next round.
func (p *Periodic) round(ctx context.Context) time.Duration {
	select {
	case <-p.triggered: // this round answers it
	default:
	}
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
