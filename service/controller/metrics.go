package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// metrics are those of applications, under the names that dashboards know.
type metrics struct {
	clock     clock.PassiveClock
	outcomes  *prometheus.CounterVec
	requeued  prometheus.Counter
	seconds   prometheus.Histogram
	reasons   *prometheus.CounterVec
	beginning sync.Map // types.UID -> time.Time
}

func newMetrics(reg prometheus.Registerer, clk clock.PassiveClock) *metrics {
	m := &metrics{
		clock: clk,
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aivenator_aiven_applications_processed",
			Help: "Passes over applications, by what became of them.",
		}, []string{"synchronization_state"}),
		requeued: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aivenator_aiven_applications_requeued",
			Help: "Passes over applications that have to be repeated.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "aivenator_aiven_application_processing_time_seconds",
			Help:    "How long passes over applications take.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}),
		reasons: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aivenator_processing_reason",
			Help: "Why applications were processed.",
		}, []string{"processing_reason"}),
	}
	reg.MustRegister(m.outcomes, m.requeued, m.seconds, m.reasons)
	return m
}

// begun notes the beginning of a pass and its reason.
func (m *metrics) begun(app *v1.AivenApplication) {
	m.beginning.Store(app.UID, m.clock.Now())
	why := "resync"
	switch {
	case !app.DeletionTimestamp.IsZero():
		why = "deletion"
	case app.Status.ObservedGeneration == 0 || app.Status.SynchronizedGeneration == 0: // not looked at yet, or never with success
		why = "new"
	case app.Status.SynchronizationHash == "":
		why = "forced"
	case app.Status.SynchronizedGeneration != app.Generation:
		why = "changed"
	}
	m.reasons.WithLabelValues(why).Inc()
}

// processed counts a pass, by the state that the application is in after it.
func (m *metrics) processed(app *v1.AivenApplication, state string, err error) {
	m.outcomes.WithLabelValues(state).Inc()
	if resource.OutcomeOf(err) != resource.Done {
		m.requeued.Inc()
	}
	if t, ok := m.took(app.UID); ok {
		m.seconds.Observe(t.Seconds())
	}
}

func (m *metrics) took(uid types.UID) (time.Duration, bool) {
	start, ok := m.beginning.LoadAndDelete(uid)
	if !ok {
		return 0, false
	}
	return m.clock.Since(start.(time.Time)), true
}

// rotations tells of all applications when users are replaced, from what their statuses say, on the leader only.
type rotations struct {
	cached
	clock clock.PassiveClock
}

var (
	nextRotation = prometheus.NewDesc("keysmith_next_rotation_timestamp_seconds",
		"When a user is replaced next, in seconds since 1970; in the past while one is overdue. There is none where no application asks for rotation.", nil, nil)
	overdueRotations = prometheus.NewDesc("keysmith_rotations_overdue",
		"Users that should have been replaced and have not been, those of services that are powered off aside.", nil, nil)
	retiringUsers = prometheus.NewDesc("keysmith_users_retiring",
		"Users that were replaced and still work, for the overlap.", nil, nil)
)

// Describe names the metrics.
func (r *rotations) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{nextRotation, overdueRotations, retiringUsers} {
		descriptions <- d
	}
}

// Collect reads the metrics. There are none while another process leads, or the cache cannot be read.
func (r *rotations) Collect(out chan<- prometheus.Metric) {
	var apps v1.AivenApplicationList
	if !r.leads() || !r.list(&apps) {
		return
	}
	var next time.Time
	overdue, retiring, now := 0, 0, r.clock.Now()
	for i := range apps.Items {
		for _, b := range apps.Items[i].Status.Bindings {
			at := timeOf(b.RotatesAt)
			late := !at.IsZero() && at.Before(now)
			if off := b.Reason == binding.ReasonPoweredOff; !late || !off { // one that is off waits for whoever wanted it so
				next = soonest(next, at)
				if late {
					overdue++
				}
			}
			if b.RetiresAt != nil {
				retiring++
			}
		}
	}
	if !next.IsZero() {
		out <- prometheus.MustNewConstMetric(nextRotation, prometheus.GaugeValue, float64(next.Unix()))
	}
	out <- prometheus.MustNewConstMetric(overdueRotations, prometheus.GaugeValue, float64(overdue))
	out <- prometheus.MustNewConstMetric(retiringUsers, prometheus.GaugeValue, float64(retiring))
}
