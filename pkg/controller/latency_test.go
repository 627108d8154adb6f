package controller

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func TestEventLatency(t *testing.T) {
	version := func(v string, changes ...func(*corev1.Service)) *corev1.Service {
		s := service(append(changes, finalizers(theFinalizer))...)
		s.ResourceVersion = v
		return s
	}
	ago := func(d time.Duration) metav1.Time { // with the whole seconds of the API server
		return metav1.NewTime(time.Now().Add(-d).Truncate(time.Second))
	}
	created := func(d time.Duration) func(*corev1.Service) {
		return func(s *corev1.Service) { s.CreationTimestamp = ago(d) }
	}
	deleted := func(d time.Duration) func(*corev1.Service) {
		return func(s *corev1.Service) { s.DeletionTimestamp = new(ago(d)) }
	}
	written := func(ds ...time.Duration) func(*corev1.Service) {
		return func(s *corev1.Service) {
			for _, d := range ds {
				s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Time: new(ago(d))})
			}
		}
	}
	const queue = 200 * time.Millisecond // from the events to the pass
	tests := map[string]struct {
		events func(p predicate.Predicate)
		count  uint64
		want   time.Duration
	}{
		"is that of the queue for an object that was just created": {func(p predicate.Predicate) {
			p.Create(event.CreateEvent{Object: version("1", created(0))})
		}, 1, queue},
		"has in it by how much the watch is behind, less the second that the stamp leaves open": {func(p predicate.Predicate) {
			p.Create(event.CreateEvent{Object: version("1", created(30*time.Second))})
		}, 1, 29*time.Second + queue},
		"leaves out what was there at the start": {func(p predicate.Predicate) {
			p.Create(event.CreateEvent{Object: version("1", created(30*time.Second)), IsInInitialList: true})
		}, 0, 0},
		"leaves out what the cache repeats": {func(p predicate.Predicate) {
			p.Update(event.UpdateEvent{ObjectOld: version("1", written(time.Hour)), ObjectNew: version("1", written(time.Hour))})
		}, 0, 0},
		"leaves out the event of an object that is gone": {func(p predicate.Predicate) {
			p.Delete(event.DeleteEvent{Object: version("1", created(time.Hour))})
		}, 0, 0},
		"knows the time of an update from the managed fields": {func(p predicate.Predicate) {
			p.Update(event.UpdateEvent{ObjectOld: version("1", written(time.Hour)), ObjectNew: version("2", written(time.Hour, 10*time.Second))})
		}, 1, 9*time.Second + queue},
		"takes an update for a fresh one where they say nothing": {func(p predicate.Predicate) {
			p.Update(event.UpdateEvent{ObjectOld: version("1"), ObjectNew: version("2")})
		}, 1, queue},
		"does not take an old write for the new one": {func(p predicate.Predicate) {
			p.Update(event.UpdateEvent{ObjectOld: version("1", written(time.Hour)), ObjectNew: version("2", written(time.Hour))})
		}, 1, queue},
		"knows the time of a deletion": {func(p predicate.Predicate) {
			p.Update(event.UpdateEvent{ObjectOld: version("1"), ObjectNew: version("2", deleted(5*time.Second))})
		}, 1, 4*time.Second + queue},
		"does not take a deletion that waits for its grace period for one in the future": {func(p predicate.Predicate) {
			p.Update(event.UpdateEvent{ObjectOld: version("1"), ObjectNew: version("2", deleted(-30*time.Second))})
		}, 1, queue},
		"is that of the first of several changes": {func(p predicate.Predicate) {
			p.Update(event.UpdateEvent{ObjectOld: version("1"), ObjectNew: version("2")})
			<-time.After(time.Second) // of the fake time
			p.Update(event.UpdateEvent{ObjectOld: version("2"), ObjectNew: version("3")})
		}, 1, time.Second + queue},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, service(finalizers(theFinalizer)), nil)
				tc.events(b.controller.predicate())
				<-time.After(queue)
				b.mustPass(t)
				b.mustPass(t) // for another reason: not measured
				families, err := b.registry.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, family := range families {
					if family.GetName() != "keysmith_controller_event_latency_seconds" {
						continue
					}
					h := family.GetMetric()[0].GetHistogram()
					if got := time.Duration(h.GetSampleSum() * float64(time.Second)).Round(time.Millisecond); h.GetSampleCount() != tc.count || got != tc.want {
						t.Errorf("got %d observations of %s in all, want %d of %s", h.GetSampleCount(), got, tc.count, tc.want)
					}
					return
				}
				t.Error("there is no such metric")
			})
		})
	}
}
