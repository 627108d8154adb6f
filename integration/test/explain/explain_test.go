//go:build k8srequired

// Package explain shows what keysmith explain says of a Secret in each part of its life, and what it says to somebody who may not see everything.
package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/command/explain"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/resource/janitor"
)

func TestMain(m *testing.M) { world.Run(m) }

// ask runs the command and reads its answer.
func ask(t *testing.T, w *world.World, kubeconfig, secret string) (e explain.Explanation, stderr string, status int) {
	t.Helper()
	out, stderr, status := w.Command(kubeconfig, "", "explain", "secret", secret, "-o", "json")
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr)
	}
	return e, stderr, status
}

func TestTheLifeOfASecret(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	at := w.Namespace + "/creds"
	w.Start("--janitor-grace=1h") // so that an unused Secret can be looked at
	w.Apply("cart", v1.AivenApplicationSpec{SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, Valkey: []v1.Valkey{{Instance: "cache"}}})

	w.NotReady("cart", "InstanceNotFound")
	var e explain.Explanation
	w.Eventually(func(context.Context) error { // the Secret has the Kafka user's credentials already
		var status int
		if e, _, status = ask(t, w, "", at); status != 0 || len(e.Users) != 1 || e.Users[0].State != "Ready" {
			return fmt.Errorf("status %d, %+v", status, e)
		}
		return nil
	})
	if len(e.WaitsFor) != 1 || !strings.Contains(e.WaitsFor[0], "InstanceNotFound") {
		t.Errorf("it waits for %q", e.WaitsFor)
	}

	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Ready("cart")
	w.Make(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "cart"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "cart"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "cart", Image: "cart", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "creds"}}}},
				}}},
			},
		},
	})
	e, _, status := ask(t, w, "", at)
	if status != 0 || e.State != explain.Present || e.Owner != "cart" || e.Verdict != janitor.InUse || len(e.WaitsFor) > 0 {
		t.Errorf("status %d, %+v", status, e)
	}
	if diff := cmp.Diff([]string{"kafka of " + world.Pool, "valkey cache (read)"}, e.AskedForBy[0].Services); diff != "" || !e.AskedForBy[0].Owner {
		t.Errorf("services (-want +got)\n%s", diff)
	}
	uses := map[string]string{}
	for _, u := range e.UsedBy {
		uses[u.Kind] = strings.Join(u.Fields, " ")
	}
	if uses["Deployment"] != "containers[cart].envFrom" {
		t.Errorf("it is used by %v", uses)
	}
	for _, u := range e.Users {
		if diff := cmp.Diff([]string{"application cart", "Secret"}, u.RecordedIn); diff != "" {
			t.Errorf("%s is recorded in (-want +got)\n%s", u.Username, diff)
		}
	}
	out, _, _ := w.Command("", "", "explain", "secret", at)
	for what, canary := range w.Canaries() {
		if canary != "" && strings.Contains(out, canary) {
			t.Errorf("it shows %s", what)
		}
	}
	if !strings.Contains(out, "Deployment/cart") || strings.Count(out, "\n") > 40 {
		t.Errorf("this is not a screen that tells of it:\n%s", out)
	}

	w.Remove(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "cart"}})
	w.Remove(w.App("cart"))
	w.Gone(&v1.AivenApplication{}, "cart")
	w.Eventually(func(context.Context) error {
		if e, _, status = ask(t, w, "", at); status != 0 || e.Verdict != janitor.Unused || e.UnusedSince == nil {
			return fmt.Errorf("status %d, %+v", status, e)
		}
		return nil
	})

	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Answer: aivensim.Error(503, "", "Service Unavailable")})
	w.Remove(w.Secret("creds"))
	w.Event("creds", "CleanupFailed")
	e, _, status = ask(t, w, "", at)
	if status != 0 || e.State != explain.Leaving || len(e.WaitsFor) != 1 || !strings.Contains(fmt.Sprint(e.Events), "CleanupFailed") {
		t.Errorf("status %d, %+v", status, e)
	}
	w.Sim.ClearRules()
	w.Gone(&corev1.Secret{}, "creds")
	e, stderr, status := ask(t, w, "", at)
	if status != 1 || e.State != explain.Absent || !strings.Contains(stderr, "no application of the namespace asks for one") {
		t.Errorf("status %d, %+v, %s", status, e, stderr)
	}
}

func TestSomebodyMayNotSeeEverything(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Ready("cart")
	jane := w.Person("jane", rbacv1.PolicyRule{APIGroups: []string{"aiven.nais.io"}, Resources: []string{"aivenapplications"}, Verbs: []string{"list"}})
	e, stderr, status := ask(t, w, jane, "creds") // in the namespace of the context
	if status != 1 || e.State != explain.Unknown || len(e.AskedForBy) != 1 || len(e.Users) != 1 {
		t.Errorf("status %d, %+v, %s", status, e, stderr)
	}
	for _, right := range []string{"get secrets", "list pods", "list deployments.apps", "list cronjobs.batch", "list events"} {
		want := "you (jane) lack the right to " + right + " in namespace " + w.Namespace
		if !strings.Contains(strings.Join(e.NotSeen, "\n"), want) {
			t.Errorf("it does not say %q but %q", want, e.NotSeen)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	for name, args := range map[string][]string{
		"no name":         {},
		"two names":       {"a", "b"},
		"a name of none":  {"shop/Upper_case"},
		"no such format":  {"shop/creds", "-o", "yaml"},
		"no such context": {"shop/creds", "--context", "nothing"},
		"no such file":    {"shop/creds", "--kubeconfig", "/nothing"},
		"two namespaces":  {"shop/creds", "-n", "other"},
		"no such flag":    {"shop/creds", "--nothing"},
	} {
		if out, stderr, status := w.Command("", "", append([]string{"explain", "secret"}, args...)...); status != 2 || out != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %s, %s", name, status, out, stderr)
		}
	}
}
