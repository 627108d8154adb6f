//go:build k8srequired

// Package client shows that what is in a Secret works in the clients that applications use, against real servers: that it lets them do what
// their access level says, and nothing once it has been taken back.
package client

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
)

func TestMain(m *testing.M) { world.Run(m) }

// mount writes the keys of a Secret to files, as a volume of a Pod has them, and returns where they are.
func mount(t *testing.T, s *corev1.Secret) (path func(key string) string) {
	t.Helper()
	dir := t.TempDir()
	for k, v := range s.Data {
		if err := os.WriteFile(filepath.Join(dir, k), v, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(key string) string { return filepath.Join(dir, key) }
}
