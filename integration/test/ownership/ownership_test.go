//go:build k8srequired

// Package ownership shows what keysmith does with Secrets that others made or touched: a stranger's is left alone, and of its own ones it owns its
// keys and nothing else.
package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

func kafka(secret string) v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: secret}}
}

// logsIn fails the test unless the Secret's Kafka user and password work, and returns the user.
func logsIn(t *testing.T, w *world.World, secret string) string {
	t.Helper()
	s := w.Secret(secret)
	user, password := string(s.Data[key.KafkaSchemaRegistryUser]), string(s.Data[key.KafkaSchemaRegistryPassword])
	if !w.Sim.Authenticate(world.Pool, w.Kafka.Name(), user, password) {
		t.Errorf("the credentials of Secret %s (user %q) do not work", secret, user)
	}
	return user
}

func TestStrangersSecretIsLeftAlone(t *testing.T) {
	tests := map[string]metav1.ObjectMeta{
		"it was made by hand": {},
		"it pretends to be ours": {
			Labels: map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart", key.LabelTeam: "x"},
		},
	}
	for name, meta := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			meta.Namespace, meta.Name = w.Namespace, "creds"
			if err := w.Create(t.Context(), &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"foo": []byte("bar")}}); err != nil {
				t.Fatal(err)
			}
			before := w.Secret("creds")
			w.Start()
			w.Apply("cart", kafka("creds"))
			app := w.NotReady("cart", binding.ReasonSecretNotOwned)
			w.Touch("cart", 3)
			i := slices.IndexFunc(app.Status.Conditions, func(c v1.Condition) bool { return c.Type == v1.ConditionReady })
			if message := app.Status.Conditions[i].Message; !strings.Contains(message, "creds") {
				t.Errorf("the message does not name the Secret: %s", message)
			}
			if diff := cmp.Diff(before, w.Secret("creds")); diff != "" {
				t.Errorf("the Secret changed (-before +after):\n%s", diff)
			}
			if n := w.Sim.Counters().Writes; n != 0 {
				t.Errorf("%d writes to Aiven, want none", n)
			}
			if err := w.Delete(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			w.Ready("cart")
			logsIn(t, w, "creds")
		})
	}
}

func TestFirstOfTwoApplicationsKeepsTheSecret(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("one", kafka("shared"))
	w.Ready("one")
	first := w.Secret("shared")
	w.Apply("two", kafka("shared"))
	w.NotReady("two", binding.ReasonSecretNotOwned)
	w.Touch("one", 5)
	w.Touch("two", 5)
	w.Restart()
	w.Touch("one", 2)
	w.Touch("two", 2)
	w.NotReady("two", binding.ReasonSecretNotOwned)
	if diff := cmp.Diff(first, w.Secret("shared")); diff != "" {
		t.Errorf("the Secret changed (-before +after):\n%s", diff)
	}
	user := logsIn(t, w, "shared")
	if diff := cmp.Diff([]string{user}, world.Users(w.Kafka)); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}

	if err := w.Delete(t.Context(), w.App("one")); err != nil {
		t.Fatal(err)
	}
	w.Gone(&v1.AivenApplication{}, "one")
	w.Ready("two") // once the janitor has found that nobody has a use for the first one's Secret
	if successor := logsIn(t, w, "shared"); successor == user {
		t.Errorf("the second application has the first one's user %s", user)
	}
	w.Eventually(func(context.Context) error {
		if users := world.Users(w.Kafka); len(users) != 1 || users[0] == user {
			return fmt.Errorf("users %v, want one, and not %s", users, user)
		}
		return nil
	})
}

func TestEditedSecretIsRestored(t *testing.T) {
	tests := map[string]func(*corev1.Secret){
		"values": func(s *corev1.Secret) {
			s.Data[key.KafkaBrokers] = []byte("elsewhere:1")
			delete(s.Data, key.KafkaCA)
			s.Data[key.KafkaSchemaRegistryPassword] = nil
		},
		"everything": func(s *corev1.Secret) { s.Data = nil },
		"labels and annotations": func(s *corev1.Secret) {
			s.Annotations = map[string]string{key.AnnotationOwner: s.Annotations[key.AnnotationOwner]}
			s.Labels = map[string]string{key.LabelType: key.TypeAivenator}
		},
		"finalizers":     func(s *corev1.Secret) { s.Finalizers = nil },
		"the type label": func(s *corev1.Secret) { delete(s.Labels, key.LabelType) },
		"all labels":     func(s *corev1.Secret) { s.Labels = nil },
	}
	for name, edit := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Start("--resync=24h", "--janitor-period=24h") // the janitor restores finalizers too
			w.Apply("cart", kafka("creds"))
			w.Ready("cart")
			before := w.Secret("creds")
			w.Sim.ResetCounters()
			w.ChangeSecret("creds", edit)
			w.Eventually(func(context.Context) error {
				after := w.Secret("creds")
				for _, s := range []*corev1.Secret{before, after} {
					s.ResourceVersion, s.ManagedFields = "", nil
					delete(s.Data, key.SecretUpdated)
					delete(s.Data, key.KafkaSecretUpdated)
					if name == "everything" { // new stores have other salts
						delete(s.Data, key.KafkaKeyStore)
						delete(s.Data, key.KafkaTrustStore)
						delete(s.Annotations, key.AnnotationStores)
					}
				}
				if diff := cmp.Diff(before, after); diff != "" {
					return errors.New("the Secret is not restored (-before +after):\n" + diff)
				}
				return nil
			})
			w.Event("cart", "SecretUpdated")
			w.Touch("cart", 2)
			if n := w.Sim.Counters().Writes; n != 0 {
				t.Errorf("%d writes to Aiven, want none", n)
			}
			events, err := w.Events(t.Context(), "cart")
			if err != nil {
				t.Fatal(err)
			}
			events = slices.DeleteFunc(events, func(e string) bool { return !strings.Contains(e, "SecretUpdated") })
			if len(events) != 1 {
				t.Errorf("events %q, want one about the Secret", events)
			}
			logsIn(t, w, "creds")
		})
	}
}

