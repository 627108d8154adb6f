//go:build k8srequired

package provision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// A pass without a change writes nothing, be it the second or the first after a restart: neither to Aiven nor to the cluster.
func TestNothingIsDoneTwice(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{Replica: true})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds",
		Kafka:      &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}},
		OpenSearch: &v1.OpenSearch{Instance: "logs", Access: v1.AccessAdmin},
		Valkey:     []v1.Valkey{{Instance: "cache", Access: v1.AccessReadWrite, SecretName: "valkey"}},
	})
	before := w.Ready("cart")
	secrets := map[string]*corev1.Secret{"creds": w.Secret("creds"), "valkey": w.Secret("valkey")}
	w.Stop()
	w.Sim.ResetCounters()

	// The pass that follows the application's own writes may have been cut short by the end of the process, so this is about more than restarts.
	for _, run := range []string{"first restart", "second restart"} {
		w.Start("--resync=1s")
		w.Passes(5)
		if diff := cmp.Diff(before, w.App("cart")); diff != "" {
			t.Errorf("%s: the application (-before +after):\n%s", run, diff)
		}
		for name, s := range secrets {
			if now := w.Secret(name); now.ResourceVersion != s.ResourceVersion {
				t.Errorf("%s: Secret %s was written:\n%s", run, name, cmp.Diff(s.ObjectMeta, now.ObjectMeta))
			}
		}
		if n := w.Sim.Counters().Writes; n > 0 {
			t.Errorf("%s: %d writes to Aiven: %v", run, n, w.Sim.Counters().Requests)
		}
		// One read of each service and CA; what a pass needs is in the snapshots.
		if n := w.Sim.Counters().Total(); n > 10 {
			t.Errorf("%s: %d requests to Aiven: %v", run, n, w.Sim.Counters().Requests)
		}
		w.Sim.ResetCounters()
		w.Stop()
	}
}
