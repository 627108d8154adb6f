package world

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// updated is when the Secrets of an Estate last changed.
const updated = "2024-05-06T07:08:09Z"

// Estate is what the earlier operator left behind: applications that have a Secret, with users on a service of each kind.
type Estate struct {
	*World
	Search, Cache *aivensim.Service
}

// Inherit makes a world with an estate that is still empty. Its instances are logs and cache.
func Inherit(t testing.TB) *Estate {
	w := New(t)
	return &Estate{
		World:  w,
		Search: w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{}), Cache: w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{}),
	}
}

// Services are those of the estate.
func (e *Estate) Services() []*aivensim.Service {
	return []*aivensim.Service{e.Kafka, e.Search, e.Cache}
}

// address is where a component of a service is reached.
func address(s *aivensim.Service, component string) aivensim.Component {
	components := s.Components()
	return components[slices.IndexFunc(components, func(c aivensim.Component) bool {
		return c.Component == component && c.Usage == "primary" && c.Route == "dynamic"
	})]
}

// Add makes an application with its three users and its Secret, both of that name, as the earlier operator has done at generation 5 and kept
// until generation 7. Its status is empty. Names differ in their last three characters.
func (e *Estate) Add(name string) {
	t := e.t
	t.Helper()
	data := map[string]string{key.AivenCA: e.Sim.Project(Main).CA(), key.SecretUpdated: updated, key.KafkaSecretUpdated: updated}

	base := key.Identity{Namespace: e.Namespace, Application: name}.Kafka()
	kafka := e.Kafka.AddUser(aivensim.User{Username: base[:len(base)-3] + "A-5"})
	broker, registry := address(e.Kafka, "kafka"), address(e.Kafka, "schema_registry")
	ca := e.Sim.Project(Pool).CA()
	maps.Copy(data, map[string]string{
		key.KafkaBrokers: fmt.Sprintf("%s:%d", broker.Host, broker.Port), key.KafkaSchemaRegistry: fmt.Sprintf("https://%s:%d", registry.Host, registry.Port),
		key.KafkaSchemaRegistryUser: kafka.Username, key.KafkaSchemaRegistryPassword: kafka.Password,
		key.KafkaCertificate: kafka.AccessCert, key.KafkaPrivateKey: kafka.AccessKey, key.KafkaCA: ca, key.KafkaCredStorePassword: "changeme",
	})
	pair, err := credstore.ParsePair(kafka.AccessCert, kafka.AccessKey)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := credstore.ParseCA(ca)
	if err != nil {
		t.Fatal(err)
	}
	keyStore, err := credstore.Legacy.KeyStore(pair, bundle, "changeme")
	if err != nil {
		t.Fatal(err)
	}
	trustStore, err := credstore.Legacy.TrustStore(bundle, "changeme")
	if err != nil {
		t.Fatal(err)
	}
	data[key.KafkaKeyStore], data[key.KafkaTrustStore] = string(keyStore), string(trustStore)

	// The suffix is a checksum that the name of the application is part of; any one will do.
	search := e.Search.AddUser(aivensim.User{Username: e.Namespace + "-r-" + name[len(name)-3:]})
	acl := e.Search.OpenSearchACLs()
	acl.Enabled = true
	acl.ACLs = append(acl.ACLs, aivensim.OpenSearchACL{Username: search.Username, Rules: []aivensim.OpenSearchRule{
		{Index: "_*", Permission: "read"}, {Index: "*", Permission: "read"},
	}})
	e.Search.SetOpenSearchACLs(acl)
	node, dashboards := address(e.Search, "opensearch"), address(e.Search, "opensearch_dashboards")
	maps.Copy(data, map[string]string{
		key.OpenSearchUsername: search.Username, key.OpenSearchPassword: search.Password,
		key.OpenSearchURI: fmt.Sprintf("https://%s:%d", node.Host, node.Port), key.OpenSearchHost: node.Host, key.OpenSearchPort: strconv.Itoa(node.Port),
		key.OpenSearchDashboardURI:  fmt.Sprintf("https://%s:%d", dashboards.Host, dashboards.Port),
		key.OpenSearchDashboardHost: dashboards.Host, key.OpenSearchDashboardPort: strconv.Itoa(dashboards.Port),
	})

	cache := e.Cache.AddUser(aivensim.User{Username: name + "-rw-z_5", AccessControl: aivensim.AccessControl{
		Categories: []string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction", "+@write", "+@read"},
		Commands:   []string{"+info", "+cluster|slots"}, Keys: []string{"*"}, Channels: []string{"*"},
	}})
	primary := address(e.Cache, "valkey")
	for prefix, scheme := range map[string]string{"VALKEY_": "valkeys", "REDIS_": "rediss"} {
		maps.Copy(data, map[string]string{
			prefix + "USERNAME_CACHE": cache.Username, prefix + "PASSWORD_CACHE": cache.Password,
			prefix + "URI_CACHE":  fmt.Sprintf("%s://%s:%d", scheme, primary.Host, primary.Port),
			prefix + "HOST_CACHE": primary.Host, prefix + "PORT_CACHE": strconv.Itoa(primary.Port),
		})
	}

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: name, Finalizers: []string{key.FinalizerAivenator},
			Labels: map[string]string{
				key.LabelApp: name, key.LabelTeam: e.Namespace, key.LabelType: key.TypeAivenator, key.LabelGeneration: "7", key.Protected: "false",
			},
			Annotations: map[string]string{
				key.Protected: "false", key.AnnotationCorrelationID: "id",
				key.AnnotationKafkaUser: kafka.Username, key.AnnotationKafkaPool: Pool,
				key.AnnotationOpenSearchUser: search.Username, key.AnnotationOpenSearchService: e.Search.Name(), key.AnnotationOpenSearchProject: Main,
				key.ValkeyUser("cache"): cache.Username, key.ValkeyService("cache"): e.Cache.Name(), key.AnnotationValkeyProject: Main,
			},
		},
		Data: map[string][]byte{},
	}
	for k, v := range data {
		secret.Data[k] = []byte(v)
	}
	e.Make(secret)
	e.Make(&v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: name, Finalizers: []string{key.FinalizerAivenator},
			Labels: map[string]string{key.LabelGeneration: "7"}, Annotations: map[string]string{key.AnnotationCorrelationID: "id"},
		},
		Spec: v1.AivenApplicationSpec{
			SecretName: name, Kafka: &v1.Kafka{Pool: Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"},
			Valkey: []v1.Valkey{{Instance: "cache", Access: v1.AccessReadWrite}},
		},
	})
}
