//go:build k8srequired

package provision

import (
	"fmt"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// Applications that began together are not looked at together again: of all passes of some resyncs, the fullest five minutes have a small part.
func TestResyncsSpread(t *testing.T) {
	t.Parallel()
	w := world.NewTimed(t)
	w.Sim.Project(world.Pool).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, UserLimit: -1})
	w.Start("--resync=1h", "--snapshot-age=6h", "--janitor-period=24h")
	const n, passes, step, rounds = 60, "aivenator_aiven_applications_processed", 5 * time.Minute, 3
	for i := range n {
		name := fmt.Sprintf("app-%02d", i)
		w.Apply(name, v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: name}})
	}
	w.Settle()
	first := w.Metric(passes)
	fullest, before := 0.0, first
	for range int(rounds * time.Hour / step) {
		w.Advance(step)
		now := w.Metric(passes)
		fullest, before = max(fullest, now-before), now
	}
	all := before - first
	if least := float64(n * (rounds - 1)); all < least {
		t.Errorf("%v passes in %d hours, want at least %v", all, rounds, least)
	}
	// Spread by a fifth to both sides, five minutes have a fifth of a round; together, they would have all of it.
	if most := all / rounds / 2; fullest > most {
		t.Errorf("%v of %v passes came within %s, want at most %v", fullest, all, step, most)
	}
}
