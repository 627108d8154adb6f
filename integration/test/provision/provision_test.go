//go:build k8srequired

// Package provision shows that applications get working credentials for what they ask for.
package provision

import (
	"testing"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

func TestMain(m *testing.M) { world.Run(m) }

func TestEverythingInOneSecret(t *testing.T) {
	w := world.New(t)
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds",
		Kafka:      &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}},
		OpenSearch: &v1.OpenSearch{Instance: "logs"},
		Valkey:     []v1.Valkey{{Instance: "cache", Access: v1.AccessWrite}},
	})
	w.Ready("cart")
	s := w.Secret("creds")
	for k := range s.Data {
		t.Log(k)
	}
}
