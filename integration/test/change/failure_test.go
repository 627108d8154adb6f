//go:build k8srequired

package change

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/service/controller"
)

// A service that fails from the beginning does not hold back the others of its Secret, nor other Secrets.
func TestOneServiceFailsAtFirst(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Service: cache.Name(), Answer: aivensim.Error(500, "", "broken")})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds",
		Kafka:      &v1.Kafka{Pool: world.Pool},
		OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: "logs"},
		Valkey:     []v1.Valkey{{Instance: "cache"}},
	})
	app := w.NotReady("cart", "AivenFailure")
	login(w, w.Secret("creds"))
	s := w.Secret("logs")
	if !w.Sim.Authenticate(world.Main, "opensearch-"+w.Namespace+"-logs", string(s.Data["OPEN_SEARCH_USERNAME"]), string(s.Data["OPEN_SEARCH_PASSWORD"])) {
		t.Error("the other Secret does not work")
	}
	if keys := valkeyKeys(w.Secret("creds"), "CACHE"); len(keys) > 0 {
		t.Errorf("the failing service has keys: %v", keys)
	}
	got := map[string]string{}
	for _, r := range app.Status.Bindings {
		got[r.Kind] = r.Reason
		if (r.State == "Ready") != (r.Kind != "valkey") {
			t.Errorf("%s is %s", r.Kind, r.State)
		}
	}
	if diff := cmp.Diff(map[string]string{"kafka": "", "opensearch": "", "valkey": "AivenFailure"}, got); diff != "" {
		t.Errorf("reasons of the bindings (-want +got):\n%s", diff)
	}

	w.Sim.ClearRules()
	w.Ready("cart")
	s = w.Secret("creds")
	w.Login(world.Main, cache, string(s.Data["VALKEY_USERNAME_CACHE"]), string(s.Data["VALKEY_PASSWORD_CACHE"]))
	if users := world.Users(cache); len(users) != 1 {
		t.Errorf("users: %q", users)
	}
}

// A service that fails later keeps its keys and its user, while the others of its Secret are brought up to date.
func TestOneServiceFailsLater(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fail   func(w *world.World, cache *aivensim.Service)
		reason string
	}{
		"because it is powered off": {
			fail:   func(w *world.World, cache *aivensim.Service) { w.State(binding.Valkey, cache.Name(), "POWEROFF") },
			reason: "ServicePoweredOff",
		},
		"because its object is gone": {
			fail: func(w *world.World, cache *aivensim.Service) {
				obj := controller.Instance(binding.Valkey)
				obj.SetNamespace(w.Namespace)
				obj.SetName(cache.Name())
				w.Remove(obj)
			},
			reason: "InstanceNotFound",
		},
		"because Aiven does not answer for it": {
			fail: func(w *world.World, cache *aivensim.Service) {
				w.Sim.Inject(aivensim.Rule{Service: cache.Name(), Answer: aivensim.Error(500, "", "broken")})
				// What is known of it is forgotten when somebody asks for a full synchronisation, unless it is no more than three seconds old.
				w.Passes(3)
				app := w.App("cart")
				if err := w.Status().Patch(context.Background(), app, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"synchronizationHash":""}}`))); err != nil {
					panic(err)
				}
			},
			reason: "AivenFailure",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := world.New(t)
			cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
			sessions := w.Instance(binding.Valkey, "sessions", aivensim.ServiceConfig{})
			w.Start("--resync=1s")
			w.Apply("cart", v1.AivenApplicationSpec{
				SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, Valkey: []v1.Valkey{{Instance: "cache"}},
			})
			w.Ready("cart")
			before, users := w.Secret("creds"), world.Users(cache)

			tt.fail(w, cache)
			w.NotReady("cart", tt.reason)
			w.Change("cart", func(app *v1.AivenApplication) {
				app.Spec.Kafka = nil
				app.Spec.Valkey = append(app.Spec.Valkey, v1.Valkey{Instance: "sessions"})
			})
			w.NotReady("cart", tt.reason)
			w.Eventually(func(context.Context) error {
				if keys := valkeyKeys(w.Secret("creds"), "SESSIONS"); len(keys) == 0 {
					return fmt.Errorf("the new service has no keys yet")
				}
				return nil
			})
			s := w.Secret("creds")
			w.Login(world.Main, sessions, string(s.Data["VALKEY_USERNAME_SESSIONS"]), string(s.Data["VALKEY_PASSWORD_SESSIONS"]))
			if diff := cmp.Diff(valkeyKeys(before, "CACHE"), valkeyKeys(s, "CACHE")); diff != "" {
				t.Errorf("the keys of what fails changed:\n%s", diff)
			}
			for name, value := range before.Annotations {
				if strings.HasPrefix(name, "cache.") && s.Annotations[name] != value {
					t.Errorf("annotation %s changed from %q to %q", name, value, s.Annotations[name])
				}
			}
			w.UsersAre(w.Kafka)
			w.UsersAre(cache, users...)
		})
	}
}

func valkeyKeys(s *corev1.Secret, instance string) map[string]string {
	keys := map[string]string{}
	for k, v := range s.Data {
		if strings.HasSuffix(k, "_"+instance) {
			keys[k] = string(v)
		}
	}
	return keys
}
