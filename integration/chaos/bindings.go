package chaos

import (
	"cmp"
	"slices"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// What follows says once more, in the simplest words, what the operator promises. It shares nothing with the operator's own code, so that the
// two cannot be wrong in the same way.

// bound is what an application asks for of one service.
type bound struct {
	kind             aivensim.ServiceType
	project, service string
	instance         string // of Valkey
	secret           string
	access           v1.Access
	topics           []v1.KafkaACL // nil: not the operator's affair
}

// bindings are what an application of a namespace asks for.
func bindings(namespace string, s v1.AivenApplicationSpec) []bound {
	var out []bound
	if k := s.Kafka; k != nil {
		service := "kafka"
		if k.Pool != Pools[0] {
			service = k.Pool + "-kafka"
		}
		out = append(out, bound{
			kind: aivensim.Kafka, project: k.Pool, service: service, secret: cmp.Or(k.SecretName, s.SecretName), topics: k.ACL,
		})
	}
	if o := s.OpenSearch; o != nil {
		out = append(out, bound{
			kind: aivensim.OpenSearch, project: Main, service: "opensearch-" + namespace + "-" + o.Instance,
			secret: cmp.Or(o.SecretName, s.SecretName), access: cmp.Or(o.Access, v1.AccessRead),
		})
	}
	for _, v := range s.Valkey {
		out = append(out, bound{
			kind: aivensim.Valkey, project: Main, service: "valkey-" + namespace + "-" + v.Instance, instance: v.Instance,
			secret: cmp.Or(v.SecretName, s.SecretName), access: cmp.Or(v.Access, v1.AccessRead),
		})
	}
	return out
}

// variable is an instance's name in the keys of a Secret.
var variable = map[string]string{"cache": "CACHE", "my-store": "MY_STORE"}

// keys are those that a Secret has for a binding: of the user's name, of its password, and all.
func (b bound) keys() (username, password string, all []string) {
	switch b.kind {
	case aivensim.Kafka:
		return "KAFKA_SCHEMA_REGISTRY_USER", "KAFKA_SCHEMA_REGISTRY_PASSWORD", []string{
			"KAFKA_BROKERS", "KAFKA_SCHEMA_REGISTRY", "KAFKA_SCHEMA_REGISTRY_USER", "KAFKA_SCHEMA_REGISTRY_PASSWORD", "KAFKA_CERTIFICATE",
			"KAFKA_PRIVATE_KEY", "KAFKA_CA", "KAFKA_CREDSTORE_PASSWORD", "KAFKA_SECRET_UPDATED", "client.keystore.p12", "client.truststore.jks",
		}
	case aivensim.OpenSearch:
		return "OPEN_SEARCH_USERNAME", "OPEN_SEARCH_PASSWORD", []string{
			"OPEN_SEARCH_USERNAME", "OPEN_SEARCH_PASSWORD", "OPEN_SEARCH_URI", "OPEN_SEARCH_HOST", "OPEN_SEARCH_PORT",
			"OPEN_SEARCH_DASHBOARD_URI", "OPEN_SEARCH_DASHBOARD_HOST", "OPEN_SEARCH_DASHBOARD_PORT",
		}
	}
	for _, first := range []string{"VALKEY_", "REDIS_"} {
		for _, field := range []string{"USERNAME_", "PASSWORD_", "URI_", "HOST_", "PORT_"} {
			all = append(all, first+field+variable[b.instance])
		}
	}
	return "VALKEY_USERNAME_" + variable[b.instance], "VALKEY_PASSWORD_" + variable[b.instance], all
}

// names are the keys of all Secrets that hold the name of a user, by the type of its service.
var names = map[aivensim.ServiceType][]string{
	aivensim.Kafka:      {"KAFKA_SCHEMA_REGISTRY_USER"},
	aivensim.OpenSearch: {"OPEN_SEARCH_USERNAME"},
	aivensim.Valkey:     {"VALKEY_USERNAME_CACHE", "VALKEY_USERNAME_MY_STORE"},
}

// categories are the Valkey categories of an access level, in no order.
func categories(access v1.Access) []string {
	own := map[v1.Access][]string{
		v1.AccessRead: {"+@read"}, v1.AccessWrite: {"+@write"}, v1.AccessReadWrite: {"+@write", "+@read"},
		v1.AccessAdmin: {"+@admin", "+@write", "+@read"},
	}[access]
	return slices.Sorted(slices.Values(append([]string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction"}, own...)))
}
