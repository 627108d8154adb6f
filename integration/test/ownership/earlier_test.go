//go:build k8srequired

package ownership

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestForgedRecordIsRefused(t *testing.T) {
	tests := map[string]struct {
		forge func(w *world.World, annotations map[string]string)
		lost  bool // the status is lost too
	}{
		"the administrator": {forge: func(_ *world.World, a map[string]string) { a[key.AnnotationKafkaUser] = "avnadmin" }},
		"the administrator, with the status lost": {lost: true, forge: func(_ *world.World, a map[string]string) {
			a[key.AnnotationKafkaUser] = "avnadmin"
		}},
		"a user of another namespace": {forge: func(_ *world.World, a map[string]string) { a[key.AnnotationKafkaUser] = victim() }},
		"a user of another namespace, with the status lost": {lost: true, forge: func(_ *world.World, a map[string]string) {
			a[key.AnnotationKafkaUser] = victim()
		}},
		"another project":                       {forge: func(_ *world.World, a map[string]string) { a[key.AnnotationKafkaPool] = "secret" }},
		"another project, with the status lost": {lost: true, forge: func(_ *world.World, a map[string]string) { a[key.AnnotationKafkaPool] = "secret" }},
		"another service": {forge: func(_ *world.World, a map[string]string) {
			a[key.ValkeyService("cache")] = "valkey-another-cache"
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
			foreign := w.Sim.Project(world.Main).AddService("valkey-another-cache", aivensim.ServiceConfig{Type: aivensim.Valkey})
			hidden := w.Sim.AddProject("secret").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
			w.Kafka.AddUser(aivensim.User{Username: victim()})
			w.Start()
			w.Apply("cart", v1.AivenApplicationSpec{
				SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, Valkey: []v1.Valkey{{Instance: "cache"}},
			})
			w.Ready("cart")
			before := w.Secret("creds")
			hidden.AddUser(aivensim.User{Username: before.Annotations[key.AnnotationKafkaUser]})
			foreign.AddUser(aivensim.User{Username: before.Annotations[key.ValkeyUser("cache")]})
			protected := map[*aivensim.Service][]aivensim.User{foreign: foreign.Users(), hidden: hidden.Users()}

			w.Stop()
			w.ChangeSecret("creds", func(s *corev1.Secret) { tc.forge(w, s.Annotations) })
			if tc.lost {
				app := w.App("cart")
				app.Status = v1.AivenApplicationStatus{}
				if err := w.Status().Update(t.Context(), app); err != nil {
					t.Fatal(err)
				}
			}
			w.Start()
			w.Event("cart", "Warning RecordRestored")
			w.Ready("cart")
			w.Eventually(func(context.Context) error {
				after := w.Secret("creds")
				if tc.lost { // another user was made
					before.Annotations[key.AnnotationKafkaUser] = after.Annotations[key.AnnotationKafkaUser]
				}
				for _, k := range []string{key.AnnotationKafkaUser, key.AnnotationKafkaPool, key.ValkeyUser("cache"), key.ValkeyService("cache")} {
					if after.Annotations[k] != before.Annotations[k] {
						return fmt.Errorf("annotation %s is %q, want %q", k, after.Annotations[k], before.Annotations[k])
					}
				}
				return nil
			})
			if user := logsIn(t, w, "creds"); user == "avnadmin" || user == victim() {
				t.Errorf("the credentials of %s were published", user)
			}

			w.Remove(w.App("cart"))
			w.Gone(&corev1.Secret{}, "creds")
			for _, name := range []string{"avnadmin", victim()} {
				if u, ok := w.Kafka.User(name); !ok || u.Generation != 1 {
					t.Errorf("user %s is gone or changed: %+v", name, u.Generation)
				}
			}
			for s, users := range protected {
				if diff := cmp.Diff(users, s.Users()); diff != "" {
					t.Errorf("users of another service (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// victim is a user of an application of the same name in another namespace.
func victim() string {
	return key.Identity{Cluster: "world", Namespace: "another", Application: "cart", Project: world.Pool, Service: "kafka"}.Kafka()
}
