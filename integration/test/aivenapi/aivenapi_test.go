//go:build k8srequired

// Package aivenapi shows how the operator lives with what the Aiven API does: slow, late, wrong or refused answers, and crashes in between.
package aivenapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

const (
	failures   = `operatorkit_controller_errors_total{controller="keysmith-application"}`
	tokenValid = "keysmith_aiven_token_valid"
)

// quick makes the operator read services and look at applications often.
var quick = []string{"--snapshot-age=1s", "--resync=1s"}

func kafka(pool string) v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{
		SecretName: "creds", Kafka: &v1.Kafka{Pool: pool, ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}},
	}
}

// logsIn fails the test unless the Secret's Kafka credentials work, and returns the user.
func logsIn(w *world.World, secret string) string {
	s := w.Secret(secret)
	user := string(s.Data[key.KafkaSchemaRegistryUser])
	w.Login(world.Pool, w.Kafka, user, string(s.Data[key.KafkaSchemaRegistryPassword]))
	return user
}

// message is that of the condition Ready.
func message(app *v1.AivenApplication) string {
	for _, c := range app.Status.Conditions {
		if c.Type == v1.ConditionReady {
			return c.Message
		}
	}
	return ""
}

func TestUserThatIsNotVisibleYet(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Sim.SetLag(aivensim.Lag{UserGet: 10 * time.Second, ServiceGet: 10 * time.Second})
	w.Start(quick...)
	w.Apply("cart", kafka(world.Pool))
	history := w.History("cart")
	w.Ready("cart")
	w.Passes(5)
	user := logsIn(w, "creds")
	if n := len(w.Calls(aivensim.ServiceUserCreate, user)); n != 1 {
		t.Errorf("the user was created %d times, want once", n)
	}
	for _, app := range history() {
		if app.Status.SynchronizationState == v1.RolloutFailed {
			t.Errorf("a failure was shown: %s", message(app))
		}
	}

	// Another process knows the user from its record alone, and neither makes another one nor fails.
	w.Apply("next", v1.AivenApplicationSpec{SecretName: "next", Kafka: &v1.Kafka{Pool: world.Pool}})
	w.Ready("next")
	w.Kill()
	w.Start(quick...)
	w.Passes(3)
	w.Ready("next")
	logsIn(w, "next")
	if users := world.Users(w.Kafka); len(users) != 2 {
		t.Errorf("users %v, want two", users)
	}
}

func TestMissingComponents(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	components := w.Kafka.Components()
	w.Kafka.SetComponents(slices.DeleteFunc(components, func(c aivensim.Component) bool { return c.Component == "schema_registry" }))
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{NoDashboards: true})
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	empty := w.Instance(binding.Valkey, "new", aivensim.ServiceConfig{NoComponents: true})
	w.Start(quick...)
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache"}},
	})
	w.Ready("cart")
	for k, v := range w.Secret("creds").Data {
		for _, absent := range []string{key.KafkaSchemaRegistry, "DASHBOARD", "REPLICA"} {
			if k == absent || absent != key.KafkaSchemaRegistry && strings.Contains(k, absent) {
				t.Errorf("there is %s, although the service has no such component", k)
			}
		}
		if len(v) == 0 || strings.HasPrefix(string(v), ":") {
			t.Errorf("%s is %q", k, v)
		}
	}

	w.Apply("early", v1.AivenApplicationSpec{SecretName: "early", Valkey: []v1.Valkey{{Instance: "new"}}})
	w.NotReady("early", binding.ReasonWaiting)
	if n := w.Metric(failures); n != 0 {
		t.Errorf("%v failures were counted, want none", n)
	}
	if users := world.Users(empty); len(users) != 0 {
		t.Errorf("users %v on a service without an address", users)
	}
	another := w.Sim.Project(world.Main).Service("valkey-" + w.Namespace + "-cache").Components()
	empty.SetComponents(another)
	w.Ready("early")
}

func TestEmptyErrorBody(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	rule := w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceGet, Answer: &aivensim.Answer{Status: http.StatusInternalServerError}})
	w.Start()
	w.Apply("cart", kafka(world.Pool))
	w.NotReady("cart", "AivenFailure")
	rule.Remove()
	w.Ready("cart")
	logsIn(w, "creds")
}

func TestOneSlowProjectHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Sim.AddProject("slow").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
	hanging := w.Sim.Inject(aivensim.Rule{Project: "slow", Delay: time.Minute})
	w.Start("--projects=slow", "--resync=24h")
	w.Apply("slow", kafka("slow"))
	w.Eventually(func(context.Context) error {
		if hanging.Hits() == 0 {
			return errors.New("the slow project has not been called yet")
		}
		return nil
	})
	for i := range 10 {
		name := fmt.Sprintf("fast-%d", i)
		w.Apply(name, v1.AivenApplicationSpec{SecretName: name, Kafka: &v1.Kafka{Pool: world.Pool}})
	}
	for i := range 10 {
		w.Ready(fmt.Sprintf("fast-%d", i))
	}
	if app := w.App("slow"); app.Status.SynchronizedGeneration != 0 {
		t.Fatalf("the slow project was not slow: %+v", app.Status)
	}

	once := w.Sim.Inject(aivensim.Rule{
		Operation: aivensim.ServiceUserCreate, Project: world.Pool, Count: 1, Answer: aivensim.Error(http.StatusInternalServerError, "", "oops"),
	})
	w.Apply("unlucky", v1.AivenApplicationSpec{SecretName: "unlucky", Kafka: &v1.Kafka{Pool: world.Pool}})
	w.Ready("unlucky")
	if once.Hits() != 1 {
		t.Errorf("the failure was not seen")
	}
	hanging.Remove()
}

func TestRedactedValuesAreNeverPublished(t *testing.T) {
	tests := map[string]struct {
		access aivensim.SecretAccess
	}{
		"the API refuses":         {aivensim.SecretsForbidden},
		"the API hides the value": {aivensim.SecretsHidden},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Start(quick...)
			w.Apply("cart", kafka(world.Pool))
			w.Ready("cart")
			w.Passes(5)
			for _, e := range w.Sim.Journal() {
				if reads := e.Operation == aivensim.ServiceGet || e.Operation == aivensim.ServiceUserGet; reads && !strings.Contains(e.Query, "include_secrets=true") {
					t.Errorf("%s does not ask for secrets: %q", e.Operation, e.Query)
				}
			}
			before := w.Secret("creds")
			w.MetricIs(tokenValid, 1)

			w.Restart(quick...) // forgets the answer to the creation
			w.Passes(1)
			w.Sim.SetToken(world.Token, aivensim.Token{Secrets: tc.access})
			w.Eventually(func(context.Context) error {
				if text := message(w.App("cart")); !strings.Contains(text, "service:secrets:read") {
					return fmt.Errorf("the condition does not name the permission: %q", text)
				}
				return nil
			})
			w.MetricIs(tokenValid, 0)
			w.Touch("cart", 2)
			if diff := cmp.Diff(before, w.Secret("creds")); diff != "" {
				t.Errorf("the Secret changed (-before +after):\n%s", diff)
			}
			w.Apply("next", v1.AivenApplicationSpec{SecretName: "next", Kafka: &v1.Kafka{Pool: world.Pool}})
			w.Eventually(func(context.Context) error { // ready or not: the answer to the creation may hold the credentials
				if app := w.App("next"); app.Status.ObservedGeneration == 0 {
					return errors.New("the new application has not been looked at")
				}
				return nil
			})
			w.Restart(quick...)
			w.Touch("next", 2)
			for _, secret := range []string{"creds", "next"} {
				s := &corev1.Secret{}
				if err := w.Get(t.Context(), w.Key(secret), s); err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
				for k, v := range s.Data {
					if len(v) == 0 || strings.Contains(string(v), "redacted") {
						t.Errorf("%s of Secret %s is %q", k, secret, v)
					}
				}
			}

			w.Sim.SetToken(world.Token, aivensim.Token{})
			w.Ready("cart")
			w.Ready("next")
			w.MetricIs(tokenValid, 1)
			logsIn(w, "creds")
			logsIn(w, "next")
		})
	}
}

func TestRefusedTokenIsTheOperatorsTrouble(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--snapshot-age=1s")
	w.Apply("cart", kafka(world.Pool))
	w.Ready("cart")
	before := w.Secret("creds")
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		rule := w.Sim.Inject(aivensim.Rule{Answer: aivensim.Error(status, "", "no")})
		name := fmt.Sprintf("during-%d", status)
		w.Apply(name, v1.AivenApplicationSpec{SecretName: name, Kafka: &v1.Kafka{Pool: world.Pool}})
		w.NotReady(name, "AivenUnauthorized")
		w.MetricIs(tokenValid, 0)
		w.Touch("cart", 2)
		rule.Remove()
		w.Ready(name)
		w.Ready("cart")
		w.MetricIs(tokenValid, 1)
	}
	if failures := w.Metric("operatorkit_controller_errors_total"); failures != 0 {
		t.Errorf("%v failures of objects are counted, want the token's alone", failures)
	}
	if diff := cmp.Diff(before, w.Secret("creds")); diff != "" {
		t.Errorf("the Secret changed (-before +after):\n%s", diff)
	}
	if users := world.Users(w.Kafka); len(users) != 3 {
		t.Errorf("users %v, want three", users)
	}
}
