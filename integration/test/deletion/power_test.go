//go:build k8srequired

package deletion

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// A service that is switched off keeps its users, so that the Secret has to wait for it. That may take weeks, and is nobody's failure.
func TestADeletionWaitsForServicesThatAreOff(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	published(w)
	var services []*aivensim.Service
	for _, p := range w.Sim.Projects() {
		services = append(services, p.Services()...)
	}
	for _, s := range services {
		s.SetState(aivensim.PowerOff)
	}
	w.Sim.ResetCounters()
	w.Remove(w.Secret("creds"))
	w.Event("creds", "Warning CleanupFailed credentials cannot be taken back yet: ")
	if n := w.Sim.Counters().PoweredOff; n != len(services) {
		t.Errorf("%d attempts on three services that are off, want one each", n)
	}
	if s := w.Secret("creds"); len(s.Finalizers) == 0 {
		t.Error("the Secret lost its finalizer")
	}
	if got := w.Metric(errorsOfSecrets); got != 0 {
		t.Errorf("errors: got %v, want none", got)
	}
	w.NoErrorLogged()

	for _, s := range services {
		s.SetState(aivensim.Running)
	}
	const soon = 60 * time.Second // half a minute, and what a slow machine takes
	env.Eventually(t, soon, func(ctx context.Context) error {
		if err := w.Get(ctx, w.Key("creds"), &corev1.Secret{}); err == nil {
			return fmt.Errorf("the Secret is still there")
		}
		return nil
	})
	for _, s := range services {
		w.UsersAre(s)
	}
}
