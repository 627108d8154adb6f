//go:build k8srequired

// Package names shows that users have names of their own wherever an application of the same name lives, and what becomes of applications that say
// what the API server would refuse today: a Secret that can never exist, a time that cannot be read.
package names

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

func TestMain(m *testing.M) { world.Run(m) }

// credentials are name and password of the Kafka and the Valkey user of a Secret, in this order.
type credentials [2][2]string

func read(w *world.World) credentials {
	s := w.Secret("creds")
	text := func(k string) string { return string(s.Data[k]) }
	return credentials{
		{text("KAFKA_SCHEMA_REGISTRY_USER"), text("KAFKA_SCHEMA_REGISTRY_PASSWORD")},
		{text("VALKEY_USERNAME_CACHE"), text("VALKEY_PASSWORD_CACHE")},
	}
}

// apply makes the application web, which every team and every cluster has.
func apply(w *world.World) {
	w.Apply("web", v1.AivenApplicationSpec{
		SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, Valkey: []v1.Valkey{{Instance: "cache"}},
	})
}

// Four applications of one name, in two namespaces of two clusters that share an Aiven project, have four users; each is deleted alone. A second cluster is
// another operator, with another name, on namespaces that have been emptied without a trace at Aiven.
func TestSameNameElsewhere(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	other := w.Neighbour(t, "b")
	caches := map[*world.World]*aivensim.Service{}
	for _, team := range []*world.World{w, other} {
		caches[team] = team.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	}
	var all []credentials
	of := map[string]credentials{} // by cluster, of the first team
	var valkey []credentials       // the first team's: they share a service
	start := func(cluster string) { w.Start("--namespaces="+other.Namespace, "--cluster-name="+cluster) }
	for _, cluster := range []string{"one", "two"} {
		start(cluster)
		apply(w)
		apply(other)
		for _, team := range []*world.World{w, other} {
			team.Ready("web")
			all = append(all, read(team))
		}
		of[cluster] = read(w)
		valkey = append(valkey, read(w))
		if cluster == "one" {
			w.Stop()
			vanish(w)
			vanish(other)
		}
	}
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c[0][0]] || seen[c[0][1]] {
			t.Errorf("Kafka user %s, or its password, is there twice", c[0][0])
		}
		seen[c[0][0]], seen[c[0][1]] = true, true
		w.Login(world.Pool, w.Kafka, c[0][0], c[0][1])
	}
	if valkey[0][1] == valkey[1][1] {
		t.Errorf("both clusters have the Valkey user %s", valkey[0][1][0])
	}
	for _, c := range valkey {
		w.Login(world.Main, caches[w], c[1][0], c[1][1])
	}

	w.Remove(w.App("web"))
	w.Gone(&corev1.Secret{}, "creds")
	w.Gone(&v1.AivenApplication{}, "web")
	var left []string
	for _, c := range all {
		if c != of["two"] {
			left = append(left, c[0][0])
		}
	}
	w.UsersAre(w.Kafka, left...)
	w.UsersAre(caches[w], of["one"][1][0])
	for _, c := range all {
		if slices.Contains(left, c[0][0]) {
			w.Login(world.Pool, w.Kafka, c[0][0], c[0][1])
		}
	}
}

// vanish removes application and Secret without an operator.
func vanish(w *world.World) {
	for _, obj := range []client.Object{w.App("web"), w.Secret("creds")} {
		w.Merge(obj, `{"metadata":{"finalizers":null}}`)
		w.Remove(obj)
	}
}

// A user of the very name that would be chosen, made by somebody else, is taken, and not ours.
func TestNameTakenByAStranger(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	spec := v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}}
	w.Apply("web", spec)
	first := w.Ready("web").Status.Bindings[0].Username
	w.Remove(w.App("web"))
	w.Gone(&corev1.Secret{}, "creds")
	w.Gone(&v1.AivenApplication{}, "web")
	w.UsersAre(w.Kafka)
	stranger := w.Kafka.AddUser(aivensim.User{Username: first})

	w.Apply("web", spec)
	second := w.Ready("web").Status.Bindings[0].Username
	if second == first {
		t.Errorf("the application has the stranger's user %s", first)
	}
	s := w.Secret("creds")
	w.Login(world.Pool, w.Kafka, second, string(s.Data["KAFKA_SCHEMA_REGISTRY_PASSWORD"]))
	w.Remove(w.App("web"))
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka, first)
	w.Login(world.Pool, w.Kafka, first, stranger.Password)
}
