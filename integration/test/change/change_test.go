//go:build k8srequired

// Package change shows what becomes of users and Secrets when an application changes its mind: what stays the same keeps its user, what is no longer
// asked for goes, and a service that fails does not hold back the others.
package change

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

func TestMain(m *testing.M) { world.Run(m) }

// An edit that does not concern a service keeps its user, and so does another access level.
func TestEditKeepsUsers(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds",
		Kafka:      &v1.Kafka{Pool: world.Pool},
		Valkey:     []v1.Valkey{{Instance: "cache", Access: v1.AccessRead}},
	})
	before := w.Ready("cart").Status.Bindings
	data := w.Secret("creds").Data
	users := func() map[string]aivensim.User {
		all := map[string]aivensim.User{}
		for _, s := range []*aivensim.Service{w.Kafka, cache} {
			for _, name := range world.Users(s) {
				u, _ := s.User(name)
				all[s.Name()+"/"+name] = u
			}
		}
		return all
	}
	want := users()
	w.Sim.ResetCounters()

	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.ExpiresAt = "2099-01-01T00:00:00Z" })
	app := w.Ready("cart")
	if diff := cmp.Diff(before, app.Status.Bindings); diff != "" {
		t.Errorf("after an edit of the expiry, bindings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, users()); diff != "" {
		t.Errorf("after an edit of the expiry, users (-want +got):\n%s", diff)
	}
	if n := w.Sim.Counters().Writes; n > 0 {
		t.Errorf("an edit of the expiry made %d writes to Aiven", n)
	}

	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Valkey[0].Access = v1.AccessReadWrite })
	app = w.Ready("cart")
	if diff := cmp.Diff(before, app.Status.Bindings); diff != "" {
		t.Errorf("after a change of the access level, bindings (-want +got):\n%s", diff)
	}
	for name, u := range want {
		if strings.HasPrefix(name, cache.Name()) {
			u.AccessControl.Categories = []string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction", "+@write", "+@read"}
			want[name] = u
		}
	}
	if diff := cmp.Diff(want, users()); diff != "" {
		t.Errorf("after a change of the access level, users (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(data, w.Secret("creds").Data); diff != "" {
		t.Errorf("the Secret's data changed:\n%s", diff)
	}
}

// The Secret of a former name works while a Pod uses it; then it goes, with its user.
func TestSecretRenamed(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "a"}})
	w.Ready("cart")
	a := w.Secret("a")
	pod := mount(w, "old", "a")

	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.SecretName = "b" })
	app := w.Ready("cart")
	b := w.Secret("b")
	login(w, b)
	states := map[string]string{}
	for _, r := range app.Status.Bindings {
		states[r.SecretName+" "+r.Username] = r.State
	}
	if diff := cmp.Diff(map[string]string{"a " + user(a): "Retained", "b " + user(b): "Ready"}, states); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}

	w.Sweep()
	if now := w.Secret("a"); now.UID != a.UID || now.DeletionTimestamp != nil {
		t.Error("the Secret that a Pod uses is gone")
	}
	login(w, a)

	mount(w, "new", "b")
	w.Remove(pod)
	w.Gone(&corev1.Secret{}, "a")
	w.UsersAre(w.Kafka, user(b))
	recorded(w, "cart", user(b))
	login(w, w.Secret("b"))
}

// Whoever takes a change of the Secret's name back gets the former Secret back, if it is still there, and its user.
func TestSecretRenamedAndBack(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "a"}})
	w.Ready("cart")
	a := w.Secret("a")
	mount(w, "web", "a")
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.SecretName = "b" })
	w.Ready("cart")
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.SecretName = "a" })
	w.Ready("cart")
	w.Gone(&corev1.Secret{}, "b")
	w.UsersAre(w.Kafka, user(a))
	recorded(w, "cart", user(a))
	if now := w.Secret("a"); now.ResourceVersion != a.ResourceVersion {
		t.Errorf("the former Secret was written:\n%s", cmp.Diff(a.ObjectMeta, now.ObjectMeta))
	}
	login(w, a)
}

