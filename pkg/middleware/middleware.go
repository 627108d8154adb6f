// Package middleware holds what every resource wants and none should contain: a log line, a metric and a few quick
// repetitions for each call.
//
//	m := middleware.NewMetrics(registry)
//	slice = resource.Wrap(slice, middleware.Logging(), m.Middleware("application"), middleware.Retry(nil))
//
// The first one is outermost: one line and one observation for a call, however often it was repeated.
package middleware

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Logging adds the resource to the logger of the context, and writes one line for each call at V(1): which operation,
// the outcome, how long it took. The error is not in it: the controller logs errors, once.
func Logging() resource.Middleware {
	return resource.Around(func(ctx context.Context, c resource.Call) error {
		logger := log.FromContext(ctx).WithValues("resource", c.Resource)
		start := time.Now()
		err := c.Run(log.IntoContext(ctx, logger))
		if logger = logger.V(1); logger.Enabled() {
			logger.Info("resource ran", "operation", string(c.Operation),
				"outcome", string(resource.OutcomeOf(err)), "duration", time.Since(start).String())
		}
		return err
	})
}

// Metrics measures calls: keysmith_resource_duration_seconds{controller,resource,operation,outcome}, a histogram
// whose count is the number of calls.
type Metrics struct {
	seconds *prometheus.HistogramVec
}

// NewMetrics registers the histogram on reg. One Metrics serves all controllers of a process; a second one on the
// same registry panics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{seconds: promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{
		Name:    "keysmith_resource_duration_seconds",
		Help:    "How long a call of a resource took, repetitions included.",
		Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60},
	}, []string{"controller", "resource", "operation", "outcome"})}
}

// Middleware measures the calls of the named controller.
func (m *Metrics) Middleware(controller string) resource.Middleware {
	return resource.Around(func(ctx context.Context, c resource.Call) error {
		start := time.Now()
		err := c.Run(ctx)
		m.seconds.WithLabelValues(controller, c.Resource, string(c.Operation), string(resource.OutcomeOf(err))).
			Observe(time.Since(start).Seconds())
		return err
	})
}
