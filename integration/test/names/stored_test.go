//go:build k8srequired

package names

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

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

// withoutRules calls f while the API server accepts applications with any Secret name, as it did before the schema had rules.
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