// A service that leaves a Secret takes its keys, its record and its user with it. The others stay.
func TestServiceRemovedFromASharedSecret(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	sessions := w.Instance(binding.Valkey, "sessions", aivensim.ServiceConfig{})
	w.Start("--resync=1s")
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds",
		Kafka:      &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders"}}},
		OpenSearch: &v1.OpenSearch{Instance: "logs"},
		Valkey:     []v1.Valkey{{Instance: "cache"}, {Instance: "sessions"}},
	})
	w.Ready("cart")
	before := w.Secret("creds")

	w.Change("cart", func(app *v1.AivenApplication) {
		app.Spec.Kafka = nil
		app.Spec.Valkey = app.Spec.Valkey[1:]
	})
	w.Ready("cart")
	w.UsersAre(w.Kafka)
	w.UsersAre(cache)
	w.UsersAre(logs, before.Annotations["opensearch.aiven.nais.io/serviceUser"])
	w.UsersAre(sessions, before.Annotations["sessions.valkey.aiven.nais.io/serviceUser"])
	if acl := w.Kafka.KafkaACLs(); len(acl) != 1 {
		t.Errorf("topic rights are left: %+v", acl)
	}
	want := map[string]string{}
	for k, v := range before.Data {
		if k != "AIVEN_SECRET_UPDATED" && (k == "AIVEN_CA" || strings.HasPrefix(k, "OPEN_SEARCH_") || strings.HasSuffix(k, "_SESSIONS")) {
			want[k] = string(v)
		}
	}
	got := map[string]string{}
	for k, v := range w.Secret("creds").Data {
		if k != "AIVEN_SECRET_UPDATED" {
			got[k] = string(v)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	recorded(w, "cart", before.Annotations["opensearch.aiven.nais.io/serviceUser"], before.Annotations["sessions.valkey.aiven.nais.io/serviceUser"])
	w.Eventually(func(context.Context) error {
		for name := range w.Secret("creds").Annotations {
			if strings.HasPrefix(name, "kafka.") || strings.HasPrefix(name, "cache.") || name == "keysmith.io/stores" {
				return fmt.Errorf("annotation %s is left", name)
			}
		}
		return nil
	})

	w.Sim.ResetCounters()
	w.Passes(3)
	if n := w.Sim.Counters().Writes; n > 0 {
		t.Errorf("what is done is done again: %v", w.Sim.Counters().Requests)
	}

	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka = &v1.Kafka{Pool: world.Pool} })
	w.Ready("cart")
	login(w, w.Secret("creds"))
	w.UsersAre(w.Kafka, user(w.Secret("creds")))
}

// While Aiven refuses to delete the user of a service that left, the record stays, and the rest of the application is up to date.
func TestRemovedServiceCannotBeCleanedUp(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"},
	})
	w.Ready("cart")
	left := user(w.Secret("creds"))
	refusal := w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Answer: aivensim.Error(503, "", "try later")})

	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka = nil })
	app := w.NotReady("cart", "AivenFailure")
	var states []string
	for _, r := range app.Status.Bindings {
		states = append(states, r.Kind+" "+r.State)
	}
	if diff := cmp.Diff([]string{"opensearch Ready", "kafka Deleting"}, states); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
	if _, ok := w.Secret("creds").Data["KAFKA_BROKERS"]; ok {
		t.Error("the Secret still has Kafka's keys")
	}
	w.UsersAre(w.Kafka, left)

	// A crash loses nothing of it.
	w.Kill()
	refusal.Remove()
	w.Start()
	w.UsersAre(w.Kafka)
	w.Ready("cart")
	recorded(w, "cart", world.Users(logs)...)
}

// recorded waits until the status records just these users.
func recorded(w *world.World, app string, want ...string) {
	w.Eventually(func(context.Context) error {
		var got []string
		for _, r := range w.App(app).Status.Bindings {
			got = append(got, r.Username)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("recorded users (-want +got):\n%s", diff)
		}
		return nil
	})
}

func user(s *corev1.Secret) string { return s.Annotations["kafka.aiven.nais.io/serviceUser"] }

// login makes sure that the Kafka credentials of a Secret work.
func login(w *world.World, s *corev1.Secret) {
	w.Login(world.Pool, w.Kafka, string(s.Data["KAFKA_SCHEMA_REGISTRY_USER"]), string(s.Data["KAFKA_SCHEMA_REGISTRY_PASSWORD"]))
}

// mount makes a Pod that mounts a Secret.
func mount(w *world.World, name, secret string) client.Object {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
			Volumes: []corev1.Volume{{Name: "creds", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: secret},
			}}},
		},
	}
	w.Make(pod)
	return pod
}
