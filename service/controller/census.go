package controller

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// States of applications in keysmith_applications: who has to do something.
const (
	stateNew      = "new"      // not looked at yet
	stateReady    = "ready"    // nobody
	stateWaiting  = "waiting"  // nobody: what it waits for comes by itself
	stateRefused  = "refused"  // its owner
	stateFailed   = "failed"   // whoever runs this operator, or Aiven
	statePaused   = "paused"   // whoever paused it
	stateDeleting = "deleting" // nobody
)

// stateOf says for each reason that an application is not ready for which state it is in.
var stateOf = map[string]string{
	reasonExpired:                  stateWaiting,
	reasonNamespace:                stateWaiting,
	reasonBusy:                     stateWaiting,
	reasonThrottled:                stateWaiting,
	binding.ReasonWaiting:          stateWaiting,
	binding.ReasonSecretDeleted:    stateWaiting,
	binding.ReasonCredentials:      stateWaiting,
	binding.ReasonNameTaken:        stateWaiting,
	binding.ReasonInvalidName:      stateRefused,
	binding.ReasonInvalidSpec:      stateRefused,
	binding.ReasonPoolNotAllowed:   stateRefused,
	binding.ReasonInstanceNotFound: stateRefused,
	binding.ReasonPoweredOff:       stateRefused,
	binding.ReasonSecretNotOwned:   stateRefused,
	binding.ReasonSecretImmutable:  stateRefused,
	binding.ReasonBadCredentials:   stateFailed,
	binding.ReasonExpired:          stateFailed,
	reasonUnauthorized:             stateFailed,
	reasonAiven:                    stateFailed,
	reasonLocal:                    stateFailed,
}

// cached is what metrics are computed from at each scrape.
type cached struct {
	client  client.Reader // a cache
	elected <-chan struct{}
}

// leads tells whether this process leads: replicas would count everything again.
func (c cached) leads() bool {
	select {
	case <-c.elected:
		return true
	default:
		return false
	}
}

// list reads from the cache, as objects that must not be changed, and tells whether that could be done. It is only ever slow while the cache is being filled.
func (c cached) list(into client.ObjectList, options ...client.ListOption) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return c.client.List(ctx, into, append(options, client.UnsafeDisableDeepCopy)...) == nil
}

var applicationCount = prometheus.NewDesc("keysmith_applications",
	"Applications by state (ready, new, waiting, refused, failed, paused, deleting) and by the reason of their condition Ready.",
	[]string{"state", "reason"}, nil)

// census counts the applications in the cache, on the leader only.
type census struct{ cached }

type standing struct{ state, reason string }

// Describe says what Collect sends.
func (census) Describe(to chan<- *prometheus.Desc) { to <- applicationCount }

// Collect counts. States that no application is in are zero: a series that ends would look like one that is not scraped.
func (c census) Collect(to chan<- prometheus.Metric) {
	var apps v1.AivenApplicationList
	if !c.leads() || !c.list(&apps) {
		return
	}
	counts := map[standing]int{{state: stateNew}: 0, {state: stateReady, reason: reasonSynchronized}: 0, {state: statePaused}: 0, {state: stateDeleting}: 0}
	for reason, state := range stateOf {
		counts[standing{state, reason}] = 0
	}
	for i := range apps.Items {
		counts[standingOf(&apps.Items[i])]++
	}
	for of, n := range counts {
		to <- prometheus.MustNewConstMetric(applicationCount, prometheus.GaugeValue, float64(n), of.state, of.reason)
	}
}

// standingOf reads the state of an application from its status. A reason that is none of ours is somebody's edit, and no label.
func standingOf(app *v1.AivenApplication) standing {
	paused, is := condition(app, v1.ConditionPaused), ready(app)
	switch {
	case paused != nil && paused.Status == corev1.ConditionTrue:
		return standing{state: statePaused}
	case !app.DeletionTimestamp.IsZero():
		return standing{state: stateDeleting}
	case is == nil:
		return standing{state: stateNew}
	case is.Status == corev1.ConditionTrue:
		return standing{stateReady, reasonSynchronized}
	}
	if state, ok := stateOf[is.Reason]; ok {
		return standing{state, is.Reason}
	}
	return standing{stateFailed, reasonLocal}
}