func TestSecretThatLostItsProofIsRestored(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", kafka("creds"))
	w.Ready("cart")
	before := w.Secret("creds")
	for what, edit := range map[string]func(s *corev1.Secret){
		"annotations": func(s *corev1.Secret) { s.Annotations = nil },
		"labels":      func(s *corev1.Secret) { s.Labels = nil },
	} {
		w.ChangeSecret("creds", edit)
		w.Touch("cart", 2)
		w.Eventually(func(context.Context) error {
			after := w.Secret("creds")
			if diff := cmp.Diff(before.Annotations, after.Annotations) + cmp.Diff(before.Labels, after.Labels) + cmp.Diff(before.Data, after.Data); diff != "" {
				return fmt.Errorf("without %s the Secret is not as it was", what)
			}
			return nil
		})
	}
	w.Ready("cart")
	w.UsersAre(w.Kafka, logsIn(t, w, "creds"))
}

func TestExtraKeysAreRemoved(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--snapshot-age=1s", "--resync=2s")
	w.Apply("cart", kafka("creds"))
	w.Ready("cart")
	extra := func(s *corev1.Secret) { s.Data["EXTRA"] = []byte("1") }
	removed := func(context.Context) error {
		if _, ok := w.Secret("creds").Data["EXTRA"]; ok {
			return errors.New("the extra key is still there")
		}
		return nil
	}
	w.ChangeSecret("creds", extra)
	w.Eventually(removed)

	w.Stop()
	w.ChangeSecret("creds", extra)
	w.Kafka.SetAddress("moved.example.com", 4711)
	w.Start("--snapshot-age=1s", "--resync=2s")
	w.Eventually(removed)
	logsIn(t, w, "creds")
}

func TestStrangersMetadataSurvives(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--snapshot-age=1s", "--resync=2s")
	w.Apply("cart", kafka("creds"))
	w.Ready("cart")
	w.ChangeSecret("creds", func(s *corev1.Secret) {
		s.Annotations["reflector/x"] = "1"
		s.Labels["tier"] = "a"
		s.Finalizers = append(s.Finalizers, "example.com/hold")
	})
	w.Kafka.SetAddress("moved.example.com", 4711)
	w.Eventually(func(context.Context) error {
		if brokers := string(w.Secret("creds").Data[key.KafkaBrokers]); !strings.HasPrefix(brokers, "moved.example.com:") {
			return fmt.Errorf("brokers are %q", brokers)
		}
		return nil
	})
	s := w.Secret("creds")
	if s.Annotations["reflector/x"] != "1" || s.Labels["tier"] != "a" || !slices.Contains(s.Finalizers, "example.com/hold") {
		t.Errorf("a stranger's metadata are gone: %v %v %v", s.Annotations, s.Labels, s.Finalizers)
	}
}

func TestMetadataOfToolsAreNotCopied(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	app := &v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: "cart",
			Labels: map[string]string{
				"argocd.argoproj.io/instance": "x", "app.kubernetes.io/instance": "x", "kustomize.toolkit.fluxcd.io/name": "x",
				key.LabelGeneration: "7",
			},
			Annotations: map[string]string{
				"argocd.argoproj.io/tracking-id":                   "x",
				"kubectl.kubernetes.io/last-applied-configuration": "{}",
				key.AnnotationCorrelationID:                        "id",
			},
		},
		Spec: kafka("creds"),
	}
	if err := w.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	w.Start()
	w.Ready("cart")
	s := w.Secret("creds")
	want := map[string]string{
		key.LabelApp: "cart", key.LabelTeam: w.Namespace, key.LabelType: key.TypeAivenator, key.LabelGeneration: "7", key.Protected: "false",
	}
	if diff := cmp.Diff(want, s.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want = map[string]string{
		key.Protected: "false", key.AnnotationCorrelationID: "id", key.AnnotationOwner: key.Owner(w.Namespace, "creds", "cart"),
		key.AnnotationKafkaPool: world.Pool, key.AnnotationKafkaUser: world.Users(w.Kafka)[0],
		key.AnnotationStores: s.Annotations[key.AnnotationStores],
	}
	if diff := cmp.Diff(want, s.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
