//go:build k8srequired

package env

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestNamespace(t *testing.T) {
	c := Client(t, scheme.Scheme)
	names := map[string]bool{}
	for range 2 {
		t.Run("it is there for one test", func(t *testing.T) {
			name := Namespace(t, c)
			if names[name] {
				t.Errorf("namespace %s is not unique", name)
			}
			names[name] = true
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}); err != nil {
				t.Errorf("get namespace: %v", err)
			}
		})
	}
	for name := range names {
		Eventually(t, time.Minute, func(ctx context.Context) error {
			err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
			if err == nil {
				return fmt.Errorf("namespace %s is still there", name)
			}
			return client.IgnoreNotFound(err)
		})
	}
}
