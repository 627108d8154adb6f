//go:build k8srequired

package ownership

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
)

const updated = "2024-05-06T07:08:09Z"

// earlier is what the earlier operator left behind: applications that have a Secret, with users on a service of each kind.
type earlier struct {
	*world.World
	search, cache *aivensim.Service
}

// address is where a component of a service is reached.
func address(s *aivensim.Service, component string) aivensim.Component {
	components := s.Components()
	return components[slices.IndexFunc(components, func(c aivensim.Component) bool {
		return c.Component == component && c.Usage == "primary" && c.Route == "dynamic"
	})]
}

// add makes an application with the three users and the Secret, as the earlier operator has done at generation 5 and kept until generation 7.
func (e *earlier) add(t *testing.T, name string) {
	t.Helper()
	data := map[string]string{key.AivenCA: e.Sim.Project(world.Main).CA(), key.SecretUpdated: updated, key.KafkaSecretUpdated: updated}

	base := key.Identity{Namespace: e.Namespace, Application: name}.Kafka()
	kafka := e.Kafka.AddUser(aivensim.User{Username: base[:len(base)-3] + "A-5"})
	broker, registry := address(e.Kafka, "kafka"), address(e.Kafka, "schema_registry")
	ca := e.Sim.Project(world.Pool).CA()
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
	search := e.search.AddUser(aivensim.User{Username: e.Namespace + "-r-" + name[len(name)-2:] + "_"})
	acl := e.search.OpenSearchACLs()
	acl.Enabled = true
	acl.ACLs = append(acl.ACLs, aivensim.OpenSearchACL{Username: search.Username, Rules: []aivensim.OpenSearchRule{
		{Index: "_*", Permission: "read"}, {Index: "*", Permission: "read"},
	}})
	e.search.SetOpenSearchACLs(acl)
	node, dashboards := address(e.search, "opensearch"), address(e.search, "opensearch_dashboards")
	maps.Copy(data, map[string]string{
		key.OpenSearchUsername: search.Username, key.OpenSearchPassword: search.Password,
		key.OpenSearchURI: fmt.Sprintf("https://%s:%d", node.Host, node.Port), key.OpenSearchHost: node.Host, key.OpenSearchPort: strconv.Itoa(node.Port),
		key.OpenSearchDashboardURI:  fmt.Sprintf("https://%s:%d", dashboards.Host, dashboards.Port),
		key.OpenSearchDashboardHost: dashboards.Host, key.OpenSearchDashboardPort: strconv.Itoa(dashboards.Port),
	})

	cache := e.cache.AddUser(aivensim.User{Username: name + "-rw-z_5", AccessControl: aivensim.AccessControl{
		Categories: []string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction", "+@write", "+@read"},
		Commands:   []string{"+info", "+cluster|slots"}, Keys: []string{"*"}, Channels: []string{"*"},
	}})
	primary := address(e.cache, "valkey")
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
				key.AnnotationKafkaUser: kafka.Username, key.AnnotationKafkaPool: world.Pool,
				key.AnnotationOpenSearchUser: search.Username, key.AnnotationOpenSearchService: e.search.Name(), key.AnnotationOpenSearchProject: world.Main,
				key.ValkeyUser("cache"): cache.Username, key.ValkeyService("cache"): e.cache.Name(), key.AnnotationValkeyProject: world.Main,
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
			SecretName: name, Kafka: &v1.Kafka{Pool: world.Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"},
			Valkey: []v1.Valkey{{Instance: "cache", Access: v1.AccessReadWrite}},
		},
	})
}

func inherit(t *testing.T) *earlier {
	w := world.New(t)
	return &earlier{
		World:  w,
		search: w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{}), cache: w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{}),
	}
}

func TestTakeOverChangesNothing(t *testing.T) {
	t.Parallel()
	e := inherit(t)
	before := map[string]*corev1.Secret{}
	for i := range 20 {
		name := fmt.Sprintf("app-%02d", i)
		e.add(t, name)
		before[name] = e.Secret(name)
	}
	e.Start()
	for name := range before {
		e.Ready(name)
		after := e.Secret(name)
		for k := range after.Data {
			if !bytes.Equal(before[name].Data[k], after.Data[k]) {
				t.Errorf("%s: %s changed", name, k)
			}
		}
		if len(after.Data) != len(before[name].Data) {
			t.Errorf("%s: keys %v, want %v", name, slices.Sorted(maps.Keys(after.Data)), slices.Sorted(maps.Keys(before[name].Data)))
		}
		for k, v := range before[name].Annotations {
			if after.Annotations[k] != v {
				t.Errorf("%s: annotation %s changed from %q to %q", name, k, v, after.Annotations[k])
			}
		}
		if diff := cmp.Diff(before[name].Labels, after.Labels); diff != "" {
			t.Errorf("%s: labels (-before +after):\n%s", name, diff)
		}
	}
	counters := e.Sim.Counters()
	if counters.Writes != 0 {
		t.Errorf("%d writes to Aiven, want none: %v", counters.Writes, counters.Requests)
	}
	if total := counters.Total(); total > 15 {
		t.Errorf("%d calls for 3 services and 2 projects: %v", total, counters.Requests)
	}

	// What was taken over can be given up.
	e.Remove(e.App("app-00"))
	e.Gone(&v1.AivenApplication{}, "app-00")
	e.Gone(&corev1.Secret{}, "app-00")
	for _, s := range []*aivensim.Service{e.Kafka, e.search, e.cache} {
		if n := len(world.Users(s)); n != 19 {
			t.Errorf("%s has %d users, want 19", s.Name(), n)
		}
	}
}

