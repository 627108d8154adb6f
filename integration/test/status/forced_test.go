//go:build k8srequired

package status

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// rehash writes a synchronisation hash, as a person does, and waits until the operator has set its own again. A service is read again if what is known of it
// is more than three seconds old, which is why passes are awaited before.
func rehash(w *world.World, hash string) {
	w.Passes(3)
	app := w.App("cart")
	own := app.Status.SynchronizationHash
	w.Eventually(func(ctx context.Context) error {
		patch := fmt.Sprintf(`{"status":{"synchronizationHash":%q}}`, hash)
		return w.Status().Patch(ctx, app, client.RawPatch("application/merge-patch+json", []byte(patch)))
	})
	w.Eventually(func(context.Context) error {
		if is := w.App("cart").Status.SynchronizationHash; is != own {
			return fmt.Errorf("the synchronisation hash is %q, and not %q again", is, own)
		}
		return nil
	})
}

// Whoever empties the hash, or leaves that of the earlier operator, gets everything checked and nothing replaced.
func TestForcedSynchronisation(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=1s")
	w.Apply("cart", kafka(world.Pool))
	before := w.Ready("cart")
	s := w.Secret("creds")
	w.Sim.ResetCounters()

	rehash(w, "")
	if n := w.Sim.Counters().Requests[aivensim.ServiceGet]; n != 1 {
		t.Errorf("the service was read %d times, want once", n)
	}
	rehash(w, "8f7a9c6d01020304")
	w.Passes(1)
	if n := w.Sim.Counters().Writes; n > 0 {
		t.Errorf("%d writes to Aiven: %v", n, w.Sim.Counters().Requests)
	}
	if now := w.Secret("creds"); now.ResourceVersion != s.ResourceVersion {
		t.Errorf("the Secret was written (-before +after):\n%s", cmp.Diff(s.ObjectMeta, now.ObjectMeta))
	}
	if diff := cmp.Diff(before.Status.Bindings, w.App("cart").Status.Bindings); diff != "" {
		t.Errorf("bindings (-before +after):\n%s", diff)
	}
}

// A drift that nobody else sees until the snapshots are old is found by a forced synchronisation.
func TestForcedSynchronisationFindsDrift(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=1s")
	w.Apply("cart", kafka(world.Pool))
	user := w.Ready("cart").Status.Bindings[0].Username
	w.Kafka.SetPassword(user, "another password 1")
	rehash(w, "")
	if got := string(w.Secret("creds").Data["KAFKA_SCHEMA_REGISTRY_PASSWORD"]); got != "another password 1" {
		t.Error("the Secret has the former password")
	}
	w.Login(world.Pool, w.Kafka, user, string(w.Secret("creds").Data["KAFKA_SCHEMA_REGISTRY_PASSWORD"]))
}

// A Secret that is missing is made, whatever the hash says.
func TestSecretMissingAlthoughHashMatches(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", kafka(world.Pool))
	w.Ready("cart")
	s := w.Secret("creds")
	w.Stop()
	w.Merge(s, `{"metadata":{"finalizers":null}}`)
	w.Remove(s)
	w.Gone(&corev1.Secret{}, "creds")

	w.Start()
	again := w.Replaced(s)
	user := string(again.Data["KAFKA_SCHEMA_REGISTRY_USER"])
	w.Login(world.Pool, w.Kafka, user, string(again.Data["KAFKA_SCHEMA_REGISTRY_PASSWORD"]))
	w.UsersAre(w.Kafka, user)
	w.Eventually(func(context.Context) error {
		if diff := cmp.Diff([]v1.Binding{{
			Kind: "kafka", Project: world.Pool, Service: w.Kafka.Name(), SecretName: "creds", Username: user, State: "Ready",
			Attempt: w.App("cart").Status.Bindings[0].Attempt,
		}}, w.App("cart").Status.Bindings); diff != "" {
			return fmt.Errorf("bindings (-want +got):\n%s", diff)
		}
		return nil
	})
}
