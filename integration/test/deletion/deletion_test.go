//go:build k8srequired

// Package deletion shows that a Secret goes only after its users and their rights are gone from Aiven, and that nothing but Aiven's failing
// holds it longer.
package deletion

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	framework "github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/resource/janitor"
	"github.com/keysmith-io/keysmith/service/controller"
)

func TestMain(m *testing.M) { world.Run(m) }

// idle keeps the resync out of what a test is about, and the janitor from deleting what it judges.
var idle = []string{"--janitor-grace=24h", "--janitor-period=24h", "--resync=24h"}

const errorsOfSecrets = `operatorkit_controller_errors_total{controller="` + controller.SecretName + `"}`

// published makes an application with a user on Kafka, OpenSearch and Valkey in one Secret, waits for it, and deletes the application,
// which leaves the Secret.
func published(w *world.World) {
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Start(idle...)
	app := w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds",
		Kafka:      &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}},
		OpenSearch: &v1.OpenSearch{Instance: "logs"},
		Valkey:     []v1.Valkey{{Instance: "cache", Access: v1.AccessWrite}},
	})
	w.Ready("cart")
	w.Remove(app)
	w.Gone(app, "cart")
}

func TestWhatIsGoneAlreadyIsNoFailure(t *testing.T) {
	services := func(w *world.World, f func(p *aivensim.Project, s *aivensim.Service)) {
		for _, p := range w.Sim.Projects() {
			for _, s := range p.Services() {
				f(p, s)
			}
		}
	}
	for name, tc := range map[string]struct {
		off  bool // the operator, which then knows nothing of what is gone
		lose func(w *world.World)
	}{
		"the users are gone": {lose: func(w *world.World) {
			services(w, func(_ *aivensim.Project, s *aivensim.Service) {
				for _, u := range world.Users(s) {
					s.DeleteUser(u)
				}
			})
		}},
		"the services are gone": {lose: func(w *world.World) {
			services(w, func(p *aivensim.Project, s *aivensim.Service) { p.RemoveService(s.Name()) })
		}},
		"the projects are gone": {off: true, lose: func(w *world.World) {
			w.Sim.RemoveProject(world.Pool)
			w.Sim.RemoveProject(world.Main)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			published(w)
			if tc.off {
				w.Stop()
			}
			tc.lose(w)
			w.Remove(w.Secret("creds"))
			if tc.off {
				w.Start(idle...)
			}
			w.Gone(&corev1.Secret{}, "creds")
			w.Event("creds", "Normal CredentialsRevoked")
			events, err := w.Events(t.Context(), "creds")
			if err != nil {
				t.Fatal(err)
			}
			w.NoErrorLogged()
			// The janitor, which a deleted application wakes, may have come to know the Secret before it was deleted.
			events = slices.DeleteFunc(events, func(e string) bool { return strings.HasPrefix(e, "Normal "+janitor.ReasonUnused) })
			if diff := cmp.Diff([]string{"Normal CredentialsRevoked The users of this Secret are gone from Aiven"}, events); diff != "" {
				t.Errorf("events about the Secret (-want +got):\n%s", diff)
			}
			if got := w.Metric(errorsOfSecrets); got != 0 {
				t.Errorf("errors: got %v, want none", got)
			}
		})
	}
}

func TestTheFinalizerStaysWhileAivenFails(t *testing.T) {
	for name, rule := range map[string]aivensim.Rule{
		"it answers 503":                                    {Answer: aivensim.Error(503, "", "Service unavailable")},
		"it answers 403":                                    {Answer: aivensim.Error(403, "permission_denied", "Permission denied")},
		"it answers 404 of its own trouble":                 {Answer: aivensim.Error(404, "", "User avnadmin with component main not found")},
		"it closes the connection":                          {Reset: true},
		"it closes the connection and deletes all the same": {Reset: true, Commit: true, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			one := w.Instance(binding.Valkey, "one", aivensim.ServiceConfig{})
			two := w.Instance(binding.Valkey, "two", aivensim.ServiceConfig{})
			w.Start(idle...)
			app := w.Apply("cart", v1.AivenApplicationSpec{
				SecretName: "creds", Valkey: []v1.Valkey{{Instance: "one"}, {Instance: "two"}},
			})
			w.Ready("cart")
			w.Remove(app)
			w.Gone(app, "cart")
			rule.Operation, rule.Service = aivensim.ServiceUserDelete, two.Name()
			failing := w.Sim.Inject(rule)
			const passes = 4 // more than one pass repeats a call

			w.Remove(w.Secret("creds"))
			if !rule.Commit {
				w.Event("creds", "Warning CleanupFailed credentials cannot be taken back yet")
				w.UsersAre(one)
				w.Eventually(func(context.Context) error {
					if failing.Hits() <= passes {
						return fmt.Errorf("%d calls failed", failing.Hits())
					}
					return nil
				})
				s := w.Secret("creds")
				if diff := cmp.Diff([]string{framework.Finalizer(controller.SecretName)}, s.Finalizers); diff != "" {
					t.Errorf("finalizers (-want +got):\n%s", diff)
				}
				if len(world.Users(two)) != 1 {
					t.Errorf("users of the failing service: got %q, want one", world.Users(two))
				}
				// A token without the right is the operator's trouble, and has a metric of its own.
				want := rule.Answer == nil || rule.Answer.Status != http.StatusForbidden
				if n := w.Metric(errorsOfSecrets); (n > 0) != want {
					t.Errorf("%v errors were counted, want some: %t", n, want)
				}
				failing.Remove()
			}
			w.Gone(&corev1.Secret{}, "creds")
			w.UsersAre(one)
			w.UsersAre(two)
		})
	}
}

