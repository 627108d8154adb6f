package controller

import (
	"errors"
	"time"

	"github.com/giantswarm/microerror"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// record is what a controller remembers of one object between two passes, as long as the object exists. A restart
// loses it, at the cost of a repeated event. The passes over one object never overlap, so that it needs no lock.
type record struct {
	uid       types.UID
	version   string            // resource version of our last write
	written   time.Time         // when that was
	cleaned   bool              // the slice ran backwards, only finalizers are left
	released  bool              // our finalizers are off
	held      bool              // its deletion waits for pause
	ignored   map[string]string // values of pause annotations that were told of, by annotation
	warned    map[warning]bool  // that were told of
	conflicts int               // passes in a row that ended with a conflict
}

// staleFor limits how long a cache may lag behind our own write before it is believed again: resource versions go
// back when the API server's data is restored from a backup.
const staleFor = 10 * time.Second

// staleDelay is when a pass is tried again that found the cache behind. Caches lag by milliseconds.
const staleDelay = 100 * time.Millisecond

// wrote remembers a write of ours, which left the object as obj.
func (r *record) wrote(obj client.Object, now time.Time) {
	r.version, r.written = obj.GetResourceVersion(), now
}

// newerThan tells whether obj, read from a cache, is older than our own last write of it.
func (r *record) newerThan(obj client.Object, now time.Time) bool {
	if now.Sub(r.written) > staleFor {
		return false
	}
	if r.released && obj.GetDeletionTimestamp() != nil {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), r.version)
	return err == nil && order < 0
}

// recordOf returns the record of obj, a new one if obj is another object of that name than before.
func (c *Controller[T]) recordOf(obj T) *record {
	key := client.ObjectKeyFromObject(obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	rec := c.records[key]
	if rec == nil || rec.uid != obj.GetUID() {
		if rec != nil {
			c.setHeld(rec, false)
		}
		rec = &record{uid: obj.GetUID()}
		c.records[key] = rec
	}
	return rec
}

// forget drops what is known of an object that is gone or not ours any more.
func (c *Controller[T]) forget(key types.NamespacedName) {
	c.cfg.Metrics.forget(c.cfg.Name, c.kind, key.Name, key.Namespace)
	c.queue.soonest.Delete(reconcile.Request{NamespacedName: key})
	c.mu.Lock()
	defer c.mu.Unlock()
	if rec := c.records[key]; rec != nil {
		c.setHeld(rec, false)
		delete(c.records, key)
	}
}

func (c *Controller[T]) setHeld(rec *record, held bool) {
	if rec.held == held {
		return
	}
	rec.held = held
	if held {
		c.cfg.Metrics.paused.WithLabelValues(c.cfg.Name).Inc()
		return
	}
	c.cfg.Metrics.paused.WithLabelValues(c.cfg.Name).Dec()
}

// warning is what an event says.
type warning struct{ reason, note string }

// warn sends an event for each failure that is for people to read: a microerror.Error with Kind and Desc, and a missing
// permission. It does not where the last pass had the same.
func (p *pass[T]) warn(failures []error) {
	if len(failures) == 0 {
		p.rec.warned = nil
		return
	}
	warned := map[warning]bool{}
	for _, err := range failures {
		var w warning
		var e *microerror.Error
		missing, forbidden := MissingPermission(err)
		switch {
		case forbidden:
			p.cfg.Metrics.missing.WithLabelValues(p.cfg.Name, missing.Verb, missing.Resource).Inc()
			w = warning{ReasonMissingPermission, missing.sentence()}
		case errors.As(err, &e) && e.Kind != "" && e.Desc != "":
			w = warning{e.Kind, e.Desc}
		default:
			continue
		}
		warned[w] = true
		if !p.rec.warned[w] {
			p.event(w.reason, "Reconcile", w.note)
		}
	}
	p.rec.warned = warned
}
