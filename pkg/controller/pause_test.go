package controller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

const pauseKey = "operatorkit.giantswarm.io/paused"

// pausing configures an annotation of our own and a condition.
func pausing(_ *bed, cfg *Config[*corev1.Service]) {
	cfg.Pause = map[string]string{"example.com/state": "frozen"}
	cfg.Report = func(*corev1.Service, []resource.Result) {}
	cfg.Paused = func(s *corev1.Service, paused bool) {
		s.Status.Conditions = []metav1.Condition{{Type: "Paused", Status: metav1.ConditionFalse}}
		if paused {
			s.Status.Conditions[0].Status = metav1.ConditionTrue
		}
	}
}

func TestPause(t *testing.T) {
	ignored := func(key, value string) []string {
		return []string{"Warning PauseIgnored annotation " + key + " does not pause: its value is not " + value}
	}
	tests := map[string]struct {
		key, value string
		wantPaused bool
		wantEvents []string
	}{
		"is not paused by another annotation":                 {key: "foo", value: ""},
		"is not paused by false":                              {key: pauseKey, value: "false"},
		"is not paused by another case, and says so once":     {key: pauseKey, value: "True", wantEvents: ignored(pauseKey, "true")},
		"is not paused by an empty value, and says so once":   {key: pauseKey, value: "", wantEvents: ignored(pauseKey, "true")},
		"is paused by the exact value":                        {key: pauseKey, value: "true", wantPaused: true},
		"is paused by Cluster API's annotation":               {key: "cluster.x-k8s.io/paused", value: "true", wantPaused: true},
		"is paused by an annotation of the configuration":     {key: "example.com/state", value: "frozen", wantPaused: true},
		"is not paused by another value of that, and says so": {key: "example.com/state", value: "true", wantEvents: ignored("example.com/state", "frozen")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, service(annotated(tc.key, tc.value)), pausing)
			b.mustPass(t)
			b.mustPass(t)
			wantCalls := []string{"patch", "create a", "create b", "patch status", "create a", "create b"}
			wantStatus := metav1.ConditionFalse
			if tc.wantPaused {
				wantCalls, wantStatus = []string{"patch status"}, metav1.ConditionTrue
			}
			if diff := cmp.Diff(wantCalls, b.calls); diff != "" {
				t.Errorf("calls: %s", diff)
			}
			if diff := cmp.Diff(wantStatus, b.object(t).Status.Conditions[0].Status); diff != "" {
				t.Errorf("condition: %s", diff)
			}
			if diff := cmp.Diff(tc.wantEvents, b.events()); diff != "" {
				t.Errorf("events: %s", diff)
			}
		})
	}
}

func TestPausedDeletion(t *testing.T) {
	const gauge = "keysmith_controller_paused_deletions{test}"
	b := newBed(t, service(finalizers(theFinalizer), annotated(pauseKey, "true"), deleted), pausing)
	b.mustPass(t)
	b.mustPass(t)
	if b.object(t) == nil {
		t.Fatal("pause does not hold the deletion")
	}
	if events := b.events(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning DeletionPaused deletion waits for pause") {
		t.Errorf("events: got %q", events)
	}
	if n := b.metrics(t)[gauge]; n != 1 {
		t.Errorf("metric while it is held: got %g", n)
	}
	b.update(t, func(s *corev1.Service) { s.Annotations = nil })
	b.mustPass(t)
	if b.object(t) != nil {
		t.Error("the deletion does not go on afterwards")
	}
	if n := b.metrics(t)[gauge]; n != 0 {
		t.Errorf("metric afterwards: got %g", n)
	}
}

func TestPausedDeletionForced(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer), annotated(pauseKey, "true"), deleted), pausing)
	b.mustPass(t)
	b.update(t, func(s *corev1.Service) { s.Finalizers = nil })
	b.mustPass(t)
	if n := b.metrics(t)["keysmith_controller_paused_deletions{test}"]; n != 0 {
		t.Errorf("it is not counted when it is gone: got %g", n)
	}
}

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