func TestADeletionGoesOnSoonAfterALongFailure(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Earlier("creds", "creds")
	w.Start(idle...)
	failing := w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Answer: aivensim.Error(503, "", "Service unavailable")})
	w.Remove(w.Secret("creds"))
	const passes = 8 // after which a delay that keeps doubling is a minute
	w.Eventually(func(ctx context.Context) error {
		n, err := w.Operator.Metric(ctx, errorsOfSecrets)
		if err == nil && n < passes {
			err = fmt.Errorf("%v passes failed", n)
		}
		return err
	})
	failing.Remove()
	const soon = 45 * time.Second // ten seconds, and what a slow machine takes; without the limit it would be a minute and more
	env.Eventually(t, soon, func(ctx context.Context) error {
		if err := w.Get(ctx, w.Key("creds"), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Secret is still there: %v", err)
		}
		return nil
	})
	w.UsersAre(w.Kafka)
}

func TestWhatWasDeletedWhileTheOperatorWasOff(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start(idle...)
	app := w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Ready("cart")
	w.Stop()
	w.Remove(app)
	w.Remove(w.Secret("creds"))

	w.Start(idle...)
	w.Gone(&v1.AivenApplication{}, "cart")
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
}

func TestAnApplicationForWhichNothingWasMadeGoesWithoutACall(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start(idle...)
	refused := w.Apply("refused", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "elsewhere", SecretName: "refused"}})
	w.NotReady("refused", binding.ReasonPoolNotAllowed)
	waiting := w.Apply("waiting", v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "absent", SecretName: "waiting"}})
	w.NotReady("waiting", binding.ReasonInstanceNotFound)

	w.Sim.Inject(aivensim.Rule{Reset: true})
	w.Sim.ResetCounters()
	w.Remove(refused)
	w.Remove(waiting)
	w.Gone(refused, "refused")
	w.Gone(waiting, "waiting")
	calls := w.Sim.Counters().Requests
	delete(calls, aivensim.ProjectList) // asks whether Aiven is there
	if diff := cmp.Diff(map[aivensim.Operation]int{}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestAUserIsRecordedBeforeItIsMade(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	app, username := &v1.AivenApplication{}, "" // as they were while the user was made
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Count: 1, Before: func(r aivensim.Request) {
		username = r.Username
		if err := w.Get(t.Context(), w.Key("cart"), app); err != nil {
			t.Errorf("read the application while its user is made: %v", err)
		}
	}})
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Ready("cart")

	if !slices.Contains(app.Finalizers, framework.Finalizer(controller.ApplicationName)) {
		t.Errorf("finalizers: got %q", app.Finalizers)
	}
	want := []v1.Binding{{
		Kind: "kafka", Project: world.Pool, Service: w.Kafka.Name(), SecretName: "creds", Username: username, State: controller.StatePending,
	}}
	if diff := cmp.Diff(want, app.Status.Bindings); diff != "" {
		t.Errorf("records while the user is made (-want +got):\n%s", diff)
	}
}

func TestAnApplicationDeletedWhileItsUserIsMade(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Before: func(aivensim.Request) {
		if err := w.Delete(t.Context(), &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "cart"}}); err != nil {
			t.Errorf("delete the application while its user is made: %v", err)
		}
	}})
	app := w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Gone(app, "cart")
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
	if n := w.Sim.Counters().Requests[aivensim.ServiceUserCreate]; n != 1 {
		t.Errorf("users made: got %d, want 1", n)
	}
}

