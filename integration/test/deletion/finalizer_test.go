//go:build k8srequired

package deletion

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	framework "github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/service/controller"
)

const foreign = "example.com/hold"

func withFinalizers(names ...string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Finalizers = names }
}

func TestFinalizersOfBothOperatorsAreServed(t *testing.T) {
	ours, earlier := framework.Finalizer(controller.SecretName), key.FinalizerAivenator
	tests := map[string]struct{ finalizers, left []string }{
		"the earlier one":               {finalizers: []string{earlier}},
		"ours":                          {finalizers: []string{ours}},
		"both":                          {finalizers: []string{earlier, ours}},
		"the earlier one and a foreign": {finalizers: []string{earlier, foreign}, left: []string{foreign}},
		"ours and a foreign":            {finalizers: []string{foreign, ours}, left: []string{foreign}},
		"both and a foreign":            {finalizers: []string{earlier, foreign, ours}, left: []string{foreign}},
	}
	for when, off := range map[string]bool{"deleted while the operator runs": false, "deleted before the operator starts": true} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			names, users := map[string]string{}, map[string]string{} // by test
			for name, tc := range tests {
				names[name] = fmt.Sprintf("secret-%d", len(names))
				users[name] = w.Earlier(names[name], names[name], withFinalizers(tc.finalizers...))
			}
			neighbour := w.Earlier("neighbour", "neighbour")
			if !off {
				w.Start(idle...)
				w.MetricIs(`aivenator_secrets_managed{state="unused"}`, float64(len(tests)+1)) // all are in the cache
			}
			for _, name := range names {
				w.Remove(w.Secret(name))
			}
			if off {
				w.Start(idle...)
			}
			for name, tc := range tests {
				if len(tc.left) == 0 {
					w.Gone(&corev1.Secret{}, names[name])
					continue
				}
				w.Eventually(func(context.Context) error {
					if got := w.Secret(names[name]).Finalizers; !slices.Equal(tc.left, got) {
						return fmt.Errorf("finalizers with %s: got %q, want %q", name, got, tc.left)
					}
					return nil
				})
			}
			w.UsersAre(w.Kafka, neighbour)
			// What is left is looked at again, and no longer any affair of ours.
			w.Merge(w.Secret(names["both and a foreign"]), `{"metadata":{"labels":{"look":"again"}}}`)
			w.Remove(w.Secret("neighbour"))
			w.Gone(&corev1.Secret{}, "neighbour")
			for name, user := range users {
				if n := len(w.Calls(aivensim.ServiceUserDelete, user)); n != 1 {
					t.Errorf("with %s the user was deleted %d times", name, n)
				}
				if n := len(w.Calls(aivensim.ServiceUserCreate, user)); n != 0 {
					t.Errorf("with %s the user was made again", name)
				}
			}
			for name, tc := range tests {
				if len(tc.left) > 0 {
					w.Merge(w.Secret(names[name]), `{"metadata":{"finalizers":null}}`)
				}
			}
			if got := w.Metric(errorsOfSecrets); got != 0 {
				t.Errorf("errors: got %v, want none", got)
			}
		})
	}
}

func TestAnApplicationWithTheEarlierFinalizerGoes(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Make(&v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "cart", Finalizers: []string{key.FinalizerAivenator}},
		Spec:       v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}},
	})
	app := w.Ready("cart")
	w.Remove(app)
	w.Gone(app, "cart")
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
}

func TestWhatOthersWriteMeanwhileStays(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start(idle...)
	app := w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Ready("cart")
	w.Remove(app)
	w.Gone(app, "cart")
	s := w.Secret("creds")
	s.Finalizers = append(s.Finalizers, foreign)
	if err := w.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Count: 1, Before: func(aivensim.Request) {
		w.Merge(w.Secret("creds"), `{"metadata":{"labels":{"colour":"blue"}}}`)
	}})

	w.Remove(s)
	w.Eventually(func(context.Context) error {
		s := w.Secret("creds")
		if !slices.Equal(s.Finalizers, []string{foreign}) || s.Labels["colour"] != "blue" {
			return fmt.Errorf("finalizers %q, labels %v", s.Finalizers, s.Labels)
		}
		return nil
	})
	if n := w.Sim.Counters().Requests[aivensim.ServiceUserDelete]; n > 2 {
		t.Errorf("the user was deleted %d times, want once and perhaps again after the conflict", n)
	}
	if got := w.Metric(errorsOfSecrets); got != 0 {
		t.Errorf("errors: got %v, want none", got)
	}
	w.NoErrorLogged()
}
