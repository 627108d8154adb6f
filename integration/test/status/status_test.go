//go:build k8srequired

// Package status shows what applications tell of themselves: conditions that speak of the generation that was looked at, and no write of anything
// when nothing has changed.
package status

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

func TestMain(m *testing.M) { world.Run(m) }

func kafka(pool string) v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: pool, SecretName: "creds"}}
}

// generations are what a status says of them.
type generations struct {
	Observed, Synchronized int64
	Ready                  string // status and reason
}

func of(app *v1.AivenApplication) generations {
	g := generations{Observed: app.Status.ObservedGeneration, Synchronized: app.Status.SynchronizedGeneration}
	for _, c := range app.Status.Conditions {
		if c.Type == v1.ConditionReady {
			g.Ready = string(c.Status) + " " + c.Reason
		}
	}
	return g
}

func TestGenerations(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=1s")
	w.Apply("cart", kafka(world.Pool))
	history := w.History("cart")
	w.Ready("cart")
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.Pool = "elsewhere" })
	w.NotReady("cart", "PoolNotAllowed")
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.Pool = world.Pool })
	w.Ready("cart")
	w.Passes(1)

	// A label belongs to no generation. The Secret follows it, and the status stays as it is.
	before := w.App("cart")
	w.Change("cart", func(app *v1.AivenApplication) {
		app.Labels = map[string]string{"aiven.nais.io/secret-generation": "7"}
	})
	labelled := w.App("cart")
	w.Eventually(func(context.Context) error {
		if got := w.Secret("creds").Labels["aiven.nais.io/secret-generation"]; got != "7" {
			return fmt.Errorf("the Secret's label is %q", got)
		}
		return nil
	})
	w.Passes(1)
	after := w.App("cart")
	if diff := cmp.Diff(before.Status, after.Status); diff != "" || after.ResourceVersion != labelled.ResourceVersion {
		t.Errorf("a label changed the status, resource version %s -> %s (-before +after):\n%s", labelled.ResourceVersion, after.ResourceVersion, diff)
	}

	states := map[generations]bool{}
	var order []generations
	for _, app := range history() {
		if g := of(app); !states[g] && g.Observed > 0 {
			states[g] = true
			order = append(order, g)
		}
	}
	want := []generations{{1, 1, "True Synchronized"}, {2, 1, "False PoolNotAllowed"}, {3, 3, "True Synchronized"}}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("states that were ever seen (-want +got):\n%s", diff)
	}
}

func TestConditionsAreReplacedTogether(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	broken := w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Answer: aivensim.Error(500, "", "broken")})
	w.Start()
	w.Apply("cart", kafka(world.Pool))
	expect := func(when string, app *v1.AivenApplication, want map[v1.ConditionType]string) {
		t.Helper()
		got := map[v1.ConditionType]string{}
		for _, c := range app.Status.Conditions {
			got[c.Type] = string(c.Status) + " " + c.Reason
			if c.LastUpdateTime.IsZero() {
				t.Errorf("%s: condition %s has no time", when, c.Type)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: conditions (-want +got):\n%s", when, diff)
		}
	}
	expect("Aiven fails", w.NotReady("cart", "AivenFailure"), map[v1.ConditionType]string{
		v1.ConditionReady: "False AivenFailure", v1.ConditionSucceeded: "False AivenFailure", v1.ConditionAivenFailure: "True AivenFailure",
	})
	bad := map[v1.ConditionType]string{
		v1.ConditionReady: "False PoolNotAllowed", v1.ConditionSucceeded: "False PoolNotAllowed", v1.ConditionLocalFailure: "True PoolNotAllowed",
	}
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.Pool = "elsewhere" })
	app := w.NotReady("cart", "PoolNotAllowed")
	expect("the spec cannot be served", app, bad)
	if app.Status.SynchronizationState != v1.RolloutFailed {
		t.Errorf("the synchronisation state is %s", app.Status.SynchronizationState)
	}

	broken.Remove()
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.Pool = world.Pool })
	app = w.Ready("cart")
	expect("all is well", app, map[v1.ConditionType]string{v1.ConditionReady: "True Synchronized", v1.ConditionSucceeded: "True Synchronized"})
	if app.Status.SynchronizationState != v1.RolloutComplete {
		t.Errorf("the synchronisation state is %s", app.Status.SynchronizationState)
	}

	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.Pool = "elsewhere" })
	expect("the spec cannot be served again", w.NotReady("cart", "PoolNotAllowed"), bad)
}

// Twenty passes over a healthy application write nothing at all.
func TestHealthyIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=1s")
	w.Apply("cart", kafka(world.Pool))
	w.Ready("cart")
	w.Event("cart", "SecretCreated") // events come later
	w.Passes(1)
	written := `aivenator_kubernetes_resources_written{namespace="` + w.Namespace + `",resource_type="Secret"}`
	app, s, n := w.App("cart"), w.Secret("creds"), w.Metric(written)
	events, err := w.Events(t.Context(), "cart")
	if err != nil {
		t.Fatal(err)
	}
	w.Sim.ResetCounters()

	w.Passes(20)
	if now := w.App("cart"); now.ResourceVersion != app.ResourceVersion {
		t.Errorf("the application was written (-before +after):\n%s", cmp.Diff(app, now))
	}
	if now := w.Secret("creds"); now.ResourceVersion != s.ResourceVersion {
		t.Errorf("the Secret was written (-before +after):\n%s", cmp.Diff(s.ObjectMeta, now.ObjectMeta))
	}
	if now := w.Metric(written); now != n {
		t.Errorf("Secrets were written %v times", now-n)
	}
	requests := w.Sim.Counters().Requests
	delete(requests, aivensim.ProjectList) // tells whether Aiven can be reached at all
	if len(requests) > 0 {
		t.Errorf("requests to Aiven: %v", requests)
	}
	now, err := w.Events(t.Context(), "cart")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events, now); diff != "" {
		t.Errorf("events (-before +after):\n%s", diff)
	}
}

// An application that cannot be served is tried again as often as the kind of failure asks for, and its status is written once.
func TestFailingIsWrittenOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec   v1.AivenApplicationSpec
		reason string
		passes int
		least  time.Duration // how long these passes take at the least
	}{
		"when only an edit can help": {spec: kafka("elsewhere"), reason: "PoolNotAllowed", passes: 4, least: 4 * time.Second},
		"when an instance is awaited": {
			spec:   v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "late", SecretName: "creds"}},
			reason: "InstanceNotFound", passes: 4, least: 4 * time.Second,
		},
		// The delay doubles from half a second.
		"when Aiven fails": {spec: kafka(world.Pool), reason: "AivenFailure", passes: 2, least: 3 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := world.New(t)
			w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Answer: aivensim.Error(500, "", "broken")})
			w.Start("--resync=1s")
			w.Apply("cart", tt.spec)
			before := w.NotReady("cart", tt.reason)
			start := time.Now()
			w.Passes(tt.passes)
			if d := time.Since(start); d < tt.least {
				t.Errorf("%d passes took %s only", tt.passes, d)
			}
			if now := w.App("cart"); now.ResourceVersion != before.ResourceVersion {
				t.Errorf("the application was written (-before +after):\n%s", cmp.Diff(before.Status, now.Status))
			}
			w.Gone(&corev1.Secret{}, "creds")
			if names := world.Users(w.Kafka); len(names) > 0 {
				t.Errorf("there are users: %q", names)
			}
		})
	}
}