func TestKafkaEntriesGoBeforeTheirUser(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start(idle...)
	app := w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{
		Pool: world.Pool, SecretName: "creds", ACL: []v1.KafkaACL{{Topic: "a"}, {Topic: "b"}, {Topic: "c"}},
	}})
	username := w.Ready("cart").Status.Bindings[0].Username
	w.Remove(app)
	w.Gone(app, "cart")
	w.Kafka.AddKafkaACL(aivensim.KafkaACL{Permission: "read", Topic: "b", Username: username[:len(username)-3] + "*"})
	var foreign []aivensim.KafkaACL
	for _, e := range w.Kafka.KafkaACLs() {
		switch {
		case e.Username != username:
			foreign = append(foreign, e)
		case e.Topic == "b":
			w.Kafka.DeleteKafkaACL(e.ID) // behind the operator's back
		}
	}
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceKafkaACLDelete, Count: 1})
	w.Sim.Inject(aivensim.Rule{
		Operation: aivensim.ServiceKafkaACLDelete, Count: 2, Answer: aivensim.Error(503, "", "Service unavailable"),
		Before: func(aivensim.Request) {
			if _, ok := w.Kafka.User(username); !ok {
				t.Error("the user went before its entries")
			}
			s := &corev1.Secret{}
			if err := w.Get(t.Context(), w.Key("creds"), s); err != nil || len(s.Finalizers) == 0 {
				t.Errorf("the Secret went before its user: %v, finalizers %q", err, s.Finalizers)
			}
		},
	})

	w.Remove(w.Secret("creds"))
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
	if diff := cmp.Diff(foreign, w.Kafka.KafkaACLs()); diff != "" {
		t.Errorf("entries that are left (-want +got):\n%s", diff)
	}
	var order []aivensim.Operation
	for _, e := range w.Sim.Journal() {
		if e.Operation == aivensim.ServiceUserDelete || e.Operation == aivensim.ServiceKafkaACLDelete {
			order = append(order, e.Operation)
		}
	}
	if n := len(order); n == 0 || slices.Index(order, aivensim.ServiceUserDelete) != n-1 {
		t.Errorf("the user is to go last, and once: got %q", order)
	}
}

func TestOpenSearchRulesGoWithTheirUser(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Start(idle...)
	app := w.Apply("cart", v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: "creds"}})
	username := w.Ready("cart").Status.Bindings[0].Username
	w.Remove(app)
	w.Gone(app, "cart")

	others := []aivensim.OpenSearchACL{
		{Username: "somebody", Rules: []aivensim.OpenSearchRule{{Index: "logs-*", Permission: "write"}}},
		{Username: username[:len(username)-1] + "*", Rules: []aivensim.OpenSearchRule{{Index: "x", Permission: "deny"}}},
	}
	logs.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{Enabled: true, ExtendedACL: true, ACLs: []aivensim.OpenSearchACL{
		{Username: username, Rules: []aivensim.OpenSearchRule{{Index: "_*", Permission: "read"}, {Index: "*", Permission: "read"}}},
		others[0],
		{Username: username, Rules: []aivensim.OpenSearchRule{{Index: "y", Permission: "admin"}}},
		others[1],
	}})
	w.Remove(w.Secret("creds"))
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(logs)
	want := aivensim.OpenSearchACLConfig{Enabled: true, ExtendedACL: true, ACLs: others}
	if diff := cmp.Diff(want, logs.OpenSearchACLs()); diff != "" {
		t.Errorf("the ACL document (-want +got):\n%s", diff)
	}
}

func TestADeletedSecretThatIsAskedForIsReplaced(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start(idle...)
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	before := w.Ready("cart").Status.Bindings[0].Username
	labels := map[string]string{"x": "y"}
	w.Make(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "web", Image: "none", EnvFrom: []corev1.EnvFromSource{
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "creds"}}},
				}}},
			}},
		},
	})
	w.Eventually(func(ctx context.Context) error { // its controller has seen it, and so have the caches of the operator
		web := &appsv1.Deployment{}
		if err := w.Get(ctx, w.Key("web"), web); err != nil || web.Status.Replicas > 0 {
			return err
		}
		return fmt.Errorf("Deployment web has no Pods yet")
	})

	old := w.Secret("creds")
	// Workloads are looked for after this: long enough for the operator's caches to have the Deployment too.
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Delay: 2 * time.Second})
	w.Remove(old)
	s := w.Replaced(old)
	w.Event("cart", "Warning CredentialsRevoked Secret creds was deleted and its credentials with it; restart what still holds them: ")
	w.Event("cart", "Deployment/web")
	w.Ready("cart")
	after := string(s.Data[key.KafkaSchemaRegistryUser])
	if after == before {
		t.Errorf("the new Secret holds the user of the old one, %s", before)
	}
	w.UsersAre(w.Kafka, after)
	if !w.Sim.Authenticate(world.Pool, w.Kafka.Name(), string(s.Data[key.KafkaSchemaRegistryUser]), string(s.Data[key.KafkaSchemaRegistryPassword])) {
		t.Errorf("the credentials in the new Secret do not work")
	}
}

func TestADeletionThatConcernsNoWorkloadIsNotAnnounced(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start(idle...)
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Ready("cart")
	old := w.Secret("creds")
	w.Remove(old)
	w.Replaced(old)
	w.Ready("cart")
	w.Event("creds", "Normal CredentialsRevoked")
	events, err := w.Events(t.Context(), "cart")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if strings.Contains(e, "CredentialsRevoked") {
			t.Errorf("the owner was told %q", e)
		}
	}
}
