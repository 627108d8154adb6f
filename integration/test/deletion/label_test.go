//go:build k8srequired

package deletion

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// A Secret without its labels is not among those that are watched. Its application brings it back, so that the finalizer does not hold it for
// ever.
func TestASecretThatLostItsLabelsStillGoes(t *testing.T) {
	tests := map[string]struct {
		remove func(w *world.World) // while the operator is off
		want   int                  // users afterwards
	}{
		"it was deleted by hand": {
			remove: func(w *world.World) { w.Remove(w.Secret("creds")) },
			want:   1, // the application asks for another
		},
		"its application was deleted": {remove: func(w *world.World) { w.Remove(w.App("cart")) }},
		"both were deleted":           {remove: func(w *world.World) { w.Remove(w.App("cart")); w.Remove(w.Secret("creds")) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Start()
			w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
			w.Ready("cart")
			first := w.Secret("creds")
			w.Stop()
			w.ChangeSecret("creds", func(s *corev1.Secret) { s.Labels = nil })
			tt.remove(w)
			w.Start()
			w.Eventually(func(ctx context.Context) error {
				var list corev1.SecretList
				if err := w.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
					return err
				}
				for _, s := range list.Items {
					if s.UID == first.UID {
						return fmt.Errorf("the Secret is still there, with finalizers %v", s.Finalizers)
					}
				}
				if users := world.Users(w.Kafka); len(users) != tt.want {
					return fmt.Errorf("got users %v, want %d", users, tt.want)
				}
				return nil
			})
		})
	}
}
