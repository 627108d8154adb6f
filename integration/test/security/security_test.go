//go:build k8srequired

// Package security shows what people and programs cannot get or do, whatever they may edit, read or break in the cluster.
package security

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

// everything asks for a user on a service of each kind.
func everything(secret string) v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{
		SecretName: secret,
		Kafka:      &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}},
		OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache"}},
	}
}

// estate is a namespace with instances, and with application cart and its Secret creds.
type estate struct {
	*world.World
	logs, cache *aivensim.Service
}

func settle(w *world.World) estate {
	return estate{
		World: w,
		logs:  w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{}), cache: w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{}),
	}
}

// neighbours are two namespaces with instances, of which the first has a name that the other's begins with, as a thief would choose it. In the other one
// there is application cart already. One operator serves both.
func neighbours(t *testing.T) (thief, victim estate) {
	t.Helper()
	w := world.New(t)
	thief, victim = settle(w), settle(w.Neighbour(t, "b"))
	w.Start("--namespaces="+victim.Namespace, "--snapshot-age=1s")
	victim.Apply("cart", everything("creds"))
	victim.Ready("cart")
	return thief, victim
}

// property is what belongs to an estate, and to nobody but Aiven: users with their credentials, and rights.
func (e estate) property() map[string]any {
	out := map[string]any{
		"users of OpenSearch": e.logs.Users(), "users of Valkey": e.cache.Users(), "rights of OpenSearch": e.logs.OpenSearchACLs(),
	}
	name := e.Secret("creds").Annotations[key.AnnotationKafkaUser]
	out["users of Kafka"] = slices.DeleteFunc(e.Kafka.Users(), func(u aivensim.User) bool { return u.Username != name && u.Type == "normal" })
	out["rights of Kafka"] = slices.DeleteFunc(e.Kafka.KafkaACLs(), func(a aivensim.KafkaACL) bool { return a.Username != name })
	out["Secret"] = e.Secret("creds")
	return out
}

// untouched fails the test unless all property is as it was, and no Secret of the thief holds a credential of it.
func (e estate) untouched(t *testing.T, before map[string]any, thief estate) {
	t.Helper()
	if diff := gocmp.Diff(before, e.property()); diff != "" {
		t.Errorf("what belongs to others changed (-before +after):\n%s", diff)
	}
	var secrets corev1.SecretList
	if err := thief.List(t.Context(), &secrets, client.InNamespace(thief.Namespace)); err != nil {
		t.Fatal(err)
	}
	foreign := slices.Concat(before["users of OpenSearch"].([]aivensim.User), before["users of Valkey"].([]aivensim.User), before["users of Kafka"].([]aivensim.User))
	for _, s := range secrets.Items {
		for k, v := range s.Data {
			for _, u := range foreign {
				for _, canary := range []string{u.Password, u.AccessCert} { // the simulator shares keys among users
					if canary != "" && bytes.Contains(v, []byte(canary)) {
						t.Errorf("%s of Secret %s holds a credential of user %s", k, s.Name, u.Username)
					}
				}
			}
		}
	}
}

// records are the annotations that record users, as those of the estate's Secret do.
func (e estate) records() map[string]string {
	out := map[string]string{}
	for k, v := range e.Secret("creds").Annotations {
		if binding.IsRecord(k) {
			out[k] = v
		}
	}
	return out
}

// builtIn records the built-in users of an estate's own services.
func (e estate) builtIn() map[string]string {
	out := e.records()
	for k := range out {
		if strings.HasSuffix(k, "/serviceUser") {
			out[k] = "avnadmin"
		}
	}
	out[key.ValkeyUser("cache")] = "default"
	return out
}

