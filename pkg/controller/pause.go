package controller

import (
	"context"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reasons of the events about pause.
const (
	// ReasonDeletionPaused says that a deleted object is kept because it is paused.
	ReasonDeletionPaused = "DeletionPaused"
	// ReasonPauseIgnored says that a pause annotation has a value that does not pause.
	ReasonPauseIgnored = "PauseIgnored"
)

// pauseAnnotations returns more with operatorkit's annotations, whose value nobody can change.
func pauseAnnotations(more map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, more)
	all["cluster.x-k8s.io/paused"] = "true"
	all["operatorkit.giantswarm.io/paused"] = "true"
	return all
}

// pausedBy returns the annotation that pauses obj, the first by name if there are several, or "". Only the exact
// value pauses.
func (c *Controller[T]) pausedBy(obj client.Object) string { return pausedBy(obj, c.cfg.Pause) }

// PausedBy returns the annotation that pauses an object, of operatorkit's two and of those that more adds, or "".
func PausedBy(obj client.Object, more map[string]string) string {
	return pausedBy(obj, pauseAnnotations(more))
}

func pausedBy(obj client.Object, pause map[string]string) string {
	var by string
	for name, value := range pause {
		if got, ok := obj.GetAnnotations()[name]; ok && got == value && (by == "" || name < by) {
			by = name
		}
	}
	return by
}

// pause tells whether the object is paused, and says so where people look: in the status, and, if it holds a
// deletion, as an event and in a metric.
func (p *pass[T]) pause(ctx context.Context) bool {
	by := p.pausedBy(p.obj)
	p.mentionIgnored()
	p.hold(by != "" && p.obj.GetDeletionTimestamp() != nil, by)
	if by == "" {
		return false
	}
	log.FromContext(ctx).V(1).Info("object is paused", "annotation", by)
	if p.cfg.Paused != nil {
		p.patchStatus(ctx, p.copy(), func() { p.cfg.Paused(p.obj, true) })
	}
	return true
}

// hold notes whether a deletion waits for pause, with one event for each time that it begins to.
func (p *pass[T]) hold(held bool, by string) {
	if held && !p.rec.held {
		p.event(ReasonDeletionPaused, "Delete", "deletion waits for pause: remove annotation "+by+" to let it go on")
	}
	p.setHeld(p.rec, held)
}

// mentionIgnored tells once of each value of a pause annotation that does not pause, though somebody may think so.
func (p *pass[T]) mentionIgnored() {
	var ignored map[string]string
	for name, value := range p.cfg.Pause {
		got, ok := p.obj.GetAnnotations()[name]
		if !ok || got == value || got == "false" {
			continue
		}
		if ignored == nil {
			ignored = map[string]string{}
		}
		ignored[name] = got
		if said, ok := p.rec.ignored[name]; !ok || said != got {
			p.event(ReasonPauseIgnored, "Reconcile", "annotation "+name+" does not pause: its value is not "+value)
		}
	}
	p.rec.ignored = ignored
}

// event sends a Warning about the object.
func (p *pass[T]) event(reason, action, note string) {
	if p.cfg.Recorder == nil {
		return
	}
	const longest = 1024 // of an event's note in the API, in bytes
	note = strings.ToValidUTF8(note[:min(len(note), longest)], "")
	p.cfg.Recorder.Eventf(p.obj, nil, corev1.EventTypeWarning, reason, action, "%s", note)
}
