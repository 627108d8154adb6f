// Package middleware holds what every resource wants and none should contain: a log line, a metric and a few quick
// repetitions for each call.
//
//	m := middleware.NewMetrics(registry, nil)
//	slice = resource.Wrap(slice, middleware.Logging(nil), m.Middleware("application"), middleware.Retry(nil, nil))
//
// The first one is outermost: one line and one observation for a call, however often it was repeated. Where a clock is
// an argument, nil stands for the real one.
//
// Each is a resource.Middleware, and so is whatever resource.Around makes of a function: those of a project stand beside
// these in the same slice.
package middleware

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Logging adds the resource to the logger of the context, and writes one line for each call at V(1): which operation,
// the outcome, how long it took. The error is not in it: the controller logs errors, once.
func Logging(clk clock.PassiveClock) resource.Middleware {
	if clk == nil {
		clk = clock.RealClock{}
	}
	return func(next resource.Interface) resource.Interface {
		name := []any{"resource", next.Name()}
		return resource.Around(func(ctx context.Context, c resource.Call) error {
			logger, err := logr.FromContext(ctx)
			if err != nil { // then controller-runtime's, which costs a copy
				logger = log.FromContext(ctx)
			}
			logger = logger.WithValues(name...)
			start := clk.Now()
			err = c.Run(logr.NewContext(ctx, logger))
			if logger = logger.V(1); logger.Enabled() {
				logger.Info("resource ran", "operation", string(c.Operation),
					"outcome", string(resource.OutcomeOf(err)), "duration", clk.Since(start).String())
			}
			return err
		})(next)
	}
}

// Metrics measures calls: keysmith_resource_duration_seconds{controller,resource,operation,outcome}, a histogram
// whose count is the number of calls.
type Metrics struct {
	clock   clock.PassiveClock
	seconds *prometheus.HistogramVec
}

// NewMetrics registers the histogram on reg. One Metrics serves all controllers of a process; a second one on the
// same registry panics.
func NewMetrics(reg prometheus.Registerer, clk clock.PassiveClock) *Metrics {
	if clk == nil {
		clk = clock.RealClock{}
	}
	return &Metrics{clock: clk, seconds: promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{
		Name:    "keysmith_resource_duration_seconds",
		Help:    "How long a call of a resource took, repetitions included.",
		Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60},
	}, []string{"controller", "resource", "operation", "outcome"})}
}

// Middleware measures the calls of the named controller.
func (m *Metrics) Middleware(controller string) resource.Middleware {
	type series struct {
		resource  string
		operation resource.Operation
		outcome   resource.Outcome
	}
	var known sync.Map // series to prometheus.Observer: looking one up by its labels takes longer than all the rest
	return resource.Around(func(ctx context.Context, c resource.Call) error {
		start := m.clock.Now()
		err := c.Run(ctx)
		seconds := m.clock.Since(start).Seconds()
		s := series{c.Resource, c.Operation, resource.OutcomeOf(err)}
		observer, ok := known.Load(s)
		if !ok {
			observer, _ = known.LoadOrStore(s, m.seconds.WithLabelValues(controller, s.resource, string(s.operation), string(s.outcome)))
		}
		observer.(prometheus.Observer).Observe(seconds)
		return err
	})
}