func TestAForgedRecordOfASecretGivesNothing(t *testing.T) {
	tests := map[string]struct {
		records  func(thief, victim estate) map[string]string
		prepared bool // the Secret is there before the application, so that no status knows better
		earlier  bool // the Secret is as the earlier operator made it: without the annotation that names the owner
	}{
		"users of another namespace": {records: func(_, victim estate) map[string]string { return victim.records() }},
		"users of another namespace, prepared": {
			records: func(_, victim estate) map[string]string { return victim.records() }, prepared: true,
		},
		"users of another namespace, prepared as by the earlier operator": {
			records: func(_, victim estate) map[string]string { return victim.records() }, prepared: true, earlier: true,
		},
		"built-in users":           {records: func(thief, _ estate) map[string]string { return thief.builtIn() }},
		"built-in users, prepared": {records: func(_, victim estate) map[string]string { return victim.builtIn() }, prepared: true},
		"own users on the services of another namespace": {records: func(thief, victim estate) map[string]string {
			out := victim.records()
			for k, v := range thief.records() {
				if strings.HasSuffix(k, "/serviceUser") {
					out[k] = v
				}
			}
			return out
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thief, victim := neighbours(t)
			before := victim.property()
			if tt.prepared {
				s := &corev1.Secret{Data: victim.Secret("creds").Data}
				s.Namespace, s.Name = thief.Namespace, "creds"
				s.Labels = map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"}
				s.Annotations = tt.records(thief, victim)
				if s.Finalizers = []string{key.FinalizerAivenator}; !tt.earlier {
					s.Annotations[key.AnnotationOwner] = key.Owner(thief.Namespace, "creds", "cart")
				}
				thief.Make(s)
				thief.Apply("cart", everything("creds"))
				thief.Ready("cart")
			} else {
				thief.Apply("cart", everything("creds"))
				thief.Ready("cart")
				forged := tt.records(thief, victim)
				thief.ChangeSecret("creds", func(s *corev1.Secret) { maps.Copy(s.Annotations, forged) })
				thief.Event("cart", "Warning RecordRestored")
				thief.Touch("cart", 2)
			}
			victim.untouched(t, before, thief)

			// Nor does deleting the Secret, while nobody can restore it.
			forged := tt.records(thief, victim)
			thief.Stop()
			s := thief.Secret("creds")
			thief.ChangeSecret("creds", func(s *corev1.Secret) { maps.Copy(s.Annotations, forged) })
			thief.Remove(s)
			thief.Start("--namespaces="+victim.Namespace, "--snapshot-age=1s")
			thief.Replaced(s)
			thief.Ready("cart")
			victim.untouched(t, before, thief)
		})
	}
}

func TestAForgedStatusGivesNothing(t *testing.T) {
	tests := map[string]func(thief, victim estate) map[string]string{
		"users of another namespace": func(_, victim estate) map[string]string { return victim.records() },
		"built-in users":             func(thief, _ estate) map[string]string { return thief.builtIn() },
		"built-in users of another namespace": func(_, victim estate) map[string]string {
			return victim.builtIn()
		},
	}
	for name, records := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thief, victim := neighbours(t)
			before := victim.property()
			thief.Apply("cart", everything("creds"))
			thief.Ready("cart")
			forged := statusOf(records(thief, victim))
			for _, state := range []string{"Pending", "Ready", "Waiting", "Retained", "Deleting", "Deleted"} {
				for _, secret := range []string{"creds", "another"} {
					thief.changeStatus(t, "cart", func(status *v1.AivenApplicationStatus) {
						status.Bindings = nil
						for _, b := range forged {
							b.State, b.SecretName = state, secret
							status.Bindings = append(status.Bindings, b)
						}
					})
					thief.Touch("cart", 1)
					victim.untouched(t, before, thief)
				}
			}
			thief.Event("cart", "Warning RecordRestored")

			thief.changeStatus(t, "cart", func(status *v1.AivenApplicationStatus) { status.Bindings = forged })
			thief.Remove(thief.App("cart"))
			thief.Gone(&v1.AivenApplication{}, "cart")
			thief.Gone(&corev1.Secret{}, "creds")
			victim.untouched(t, before, thief)
		})
	}
}

// statusOf are records as a status has them.
func statusOf(annotations map[string]string) []v1.Binding {
	var out []v1.Binding
	s := &corev1.Secret{}
	s.Annotations = annotations
	for _, b := range binding.FromSecret(s) {
		out = append(out, v1.Binding{
			Kind: string(b.Kind), Instance: b.Instance, Project: b.Ref.Project, Service: cmp.Or(b.Ref.Service, "kafka"),
			SecretName: "creds", Username: b.Username, State: "Deleting",
		})
	}
	return out
}

// changeStatus edits a status as somebody with that right can.
func (e estate) changeStatus(t *testing.T, name string, edit func(*v1.AivenApplicationStatus)) {
	t.Helper()
	app := e.App(name)
	before := app.DeepCopy()
	edit(&app.Status)
	if err := e.Status().Patch(t.Context(), app, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func TestALabelOnAForeignSecretGivesNothing(t *testing.T) {
	t.Parallel()
	thief, victim := neighbours(t)
	before := victim.property()
	for i, owner := range []string{"", "cart", "nobody"} {
		s := &corev1.Secret{Data: map[string][]byte{"tls.key": []byte("theirs")}}
		s.Namespace, s.Name = thief.Namespace, []string{"one", "two", "three"}[i]
		thief.Make(s)
		thief.ChangeSecret(s.Name, func(s *corev1.Secret) {
			s.Labels = map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"}
			s.Annotations = victim.records()
			s.Finalizers = []string{key.FinalizerAivenator}
			if owner != "" {
				s.Annotations[key.AnnotationOwner] = key.Owner(thief.Namespace, s.Name, owner)
			}
		})
		thief.Remove(s)
		thief.Gone(&corev1.Secret{}, s.Name)
		thief.Event(s.Name, "Warning NotCleanedUp")
	}
	victim.untouched(t, before, thief)
}
