package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const pauseKey = "operatorkit.giantswarm.io/paused"

func TestPredicate(t *testing.T) {
	ours := func(changes ...func(*corev1.Service)) *corev1.Service {
		return service(append(changes, func(s *corev1.Service) { s.Labels = map[string]string{"app": "ours"} })...)
	}
	twice := func(changes ...func(*corev1.Service)) *corev1.Service {
		return ours(append(changes, annotated(pauseKey, "true"), annotated("cluster.x-k8s.io/paused", "true"))...)
	}
	tests := map[string]struct {
		from, to *corev1.Service
		want     bool
	}{
		"drops what the configuration drops":          {ours(), ours(annotated("foo", "")), false},
		"passes what the configuration passes":        {ours(), ours(func(s *corev1.Service) { s.Generation = 2 }), true},
		"passes a pause":                              {ours(), ours(annotated(pauseKey, "true")), true},
		"passes the end of a pause":                   {ours(annotated(pauseKey, "true")), ours(annotated(pauseKey, "false")), true},
		"drops a change under two pauses":             {twice(), twice(annotated("foo", "")), false},
		"passes a deletion":                           {ours(), ours(deleted), true},
		"drops what comes after the deletion":         {ours(deleted), ours(deleted, finalizers("x/y")), false},
		"drops objects that are not ours":             {service(), service(deleted), false},
		"passes an object that is not ours any more":  {ours(), service(), true},
		"drops the same change of an object not ours": {service(), service(func(s *corev1.Service) { s.Generation = 2 }), false},
		"passes the change that makes an object ours": {service(), ours(func(s *corev1.Service) { s.Generation = 2 }), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil, func(_ *bed, cfg *Config[*corev1.Service]) {
				cfg.Selector = parseSelector(t, "app=ours")
				cfg.Predicates = []predicate.Predicate{predicate.GenerationChangedPredicate{}}
			})
			if got := b.controller.predicate().Update(event.UpdateEvent{ObjectOld: tc.from, ObjectNew: tc.to}); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestPredicateOfOtherEvents(t *testing.T) {
	b := newBed(t, nil, func(_ *bed, cfg *Config[*corev1.Service]) {
		cfg.Selector = parseSelector(t, "app=ours")
	})
	p := b.controller.predicate()
	for name, obj := range map[string]*corev1.Service{
		"ours":     service(func(s *corev1.Service) { s.Labels = map[string]string{"app": "ours"} }),
		"not ours": service(),
	} {
		got := []bool{p.Create(event.CreateEvent{Object: obj}), p.Delete(event.DeleteEvent{Object: obj}), p.Generic(event.GenericEvent{Object: obj})}
		want := name == "ours"
		if diff := cmp.Diff([]bool{want, want, want}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func parseSelector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNamespaces(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"other", "ns"}, {"other"}} {
		b := newBed(t, service(finalizers(theFinalizer)), func(_ *bed, cfg *Config[*corev1.Service]) { cfg.Namespaces = namespaces })
		b.mustPass(t)
		ours := len(namespaces) != 1
		if (len(b.calls) > 0) != ours {
			t.Errorf("of %q: got calls %q", namespaces, b.calls)
		}
		if passes := b.controller.predicate().Create(event.CreateEvent{Object: service()}); passes != ours {
			t.Errorf("of %q: event passes: %t", namespaces, passes)
		}
	}
}

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