func TestForgedRecordIsRefused(t *testing.T) {
	tests := map[string]struct {
		forge func(w *world.World, annotations map[string]string)
		lost  bool // the status is lost too
	}{
		"the administrator": {forge: func(_ *world.World, a map[string]string) { a[key.AnnotationKafkaUser] = "avnadmin" }},
		"the administrator, with the status lost": {lost: true, forge: func(_ *world.World, a map[string]string) {
			a[key.AnnotationKafkaUser] = "avnadmin"
		}},
		"a user of another namespace": {forge: func(_ *world.World, a map[string]string) { a[key.AnnotationKafkaUser] = victim() }},
		"a user of another namespace, with the status lost": {lost: true, forge: func(_ *world.World, a map[string]string) {
			a[key.AnnotationKafkaUser] = victim()
		}},
		"another project":                       {forge: func(_ *world.World, a map[string]string) { a[key.AnnotationKafkaPool] = "secret" }},
		"another project, with the status lost": {lost: true, forge: func(_ *world.World, a map[string]string) { a[key.AnnotationKafkaPool] = "secret" }},
		"another service": {forge: func(_ *world.World, a map[string]string) {
			a[key.ValkeyService("cache")] = "valkey-another-cache"
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
			foreign := w.Sim.Project(world.Main).AddService("valkey-another-cache", aivensim.ServiceConfig{Type: aivensim.Valkey})
			hidden := w.Sim.AddProject("secret").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
			w.Kafka.AddUser(aivensim.User{Username: victim()})
			w.Start()
			w.Apply("cart", v1.AivenApplicationSpec{
				SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, Valkey: []v1.Valkey{{Instance: "cache"}},
			})
			w.Ready("cart")
			before := w.Secret("creds")
			hidden.AddUser(aivensim.User{Username: before.Annotations[key.AnnotationKafkaUser]})
			foreign.AddUser(aivensim.User{Username: before.Annotations[key.ValkeyUser("cache")]})
			protected := map[*aivensim.Service][]aivensim.User{foreign: foreign.Users(), hidden: hidden.Users()}

			w.Stop()
			w.ChangeSecret("creds", func(s *corev1.Secret) { tc.forge(w, s.Annotations) })
			if tc.lost {
				app := w.App("cart")
				app.Status = v1.AivenApplicationStatus{}
				if err := w.Status().Update(t.Context(), app); err != nil {
					t.Fatal(err)
				}
			}
			w.Start()
			w.Event("cart", "Warning RecordRestored")
			w.Ready("cart")
			w.Eventually(func(context.Context) error {
				after := w.Secret("creds")
				if tc.lost { // another user was made
					before.Annotations[key.AnnotationKafkaUser] = after.Annotations[key.AnnotationKafkaUser]
				}
				for _, k := range []string{key.AnnotationKafkaUser, key.AnnotationKafkaPool, key.ValkeyUser("cache"), key.ValkeyService("cache")} {
					if after.Annotations[k] != before.Annotations[k] {
						return fmt.Errorf("annotation %s is %q, want %q", k, after.Annotations[k], before.Annotations[k])
					}
				}
				return nil
			})
			if user := logsIn(t, w, "creds"); user == "avnadmin" || user == victim() {
				t.Errorf("the credentials of %s were published", user)
			}

			w.Remove(w.App("cart"))
			w.Gone(&corev1.Secret{}, "creds")
			for _, name := range []string{"avnadmin", victim()} {
				if u, ok := w.Kafka.User(name); !ok || u.Generation != 1 {
					t.Errorf("user %s is gone or changed: %+v", name, u.Generation)
				}
			}
			for s, users := range protected {
				if diff := cmp.Diff(users, s.Users()); diff != "" {
					t.Errorf("users of another service (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// victim is a user of an application of the same name in another namespace.
func victim() string {
	return key.Identity{Cluster: "world", Namespace: "another", Application: "cart", Project: world.Pool, Service: "kafka"}.Kafka()
}
