//go:build k8srequired

// Package year shows, in the time that a test may take, that no client is refused but as announced while users are rotated, certificates renewed and CAs
// rotated, the operator is killed in the middle of a rotation and then away for longer than the interval. "make year" does so for longer.
package year

import (
	"os"
	"testing"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/integration/year"
)

func TestMain(m *testing.M) { world.Run(m) }

func TestNoClientIsRefusedButAsAnnounced(t *testing.T) {
	t.Parallel()
	env.Config(t) // says what to do where there is no cluster
	report, err := year.Run(t.Context(), year.Config{
		Seed: 1, Weeks: 6, Applications: 8, Outages: 1, Restarts: 1, Kubeconfig: os.Getenv(env.Kubeconfig), Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report.Print())
	if len(report.Violations) > 0 {
		t.Errorf("%d violations", len(report.Violations))
	}
	c := report.Counts
	for what, n := range map[string]int{
		"rotation": c.Rotations, "renewal": c.Renewals, "login refused as announced": c.Refused, "outage": c.Outages, "restart": c.Restarts,
	} {
		if n == 0 {
			t.Errorf("there was no %s", what)
		}
	}
}
