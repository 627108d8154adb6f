//go:build k8srequired

package ownership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	framework "github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/service/controller"
)

func TestDeletedSecretIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=24h")
	w.Apply("cart", kafka("creds"))
	w.Ready("cart")
	before, user := w.Secret("creds"), logsIn(t, w, "creds")
	// Slow enough for the time between to be seen.
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Delay: 2 * time.Second})
	if err := w.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	w.NotReady("cart", binding.ReasonSecretDeleted)
	w.Ready("cart")
	if after := w.Secret("creds"); after.UID == before.UID {
		t.Fatal("the application is ready with the old Secret")
	}
	if logsIn(t, w, "creds") == user {
		t.Errorf("the new Secret has the revoked user %s", user)
	}
	keys := func(s *corev1.Secret) []string { return slices.Sorted(maps.Keys(s.Data)) }
	if diff := cmp.Diff(keys(before), keys(w.Secret("creds"))); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if users := world.Users(w.Kafka); len(users) != 1 {
		t.Errorf("users %v, want one", users)
	}
}

func TestImmutableSecret(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--snapshot-age=1s")
	w.Apply("cart", kafka("creds"))
	w.Ready("cart")
	user := logsIn(t, w, "creds")
	w.ChangeSecret("creds", func(s *corev1.Secret) { s.Immutable = new(true) })
	before := w.Secret("creds")

	w.Touch("cart", 3)
	w.Ready("cart")
	if diff := cmp.Diff(before, w.Secret("creds")); diff != "" {
		t.Errorf("the Secret changed without need (-before +after):\n%s", diff)
	}

	w.Kafka.SetAddress("moved.example.com", 4711)
	w.Eventually(func(context.Context) error {
		w.Touch("cart", 1)
		app := w.App("cart")
		if !slices.ContainsFunc(app.Status.Bindings, func(b v1.Binding) bool { return b.Reason == binding.ReasonSecretImmutable }) {
			return fmt.Errorf("bindings %+v, want reason %s", app.Status.Bindings, binding.ReasonSecretImmutable)
		}
		return nil
	})
	w.NotReady("cart", binding.ReasonSecretImmutable)
	if diff := cmp.Diff(before, w.Secret("creds")); diff != "" {
		t.Errorf("the immutable Secret changed (-before +after):\n%s", diff)
	}
	if logsIn(t, w, "creds") != user {
		t.Errorf("the user changed")
	}

	if err := w.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	w.Ready("cart")
	if s := w.Secret("creds"); s.Immutable != nil && *s.Immutable {
		t.Errorf("the Secret that was made again is immutable")
	}
	logsIn(t, w, "creds")
}

func TestCopiedSecretIsNobodys(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	other := env.Namespace(t, w.Client)
	w.Start("--namespaces=" + other)
	w.Apply("cart", kafka("creds"))
	w.Ready("cart")
	original, user := w.Secret("creds"), logsIn(t, w, "creds")
	copies := []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "copy"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "creds"}},
	}
	for _, c := range copies {
		c.Labels, c.Annotations, c.Finalizers, c.Data = original.Labels, original.Annotations, original.Finalizers, original.Data
		if err := w.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range copies {
		w.Eventually(func(ctx context.Context) error {
			if err := w.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
				return err
			}
			if slices.Contains(c.Finalizers, framework.Finalizer(controller.SecretName)) {
				return fmt.Errorf("copy %s has finalizers %v", client.ObjectKeyFromObject(c), c.Finalizers)
			}
			return nil
		})
	}
	// A Secret that nobody asks for shows that the janitor has been by.
	w.Apply("brief", kafka("brief"))
	w.Ready("brief")
	if err := w.Delete(t.Context(), w.App("brief")); err != nil {
		t.Fatal(err)
	}
	w.Gone(&corev1.Secret{}, "brief")
	for _, c := range copies {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Errorf("the janitor took a copy: %v", err)
		}
		if err := w.Delete(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	w.Gone(&corev1.Secret{}, "copy")
	if diff := cmp.Diff([]string{user}, world.Users(w.Kafka)); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	w.Touch("cart", 1)
	logsIn(t, w, "creds")
}
