//go:build k8srequired

// Package chaos shows, in the time that a test may take, that no credential is lost or leaked whatever goes wrong: applications, Secrets, workloads and
// namespaces come and go at random while Aiven and the way to the API server fail and the operator is killed. "make chaos" does so for longer.
package chaos

import (
	"os"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/integration/chaos"
	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
)

func TestMain(m *testing.M) { world.Run(m) }

func TestChaos(t *testing.T) {
	tests := map[string]chaos.Config{
		"it loses and leaks nothing where one operator is killed again and again": {Seed: 1, Replicas: 1},
		"it loses and leaks nothing where two replicas contend for the lease":     {Seed: 2, Replicas: 2},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Config(t) // says what to do where there is no cluster
			config.Duration, config.Pause, config.Patience = 40*time.Second, 500*time.Millisecond, 3*time.Minute
			config.Namespaces, config.Applications = 2, 4
			config.Binary, config.Kubeconfig, config.Log = world.Binary(t), os.Getenv(env.Kubeconfig), t.Logf
			report, err := chaos.Run(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(report.Print())
			if len(report.Violations) > 0 {
				t.Errorf("%d violations", len(report.Violations))
			}
		})
	}
}
