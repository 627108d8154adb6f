package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noteChange remembers when an object changed that is about to be queued, until the pass over it begins. Of several
// changes the first counts. stamp is the API server's time of the change, zero if it is not known.
//
// The API server's stamps have whole seconds. The change is taken for as late as its stamp allows, but never for later
// than now: what comes out is never too long, and exact where the watch is not behind by more than a second.
func (c *Controller[T]) noteChange(obj client.Object, stamp time.Time) {
	changed := c.cfg.Clock.Now()
	if latest := stamp.Add(time.Second); !stamp.IsZero() && latest.Before(changed) {
		changed = latest
	}
	key := client.ObjectKeyFromObject(obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, ok := c.changes[key]; !ok || changed.Before(first) {
		c.changes[key] = changed
	}
}

// observeChange measures the time since the change that a pass was queued for, if it was one.
func (c *Controller[T]) observeChange(key types.NamespacedName) {
	c.mu.Lock()
	changed, ok := c.changes[key]
	delete(c.changes, key)
	c.mu.Unlock()
	if ok {
		c.cfg.Metrics.latency.WithLabelValues(c.cfg.Name).Observe(max(0, c.cfg.Clock.Since(changed).Seconds()))
	}
}

// changeOf returns the API server's time of the update from before to after, zero if it does not say. The managed
// fields say it; caches may be set up to drop them.
func changeOf(before, after client.Object) time.Time {
	if at := after.GetDeletionTimestamp(); at != nil && before.GetDeletionTimestamp() == nil {
		return at.Time
	}
	if old, now := lastWrite(before), lastWrite(after); now.After(old) {
		return now
	}
	return time.Time{}
}

func lastWrite(obj client.Object) time.Time {
	var last time.Time
	for _, entry := range obj.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}
