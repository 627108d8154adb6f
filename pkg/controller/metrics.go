package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Metrics holds operatorkit's metrics, under their names and labels, and one of ours:
//
//	operatorkit_controller_errors_total{controller}               passes and rounds that ended with an error
//	operatorkit_controller_event{event}                           seconds that a pass took; "update" or "delete"
//	operatorkit_controller_last_reconciled{controller}            time of the last pass or round without an error
//	operatorkit_controller_creation_timestamp{controller,kind,name,namespace}
//	operatorkit_controller_deletion_timestamp{controller,kind,name,namespace}
//	keysmith_controller_paused_deletions{controller}              objects whose deletion waits for pause
//
// The two time stamps are taken from the objects that passes saw, without a list call, and go with the object.
type Metrics struct {
	errors         *prometheus.CounterVec
	seconds        *prometheus.HistogramVec
	lastReconciled *prometheus.GaugeVec
	created        *prometheus.GaugeVec
	deleted        *prometheus.GaugeVec
	paused         *prometheus.GaugeVec
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
	}
}

// announce makes the series of a controller appear before anything happens.
func (m *Metrics) announce(controller string) {
	m.errors.WithLabelValues(controller)
	m.paused.WithLabelValues(controller)
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
