package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Metrics holds operatorkit's metrics, under their names and labels, and ours:
//
//	operatorkit_controller_errors_total{controller}               passes and rounds that ended with an error
//	operatorkit_controller_event{event}                           seconds that a pass took; "update" or "delete"
//	operatorkit_controller_last_reconciled{controller}            time of the last pass or round without an error
//	operatorkit_controller_creation_timestamp{controller,kind,name,namespace}
//	operatorkit_controller_deletion_timestamp{controller,kind,name,namespace}
//	keysmith_controller_paused_deletions{controller}              objects whose deletion waits for pause
//	keysmith_controller_heartbeat_timestamp_seconds{controller}   last sign of life, with objects or without
//	keysmith_controller_event_latency_seconds{controller}         from a change of an object to the pass over it
//	keysmith_controller_missing_permissions_total{controller,verb,resource}  calls refused for want of a right
//	keysmith_watch_errors_total{kind,reason}                      failed lists and watches (see WatchErrorHandler)
//
// A controller gives a sign of life at least every quarter of a minute, unless none of its workers is free or one of them
// is in a pass that lasts longer than Config.Timeout allows. Its series begins when it begins to lead.
//
// The latency is that of Kubernetes: the time that the watch took and that in the queue. Passes that no change of the
// object itself led to (resync, back-off, watches on other objects, the list at the start) are not in it.
//
// The two time stamps are taken from the objects that passes saw, without a list call, and go with the object.
type Metrics struct {
	errors         *prometheus.CounterVec
	seconds        *prometheus.HistogramVec
	lastReconciled *prometheus.GaugeVec
	created        *prometheus.GaugeVec
	deleted        *prometheus.GaugeVec
	paused         *prometheus.GaugeVec
	heartbeat      *prometheus.GaugeVec
	latency        *prometheus.HistogramVec
	missing        *prometheus.CounterVec
	watchErrors    *prometheus.CounterVec
}

// NewMetrics registers the metrics on reg. One Metrics serves all controllers of a process; a second one on the same
// registry panics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	opts := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "operatorkit", Subsystem: "controller", Name: name, Help: help}
	}
	controller := []string{"controller"}
	object := []string{"controller", "kind", "name", "namespace"}
	return &Metrics{
		errors: f.NewCounterVec(prometheus.CounterOpts(opts("errors_total", "Reconciles that ended with an error.")), controller),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "operatorkit", Subsystem: "controller", Name: "event",
			Help: "How long a reconcile took, in seconds, by what happened to the object.",
		}, []string{"event"}),
		lastReconciled: f.NewGaugeVec(opts("last_reconciled", "Time of the last reconcile without an error, in Unix seconds."), controller),
		created:        f.NewGaugeVec(opts("creation_timestamp", "Creation time of a reconciled object, in Unix seconds."), object),
		deleted:        f.NewGaugeVec(opts("deletion_timestamp", "Deletion time of a reconciled object, in Unix seconds."), object),
		paused: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keysmith_controller_paused_deletions",
			Help: "Deleted objects that are kept by a pause annotation.",
		}, controller),
		heartbeat: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keysmith_controller_heartbeat_timestamp_seconds",
			Help: "Last sign of life of a controller that leads, in Unix seconds.",
		}, controller),
		latency: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "keysmith_controller_event_latency_seconds",
			Help:    "Time from a change of an object to the beginning of the reconcile that it led to.",
			Buckets: []float64{.005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 600},
		}, controller),
		missing: f.NewCounterVec(prometheus.CounterOpts{
			Name: "keysmith_controller_missing_permissions_total",
			Help: "Reconciles that failed because the API server refused a call for want of a right.",
		}, []string{"controller", "verb", "resource"}),
		watchErrors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "keysmith_watch_errors_total",
			Help: "Lists and watches of the cache that failed.",
		}, []string{"kind", "reason"}),
	}
}

// announce makes the series of a controller appear before anything happens.
func (m *Metrics) announce(controller string) {
	m.errors.WithLabelValues(controller)
	m.paused.WithLabelValues(controller)
	m.latency.WithLabelValues(controller)
}

// beat returns what notes a sign of life of a controller.
func (m *Metrics) beat(controller string) func(time.Time) {
	return func(at time.Time) { m.heartbeat.WithLabelValues(controller).Set(float64(at.UnixMilli()) / 1000) }
}

func (m *Metrics) saw(controller, kind string, obj client.Object) {
	m.created.WithLabelValues(controller, kind, obj.GetName(), obj.GetNamespace()).Set(float64(obj.GetCreationTimestamp().Unix()))
	if at := obj.GetDeletionTimestamp(); at != nil {
		m.deleted.WithLabelValues(controller, kind, obj.GetName(), obj.GetNamespace()).Set(float64(at.Unix()))
	}
}

func (m *Metrics) forget(controller, kind, name, namespace string) {
	m.created.DeleteLabelValues(controller, kind, name, namespace)
	m.deleted.DeleteLabelValues(controller, kind, name, namespace)
}

func (m *Metrics) succeeded(controller string, at time.Time) {
	m.lastReconciled.WithLabelValues(controller).Set(float64(at.Unix()))
}

func (m *Metrics) failed(controller string) { m.errors.WithLabelValues(controller).Inc() }
