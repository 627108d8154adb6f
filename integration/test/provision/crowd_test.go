//go:build k8srequired

package provision

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// Fifty applications at once, by ten workers of an operator with the race detector: each gets users of its own, another process finds all that in order at
// the price of a few reads, whatever their number, and all of them go again.
func TestACrowd(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	search := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{UserLimit: -1})
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	kafka := w.Sim.Project(world.Pool).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, UserLimit: -1})
	w.Start("--workers=10")
	const n = 50
	name := func(i int) string { return fmt.Sprintf("app-%02d", i) }
	for i := range n {
		w.Apply(name(i), v1.AivenApplicationSpec{
			SecretName: name(i),
			Kafka:      &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders"}}},
			OpenSearch: &v1.OpenSearch{Instance: "logs"},
			Valkey:     []v1.Valkey{{Instance: "cache"}},
		})
	}
	for i := range n {
		w.Ready(name(i))
	}
	services := map[string]*aivensim.Service{"Kafka": kafka, "OpenSearch": search, "Valkey": cache}
	for what, s := range services {
		if users := world.Users(s); len(users) != n {
			t.Errorf("%s: got %d users, want %d", what, len(users), n)
		}
	}
	if got := len(search.OpenSearchACLs().ACLs); got != n {
		t.Errorf("got %d entries in the ACL document, want %d", got, n)
	}

	w.Stop()
	w.Sim.ResetCounters()
	w.Start("--workers=10", "--resync=24h")
	w.Eventually(func(ctx context.Context) error {
		passes, err := w.Operator.Metric(ctx, "aivenator_aiven_applications_processed")
		if err == nil && passes < n {
			err = fmt.Errorf("%v passes over %d applications", passes, n)
		}
		return err
	})
	for i := range n {
		w.Ready(name(i))
	}
	after := w.Sim.Counters()
	if after.Writes > 0 {
		t.Errorf("%d writes to Aiven after a restart: %v", after.Writes, after.Requests)
	}
	if reads, most := after.Total(), 5*len(services); reads > most {
		t.Errorf("%d reads of %d services after a restart, want at most %d: %v", reads, len(services), most, after.Requests)
	}
	w.Apply("late", v1.AivenApplicationSpec{SecretName: "late", Kafka: &v1.Kafka{Pool: world.Pool}})
	w.Ready("late")

	if err := w.DeleteAllOf(t.Context(), &v1.AivenApplication{}, client.InNamespace(w.Namespace)); err != nil {
		t.Fatal(err)
	}
	w.Eventually(func(ctx context.Context) error {
		var secrets corev1.SecretList
		if err := w.List(ctx, &secrets, client.InNamespace(w.Namespace)); err != nil {
			return err
		}
		left := len(secrets.Items)
		for _, s := range services {
			left += len(world.Users(s))
		}
		if left > 0 {
			return fmt.Errorf("%d Secrets and users are left", left)
		}
		return nil
	})
	if n := w.Metric("operatorkit_controller_errors_total"); n != 0 {
		t.Errorf("%v failures were counted, want none", n)
	}
	w.NoErrorLogged()
	w.Stop()
}
