//go:build k8srequired

package provision

import (
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// prompt is the time within which a watched change has to take effect, on a machine that may be busy; polling would take minutes.
const prompt = 30 * time.Second

// An application waits for its instance without a complaint, and goes on when the instance's object says that it runs.
func TestInstanceStartsLater(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	kinds := map[binding.Kind]v1.AivenApplicationSpec{
		binding.OpenSearch: {OpenSearch: &v1.OpenSearch{Instance: "late", SecretName: "opensearch"}},
		binding.Valkey:     {Valkey: []v1.Valkey{{Instance: "late", SecretName: "valkey"}}},
	}
	for kind, spec := range kinds {
		w.Apply(string(kind), spec)
	}
	for kind := range kinds {
		w.NotReady(string(kind), "InstanceNotFound")
		w.Sim.ResetCounters()
		full := string(kind) + "-" + w.Namespace + "-late"
		w.State(kind, full, "REBUILDING")
		app := w.NotReady(string(kind), "WaitingForService")
		for _, c := range app.Status.Conditions {
			if c.Type == v1.ConditionAivenFailure || c.Type == v1.ConditionLocalFailure {
				t.Errorf("%s: waiting shows as a failure: %+v", kind, c)
			}
		}
		service := w.Sim.Project(world.Main).AddService(full, aivensim.ServiceConfig{Type: aivensim.ServiceType(kind)})
		if n := w.Sim.Counters().Writes; n > 0 {
			t.Errorf("%s: %d writes to Aiven for an instance that does not run", kind, n)
		}
		start := time.Now()
		w.State(kind, full, "RUNNING")
		w.Ready(string(kind))
		if d := time.Since(start); d > prompt {
			t.Errorf("%s: ready %s after the instance began to run", kind, d)
		}
		expectLogin(t, w, w.Secret(string(kind)))
		only(t, service)
	}
}

// The object of an instance may say that it runs before the service does, and a service may have no address for a while.
func TestServiceStartsLater(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{State: aivensim.Rebuilding})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Valkey: []v1.Valkey{{Instance: "cache", SecretName: "creds"}}})
	w.NotReady("cart", "WaitingForService")
	if names := world.Users(cache); len(names) > 0 {
		t.Errorf("there are users: %q", names)
	}
	addresses := cache.Components()
	cache.SetComponents(nil)
	cache.SetState(aivensim.Running)
	w.NotReady("cart", "WaitingForService")
	cache.SetComponents(addresses)
	start := time.Now()
	w.Ready("cart")
	if d := time.Since(start); d > prompt {
		t.Errorf("ready %s after the service had addresses", d)
	}
	expectLogin(t, w, w.Secret("creds"))
}

// A service that rebalances works. One that somebody switched off does not, which is nobody's failure.
func TestServiceThatRebalancesOrIsOff(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{State: aivensim.Rebalancing})
	w.Kafka.SetState(aivensim.PowerOff)
	w.Start("--resync=24h")
	w.Apply("off", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "off"}})
	app := w.NotReady("off", "ServicePoweredOff")
	for _, c := range app.Status.Conditions {
		if c.Type == v1.ConditionAivenFailure || c.Type == v1.ConditionLocalFailure {
			t.Errorf("a service that is off shows as a failure: %+v", c)
		}
	}
	w.Apply("cart", v1.AivenApplicationSpec{Valkey: []v1.Valkey{{Instance: "cache", SecretName: "creds"}}})
	w.Ready("cart")
	expectLogin(t, w, w.Secret("creds"))
	only(t, cache)
	if n := w.Sim.Counters().PoweredOff; n > 0 {
		t.Errorf("%d attempts on a service that is off", n)
	}
	if n := w.Metric("operatorkit_controller_errors_total"); n != 0 {
		t.Errorf("%v failures were counted, want none", n)
	}
	w.NoErrorLogged()
}
