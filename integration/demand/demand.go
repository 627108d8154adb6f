// Package demand says once more, in the simplest words, what the operator promises about the services that an application asks for. It shares nothing with
// the operator's own code, so that the two cannot be wrong in the same way.
package demand

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// Bound is what an application asks for of one service.
type Bound struct {
	Kind             aivensim.ServiceType
	Project, Service string
	Instance         string // of Valkey: cache or my-store
	Secret           string
	Access           v1.Access
	Topics           []v1.KafkaACL // nil: not the operator's affair
}

// Bindings are what an application of a namespace asks for. Of the projects, main holds all but Kafka, whose service is called kafka in the project pool and
// <project>-kafka in all others.
func Bindings(main, pool, namespace string, s v1.AivenApplicationSpec) []Bound {
	var out []Bound
	if k := s.Kafka; k != nil {
		service := "kafka"
		if k.Pool != pool {
			service = k.Pool + "-kafka"
		}
		out = append(out, Bound{
			Kind: aivensim.Kafka, Project: k.Pool, Service: service, Secret: cmp.Or(k.SecretName, s.SecretName), Topics: k.ACL,
		})
	}
	if o := s.OpenSearch; o != nil {
		out = append(out, Bound{
			Kind: aivensim.OpenSearch, Project: main, Service: "opensearch-" + namespace + "-" + o.Instance,
			Secret: cmp.Or(o.SecretName, s.SecretName), Access: cmp.Or(o.Access, v1.AccessRead),
		})
	}
	for _, v := range s.Valkey {
		out = append(out, Bound{
			Kind: aivensim.Valkey, Project: main, Service: "valkey-" + namespace + "-" + v.Instance, Instance: v.Instance,
			Secret: cmp.Or(v.SecretName, s.SecretName), Access: cmp.Or(v.Access, v1.AccessRead),
		})
	}
	return out
}

// Variables are the names of Valkey instances in the keys of a Secret.
var Variables = map[string]string{"cache": "CACHE", "my-store": "MY_STORE"}

// Keys are those that a Secret has for a binding: of the user's name, of its password, and all.
func (b Bound) Keys() (username, password string, all []string) {
	switch b.Kind {
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
			all = append(all, first+field+Variables[b.Instance])
		}
	}
	return "VALKEY_USERNAME_" + Variables[b.Instance], "VALKEY_PASSWORD_" + Variables[b.Instance], all
}

// Names are the keys of all Secrets that hold the name of a user, by the type of its service.
var Names = map[aivensim.ServiceType][]string{
	aivensim.Kafka:      {"KAFKA_SCHEMA_REGISTRY_USER"},
	aivensim.OpenSearch: {"OPEN_SEARCH_USERNAME"},
	aivensim.Valkey:     {"VALKEY_USERNAME_CACHE", "VALKEY_USERNAME_MY_STORE"},
}

// Categories are the Valkey categories of an access level, in no order.
func Categories(access v1.Access) []string {
	own := map[v1.Access][]string{
		v1.AccessRead: {"+@read"}, v1.AccessWrite: {"+@write"}, v1.AccessReadWrite: {"+@write", "+@read"},
		v1.AccessAdmin: {"+@admin", "+@write", "+@read"},
	}[access]
	return slices.Sorted(slices.Values(append([]string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction"}, own...)))
}

// Rights tells what is wrong with the rights that a user has on the service, nil if they are those that were asked for.
func (b Bound) Rights(service *aivensim.Service, username string) []string {
	var wrong []string
	differ := func(what string, got, want []string) {
		if !slices.Equal(want, got) {
			wrong = append(wrong, fmt.Sprintf("%s %q, want %q", what, got, want))
		}
	}
	switch b.Kind {
	case aivensim.Kafka:
		var want, got []string
		for _, t := range b.Topics {
			want = append(want, t.Topic+" "+string(cmp.Or(t.Access, v1.AccessRead)))
		}
		for _, e := range service.KafkaACLs() {
			if e.Username == username {
				got = append(got, e.Topic+" "+e.Permission)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if b.Topics != nil {
			differ("topics", got, want)
		}
	case aivensim.OpenSearch:
		doc := service.OpenSearchACLs()
		var got []string
		for _, e := range doc.ACLs {
			for _, r := range e.Rules {
				if e.Username == username {
					got = append(got, r.Index+" "+r.Permission)
				}
			}
		}
		slices.Sort(got)
		differ("indexes", got, []string{"* " + string(b.Access), "_* " + string(b.Access)})
		if !doc.Enabled {
			wrong = append(wrong, "no access control: it is off")
		}
	case aivensim.Valkey:
		user, _ := service.User(username)
		a := user.AccessControl
		got := aivensim.AccessControl{
			Categories: slices.Sorted(slices.Values(a.Categories)), Commands: a.Commands, Keys: a.Keys, Channels: a.Channels, Databases: a.Databases,
		}
		want := aivensim.AccessControl{
			Categories: Categories(b.Access), Commands: []string{"+info", "+cluster|slots"}, Keys: []string{"*"}, Channels: []string{"*"},
		}
		if !reflect.DeepEqual(want, got) {
			wrong = append(wrong, fmt.Sprintf("access control %v, want %v", got, want))
		}
	}
	return wrong
}
