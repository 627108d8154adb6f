//go:build k8srequired

package names

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// The API server refuses names that no Secret can have. An application that was stored before it did gets an answer in its status, costs Aiven no request, is not
// tried again until it is edited, and can be deleted.
func TestSecretNamesStoredBeforeTheRule(t *testing.T) {
	w := world.New(t) // not in parallel: the rule is off for a moment
	names := []string{
		"", strings.Repeat("a", 254), "Upper", "under_score", "-x", "x-", "smørebrød", "a b", "a\u200bb", "double..dot",
	}
	app := func(i int) string { return "app-" + strconv.Itoa(i) }
	withoutRules(t, func() {
		for i, name := range names {
			w.Eventually(func(ctx context.Context) error {
				a := &v1.AivenApplication{Spec: v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: name}}}
				a.Namespace, a.Name = w.Namespace, app(i)
				return w.Create(ctx, a)
			})
		}
	})
	w.Start()
	for i, name := range names {
		a := w.NotReady(app(i), "InvalidName")
		for _, c := range a.Status.Conditions {
			if c.Type == v1.ConditionReady && !strings.Contains(c.Message, "spec.kafka.secretName") {
				t.Errorf("%q: the message does not name the field: %s", name, c.Message)
			}
		}
	}
	const failed = `aivenator_aiven_applications_processed{synchronization_state="RolloutFailed"}`
	before := w.Metric(failed)
	requests := w.Sim.Counters().Requests
	delete(requests, aivensim.ProjectList) // tells whether Aiven can be reached at all
	if len(requests) > 0 {
		t.Errorf("requests to Aiven: %v", requests)
	}

	w.Apply("good", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "with.dots"}})
	w.Apply("long", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: strings.Repeat("a", 253)}})
	w.Ready("good")
	w.Ready("long")
	if now := w.Metric(failed); now != before {
		t.Errorf("what can never be served was tried %v more times", now-before)
	}
	w.Change(app(2), func(a *v1.AivenApplication) { a.Spec.Kafka.SecretName = "lower" })
	w.Ready(app(2))
	w.Remove(w.App(app(3)))
	w.Gone(&v1.AivenApplication{}, app(3))
}

// An application whose times cannot be read, because they were stored before the API server refused them, is served as if they were not there, and its owner is
// told which they are. Nothing is deleted on a guess, and once they can be read they count.
func TestTimesStoredBeforeTheRule(t *testing.T) {
	w := world.New(t)                                          // not in parallel: the rule is off for a moment
	const words, lower = "next spring", "2001-01-01t00:00:00z" // Go reads capitals alone
	spec := func(name, expiresAt string) v1.AivenApplicationSpec {
		return v1.AivenApplicationSpec{ExpiresAt: expiresAt, Kafka: &v1.Kafka{Pool: world.Pool, SecretName: name}}
	}
	withoutRules(t, func() {
		w.Eventually(func(ctx context.Context) error { // until the rules are off
			a := &v1.AivenApplication{Spec: spec("words", words)}
			a.Namespace, a.Name = w.Namespace, "words"
			return w.Create(ctx, a)
		})
		w.Apply("lower", spec("lower", lower))
		kept := spec("kept", words)
		kept.Protected = true
		w.Apply("kept", kept)
		often := spec("often", "")
		often.Rotation = &v1.Rotation{Interval: "1 week"}
		w.Apply("often", often)
	})
	w.Start("--resync=1s")
	for name, field := range map[string]string{
		"words": `spec.expiresAt: "` + words + `"`, "lower": `spec.expiresAt: "` + lower + `"`, "kept": `spec.expiresAt: "` + words + `"`,
		"often": `spec.rotation.interval: "1 week"`,
	} {
		app := w.Ready(name)
		w.Event(name, "Warning SpecUnreadable Left out: read "+field+" is not a")
		w.Touch(name, 3)
		events, err := w.Events(t.Context(), name)
		if n := len(slices.DeleteFunc(events, func(e string) bool { return !strings.Contains(e, "SpecUnreadable") })); err != nil || n != 1 {
			t.Errorf("%s: the owner was told %d times, %v, want once", name, n, err)
		}
		if b := w.Ready(name).Status.Bindings; len(b) != 1 || b[0].Username != app.Status.Bindings[0].Username || b[0].RotatesAt != nil {
			t.Errorf("%s: another user, or a time to replace it: %+v", name, b)
		}
	}

	// What cannot be read protects.
	w.Remove(w.App("kept"))
	w.Gone(&v1.AivenApplication{}, "kept")
	w.Event("kept", "Warning TimeLimitUnreadable")
	w.Sweep()
	if s := w.Secret("kept"); !s.DeletionTimestamp.IsZero() {
		t.Error("the Secret whose time limit cannot be read is being deleted")
	}

	w.Change("words", func(a *v1.AivenApplication) { a.Spec.ExpiresAt = "" })
	w.Change("lower", func(a *v1.AivenApplication) { a.Spec.ExpiresAt = strings.ToUpper(lower) })
	w.Gone(&v1.AivenApplication{}, "lower")
	w.Gone(&corev1.Secret{}, "lower")
	w.Ready("words")
}

// withoutRules calls f while the API server accepts applications with whatever texts, as it did before the schema had rules.
func withoutRules(t *testing.T, f func()) {
	t.Helper()
	c := env.Client(t, runtime.NewScheme())
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName("aivenapplications.aiven.nais.io")
	key := client.ObjectKeyFromObject(crd)
	if err := c.Get(t.Context(), key, crd); err != nil {
		t.Fatalf("read the CRD: %v", err)
	}
	strict := crd.DeepCopy()
	write := func(ctx context.Context, want *unstructured.Unstructured) error {
		if err := c.Get(ctx, key, crd); err != nil {
			return err
		}
		crd.Object["spec"] = want.DeepCopy().Object["spec"]
		return c.Update(ctx, crd)
	}
	restore := func(ctx context.Context) error { return write(ctx, strict) }
	t.Cleanup(func() { // of a test that failed half-way
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := restore(ctx); err != nil {
			t.Errorf("restore the CRD: %v", err)
		}
	})
	lax := strict.DeepCopy()
	loosen(lax.Object["spec"])
	env.Eventually(t, world.Deadline, func(ctx context.Context) error { return write(ctx, lax) })
	f()
	env.Eventually(t, world.Deadline, restore)

	// The API server takes a moment to take the rules to heart.
	env.Eventually(t, world.Deadline, func(ctx context.Context) error {
		a := &v1.AivenApplication{Spec: v1.AivenApplicationSpec{SecretName: "Upper"}}
		a.Namespace, a.GenerateName = "default", "refused-"
		s := runtime.NewScheme()
		if err := v1.AddToScheme(s); err != nil {
			return err
		}
		err := env.Client(t, s).Create(ctx, a, client.DryRunAll)
		if apierrors.IsInvalid(err) {
			return nil
		}
		return errors.Join(errors.New("the rules are not back yet"), err)
	})
}

// loosen takes the rules and limits out of a schema.
func loosen(node any) {
	switch n := node.(type) {
	case map[string]any:
		delete(n, "x-kubernetes-validations")
		if _, ok := n["maxLength"].(int64); ok {
			delete(n, "maxLength")
		}
		for _, child := range n {
			loosen(child)
		}
	case []any:
		for _, child := range n {
			loosen(child)
		}
	}
}
