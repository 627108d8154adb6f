//go:build k8srequired

// Package pause shows that an annotation stops all work on an application, and that this can be seen.
package pause

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

func TestMain(m *testing.M) { world.Run(m) }

const (
	annotation = "operatorkit.giantswarm.io/paused"
	held       = `keysmith_controller_paused_deletions{controller="keysmith-application"}`
)

func application(w *world.World, name string, annotations map[string]string) *v1.AivenApplication {
	return &v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name, Annotations: annotations},
		Spec:       v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: name}},
	}
}

// pausedIs waits for a status of the condition Paused; "" stands for none.
func pausedIs(w *world.World, name string, want corev1.ConditionStatus) {
	w.Eventually(func(context.Context) error {
		var got corev1.ConditionStatus
		for _, c := range w.App(name).Status.Conditions {
			if c.Type == v1.ConditionPaused {
				got = c.Status
			}
		}
		if got != want {
			return fmt.Errorf("application %s: Paused is %q, want %q", name, got, want)
		}
		return nil
	})
}

func TestPausedDeletionWaitsVisibly(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=24h")
	w.Make(application(w, "cart", nil))
	w.Ready("cart")
	user := world.Users(w.Kafka)
	w.Change("cart", func(app *v1.AivenApplication) { app.Annotations = map[string]string{annotation: "true"} })
	pausedIs(w, "cart", corev1.ConditionTrue)
	w.Remove(w.App("cart"))
	w.Event("cart", "Warning DeletionPaused deletion waits for pause")
	w.MetricIs(held, 1)
	w.UsersAre(w.Kafka, user...)
	w.Change("cart", func(app *v1.AivenApplication) { delete(app.Annotations, annotation) })
	w.Gone(&v1.AivenApplication{}, "cart")
	w.Gone(&corev1.Secret{}, "cart")
	w.UsersAre(w.Kafka)
	w.MetricIs(held, 0)
}

func TestChangeWaitsForPause(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=1s")
	w.Make(application(w, "cart", nil))
	w.Ready("cart")
	w.Change("cart", func(app *v1.AivenApplication) { app.Annotations = map[string]string{annotation: "true"} })
	pausedIs(w, "cart", corev1.ConditionTrue)
	w.Sim.ResetCounters()
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.SecretName = "other" })
	w.Make(application(w, "other", nil)) // is worked on meanwhile, again and again
	w.Ready("other")
	w.Passes(3)
	app := w.App("cart")
	if app.Status.ObservedGeneration == app.Generation {
		t.Errorf("generation %d of a paused application was looked at", app.Generation)
	}
	w.Change("cart", func(app *v1.AivenApplication) { app.Annotations = nil; app.Spec.Kafka.SecretName = "third" })
	w.Ready("cart")
	pausedIs(w, "cart", corev1.ConditionFalse)
	w.Secret("third")
}

func TestWhatPauses(t *testing.T) {
	tests := map[string]struct { // by the application's name
		annotations map[string]string
		paused      bool
		ignored     bool // and told of
	}{
		"another-annotation": {annotations: map[string]string{"foo": ""}},
		"false":              {annotations: map[string]string{annotation: "false"}},
		"capital-true":       {annotations: map[string]string{annotation: "True"}, ignored: true},
		"empty":              {annotations: map[string]string{annotation: ""}, ignored: true},
		"true":               {annotations: map[string]string{annotation: "true"}, paused: true},
		"cluster-api":        {annotations: map[string]string{"cluster.x-k8s.io/paused": "true"}, paused: true},
		"cluster-api-empty":  {annotations: map[string]string{"cluster.x-k8s.io/paused": ""}, ignored: true},
	}
	// One operator for all: it is the slow part.
	w := world.New(t)
	w.Start("--resync=1s")
	for name, tc := range tests {
		w.Make(application(w, name, tc.annotations))
	}
	for name, tc := range tests {
		if tc.paused {
			pausedIs(w, name, corev1.ConditionTrue)
			if app := w.App(name); app.Status.ObservedGeneration != 0 || len(app.Finalizers) != 0 {
				t.Errorf("%s: a paused application was worked on: %+v", name, app)
			}
			continue
		}
		w.Ready(name)
		pausedIs(w, name, "")
		if tc.ignored {
			w.Event(name, "Warning PauseIgnored")
		}
	}
	w.Passes(2 * len(tests))
	for name, tc := range tests {
		events, err := w.Events(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		events = slices.DeleteFunc(events, func(e string) bool { return !strings.Contains(e, "PauseIgnored") })
		if want := map[bool]int{true: 1}[tc.ignored]; len(events) != want {
			t.Errorf("%s: events %q, want %d", name, events, want)
		}
	}
}
