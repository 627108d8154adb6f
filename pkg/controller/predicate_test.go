package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestOwnFinalizerLeadsToNoPass(t *testing.T) {
	written := func(version string, at int64) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.ResourceVersion = version
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(metav1.Unix(at, 0))}}
		}
	}
	before := service(written("1", 1), finalizers("x/y"))
	tests := map[string]struct {
		after *corev1.Service
		want  bool
	}{
		"is left out":                               {service(written("2", 2), finalizers("x/y", theFinalizer)), false},
		"is not when more changed":                  {service(written("2", 2), finalizers("x/y", theFinalizer), annotated("a", "b")), true},
		"is not when the object is deleted":         {service(written("2", 2), finalizers("x/y", theFinalizer), deleted), true},
		"is not when another finalizer came too":    {service(written("2", 2), finalizers("x/y", "x/z", theFinalizer)), true},
		"is not another finalizer":                  {service(written("2", 2), finalizers("x/y", "x/z")), true},
		"is not the end of another finalizer":       {service(written("2", 2), finalizers(theFinalizer)), true},
		"is not an update that changes nothing":     {service(written("2", 2), finalizers("x/y")), true},
		"is not what happens while it is there yet": {service(written("2", 2), finalizers("x/y"), annotated("a", "b")), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil, nil)
			if got := b.controller.predicate().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("passes: got %t", got)
			}
		})
	}
}
