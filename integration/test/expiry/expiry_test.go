//go:build k8srequired

// Package expiry shows that an application is gone at the moment it names, and which Secrets protection keeps and for how long.
package expiry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

func TestMain(m *testing.M) { world.Run(m) }

// silent is for an operator that nothing wakes but time and deletions.
var silent = []string{"--resync=24h", "--janitor-period=24h"}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

// notBefore makes sure that something did not happen too early.
func notBefore(t *testing.T, limit, what string) {
	t.Helper()
	if at, err := time.Parse(time.RFC3339, limit); err != nil || time.Now().Before(at) {
		t.Errorf("%s before %s: %v", what, limit, err)
	}
}

func TestAnApplicationThatHasExpiredOnArrival(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start(silent...)
	app := w.Apply("cart", v1.AivenApplicationSpec{ExpiresAt: in(-time.Hour), Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Gone(app, "cart")
	w.Event("cart", "Normal Expired expired at "+app.Spec.ExpiresAt)
	events, err := w.Events(t.Context(), "cart")
	if err != nil || len(events) != 1 {
		t.Errorf("events: got %q, %v, want one", events, err)
	}
	if calls := w.Sim.Counters(); calls.Writes > 0 {
		t.Errorf("calls that change something at Aiven: got %+v, want none", calls.Requests)
	}
	w.Gone(&corev1.Secret{}, "creds")
}

func TestAnApplicationExpires(t *testing.T) {
	for name, tc := range map[string]struct{ off, protected bool }{
		"by itself":                 {},
		"while the operator is off": {off: true},
		"with its protected Secret": {protected: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Start(silent...)
			w.Apply("cart", v1.AivenApplicationSpec{Protected: tc.protected, Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
			w.Ready("cart")
			limit := in(20 * time.Second)
			w.Change("cart", func(app *v1.AivenApplication) { app.Spec.ExpiresAt = limit })
			w.Ready("cart")
			if tc.off {
				w.Stop()
				w.Eventually(func(context.Context) error {
					if at, err := time.Parse(time.RFC3339, limit); err != nil || time.Now().Before(at) {
						return fmt.Errorf("it is not %s yet", limit)
					}
					return nil
				})
				w.App("cart")
				w.Start(silent...)
			}
			w.Gone(&v1.AivenApplication{}, "cart")
			notBefore(t, limit, "the application was gone")
			w.Gone(&corev1.Secret{}, "creds")
			w.UsersAre(w.Kafka)
		})
	}
}

func TestAMovedLimitCounts(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start(silent...)
	w.Apply("longer", v1.AivenApplicationSpec{ExpiresAt: in(8 * time.Second), Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "longer"}})
	w.Change("longer", func(app *v1.AivenApplication) { app.Spec.ExpiresAt = in(time.Hour) })
	// The limit of another application that passes later shows that the first one's has passed.
	w.Apply("other", v1.AivenApplicationSpec{ExpiresAt: in(12 * time.Second), Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "other"}})
	w.Gone(&v1.AivenApplication{}, "other")
	w.Ready("longer")
	w.Change("longer", func(app *v1.AivenApplication) { app.Spec.ExpiresAt = in(2 * time.Second) })
	w.Gone(&v1.AivenApplication{}, "longer")
}

func TestAnExpiredApplicationsSecretStaysWhileItIsUsed(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=24h")
	user := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "user"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "none", EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "creds"}}},
		}}}},
	}
	w.Make(user)
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	username := w.Ready("cart").Status.Bindings[0].Username
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.ExpiresAt = in(time.Second) })
	w.Gone(&v1.AivenApplication{}, "cart")
	w.Sweep()
	if s := w.Secret("creds"); !s.DeletionTimestamp.IsZero() {
		t.Errorf("the Secret is being deleted although a Pod uses it")
	}
	w.UsersAre(w.Kafka, username)
	w.Remove(user)
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
}

func TestProtection(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	future := in(15 * time.Second)
	users := map[string]string{
		"unprotected": w.Earlier("unprotected", "unprotected"),
		"protected":   w.Earlier("protected", "protected", world.Protected("")),
		"future":      w.Earlier("future", "future", world.Protected(future)),
		"past":        w.Earlier("past", "past", world.Protected(in(-time.Hour))),
		"unreadable":  w.Earlier("unreadable", "unreadable", world.Protected("next spring")),
		"distant":     w.Earlier("distant", "distant", world.Protected(in(1000*time.Hour))),
	}
	w.Start()
	for _, name := range []string{"unprotected", "past"} {
		w.Gone(&corev1.Secret{}, name)
	}
	w.Event("unreadable", `Warning TimeLimitUnreadable annotation aivenator.aiven.nais.io/expires-at: "next spring"`)
	w.Gone(&corev1.Secret{}, "future")
	notBefore(t, future, "the Secret with a limit was gone")
	w.Sweep()
	w.UsersAre(w.Kafka, users["protected"], users["unreadable"], users["distant"])
	for state, want := range map[string]float64{"protected": 2, "not_expired": 1, "in_use": 0, "unused": 0, "not_owned": 0, "leaving": 0} {
		w.MetricIs(fmt.Sprintf("aivenator_secrets_managed{state=%q}", state), want)
	}
	events, err := w.Events(t.Context(), "unreadable")
	if n := len(slices.DeleteFunc(events, func(e string) bool { return !strings.Contains(e, "TimeLimitUnreadable") })); err != nil || n != 1 {
		t.Errorf("warnings of the unreadable limit: got %d, %v, want one", n, err)
	}

	w.Remove(w.Secret("protected"))
	w.Gone(&corev1.Secret{}, "protected")
	w.UsersAre(w.Kafka, users["unreadable"], users["distant"])
	w.MetricIs(`aivenator_secrets_managed{state="protected"}`, 1)
	if n := len(w.Calls(aivensim.ServiceUserDelete, users["protected"])); n != 1 {
		t.Errorf("the user of the protected Secret was deleted %d times", n)
	}
}

func TestAProtectedApplicationLeavesItsSecret(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	app := w.Apply("cart", v1.AivenApplicationSpec{Protected: true, Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	username := w.Ready("cart").Status.Bindings[0].Username
	before := w.Secret("creds")
	w.Remove(app)
	w.Gone(app, "cart")
	w.Sweep()
	if s := w.Secret("creds"); s.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Secret was changed: %+v", s.ObjectMeta)
	}
	w.UsersAre(w.Kafka, username)
	w.MetricIs(`aivenator_secrets_managed{state="protected"}`, 1)
}
