//go:build k8srequired

// Package provision shows that applications get working credentials for what they ask for, that nothing is done a second time, and that an application
// waits for a service that is not there yet.
package provision

import (
	"maps"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

func TestMain(m *testing.M) { world.Run(m) }

func TestKafka(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "kafka-cart", ACL: []v1.KafkaACL{
		{Topic: "orders", Access: v1.AccessRead}, {Topic: "events-*", Access: v1.AccessReadWrite}, {Topic: "audit"},
	}}})
	app := w.Ready("cart")
	s := w.Secret("kafka-cart")
	user := only(t, w.Kafka)

	expectData(t, s, kafkaData(t, w, user))
	expectKafkaFiles(t, w, s, user)
	expectLogin(t, w, s)
	expectMetadata(t, w, s, "cart", map[string]string{
		"kafka.aiven.nais.io/serviceUser": user.Username, "kafka.aiven.nais.io/pool": world.Pool,
	})
	expectBindings(t, app, v1.Binding{
		Kind: "kafka", Project: world.Pool, Service: "kafka", SecretName: "kafka-cart", Username: user.Username, State: "Ready",
	})
	if form := `^[a-z0-9][-a-z0-9]{0,19}_cart_[0-9a-f]{8}_[a-z0-9]{3}$`; !regexp.MustCompile(form).MatchString(user.Username) {
		t.Errorf("the user's name %q is not of the form %s", user.Username, form)
	}
	want := []aivensim.KafkaACL{
		{Username: user.Username, Topic: "orders", Permission: "read"},
		{Username: user.Username, Topic: "events-*", Permission: "readwrite"},
		{Username: user.Username, Topic: "audit", Permission: "read"},
	}
	got := w.Kafka.KafkaACLs()[1:] // the first entry of a service is its own
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(aivensim.KafkaACL{}, "ID"), cmpopts.SortSlices(func(a, b aivensim.KafkaACL) bool { return a.Topic < b.Topic })); diff != "" {
		t.Errorf("topic rights (-want +got):\n%s", diff)
	}
}

// A pool's Kafka service may be named after the pool.
func TestKafkaNamedAfterItsPool(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	kafka := w.Sim.AddProject("other").AddService("other-kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
	w.Start("--projects=other")
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "other", SecretName: "creds"}})
	w.Ready("cart")
	s := w.Secret("creds")
	if diff := cmp.Diff(at(t, kafka, "kafka", "primary"), string(s.Data["KAFKA_BROKERS"])); diff != "" {
		t.Errorf("brokers (-want +got):\n%s", diff)
	}
	if _, ok := s.Data["KAFKA_SCHEMA_REGISTRY"]; ok {
		t.Error("the Secret names a schema registry, which the service has not")
	}
	w.Login("other", kafka, string(s.Data["KAFKA_SCHEMA_REGISTRY_USER"]), string(s.Data["KAFKA_SCHEMA_REGISTRY_PASSWORD"]))
	if diff := cmp.Diff(w.Sim.Project("other").CA(), string(s.Data["KAFKA_CA"])); diff != "" {
		t.Errorf("the CA is not that of the pool (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(w.Sim.Project(world.Main).CA(), string(s.Data["AIVEN_CA"])); diff != "" {
		t.Errorf("the CA is not that of the main project (-want +got):\n%s", diff)
	}
}

func TestOpenSearch(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "logs", Access: v1.AccessReadWrite, SecretName: "os-cart"}})
	app := w.Ready("cart")
	s := w.Secret("os-cart")
	user := only(t, logs)

	expectData(t, s, openSearchData(t, w, logs, user))
	expectLogin(t, w, s)
	expectMetadata(t, w, s, "cart", map[string]string{
		"opensearch.aiven.nais.io/serviceUser": user.Username, "opensearch.aiven.nais.io/serviceName": logs.Name(),
		"opensearch.aiven.nais.io/project": world.Main,
	})
	expectBindings(t, app, v1.Binding{
		Kind: "opensearch", Instance: "logs", Project: world.Main, Service: logs.Name(), SecretName: "os-cart", Username: user.Username, State: "Ready",
	})
	if form := "^" + w.Namespace + "-rw-[a-z0-9]{8}$"; !regexp.MustCompile(form).MatchString(user.Username) {
		t.Errorf("the user's name %q is not of the form %s", user.Username, form)
	}
	want := aivensim.OpenSearchACLConfig{Enabled: true, ACLs: []aivensim.OpenSearchACL{{
		Username: user.Username,
		Rules:    []aivensim.OpenSearchRule{{Index: "_*", Permission: "readwrite"}, {Index: "*", Permission: "readwrite"}},
	}}}
	if diff := cmp.Diff(want, logs.OpenSearchACLs()); diff != "" {
		t.Errorf("access control (-want +got):\n%s", diff)
	}
}

func TestValkey(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	sessions := w.Instance(binding.Valkey, "user-sessions.1", aivensim.ServiceConfig{Replica: true})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Valkey: []v1.Valkey{
		{Instance: "cache", Access: v1.AccessAdmin, SecretName: "valkey-cart"},
		{Instance: "user-sessions.1", Access: v1.AccessWrite, SecretName: "valkey-cart"},
	}})
	app := w.Ready("cart")
	s := w.Secret("valkey-cart")
	one, two := only(t, cache), only(t, sessions)

	expectData(t, s, valkeyData(t, w, cache, "CACHE", one), valkeyData(t, w, sessions, "USER_SESSIONS_1", two))
	expectLogin(t, w, s)
	expectMetadata(t, w, s, "cart", map[string]string{
		"valkey.aiven.nais.io/project":                     world.Main,
		"cache.valkey.aiven.nais.io/serviceUser":           one.Username,
		"cache.valkey.aiven.nais.io/serviceName":           cache.Name(),
		"user-sessions-1.valkey.aiven.nais.io/serviceUser": two.Username,
		"user-sessions-1.valkey.aiven.nais.io/serviceName": sessions.Name(),
	})
	expectBindings(t, app,
		v1.Binding{Kind: "valkey", Instance: "cache", Project: world.Main, Service: cache.Name(), SecretName: "valkey-cart", Username: one.Username, State: "Ready"},
		v1.Binding{Kind: "valkey", Instance: "user-sessions.1", Project: world.Main, Service: sessions.Name(), SecretName: "valkey-cart", Username: two.Username, State: "Ready"},
	)
	for _, name := range []struct{ user, form string }{
		{one.Username, "^cart-[a-z0-9]{8}$"}, {two.Username, "^cart-w-[a-z0-9]{8}$"},
	} {
		if !regexp.MustCompile(name.form).MatchString(name.user) {
			t.Errorf("the user's name %q is not of the form %s", name.user, name.form)
		}
	}
	rights := func(level ...string) aivensim.AccessControl {
		return aivensim.AccessControl{
			Categories: append([]string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction"}, level...),
			Commands:   []string{"+info", "+cluster|slots"}, Keys: []string{"*"}, Channels: []string{"*"},
		}
	}
	if diff := cmp.Diff(rights("+@admin", "+@write", "+@read"), one.AccessControl); diff != "" {
		t.Errorf("rights of admin (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rights("+@write"), two.AccessControl); diff != "" {
		t.Errorf("rights of write (-want +got):\n%s", diff)
	}
}

func TestOneSecretForAll(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds",
		Kafka:      &v1.Kafka{Pool: world.Pool},
		OpenSearch: &v1.OpenSearch{Instance: "logs"},
		Valkey:     []v1.Valkey{{Instance: "cache"}},
	})
	w.Ready("cart")
	s := w.Secret("creds")
	k, o, v := only(t, w.Kafka), only(t, logs), only(t, cache)
	expectData(t, s, kafkaData(t, w, k), openSearchData(t, w, logs, o), valkeyData(t, w, cache, "CACHE", v))
	expectKafkaFiles(t, w, s, k)
	expectLogin(t, w, s)
	expectMetadata(t, w, s, "cart", map[string]string{
		"kafka.aiven.nais.io/serviceUser": k.Username, "kafka.aiven.nais.io/pool": world.Pool,
		"opensearch.aiven.nais.io/serviceUser": o.Username, "opensearch.aiven.nais.io/serviceName": logs.Name(),
		"opensearch.aiven.nais.io/project":       world.Main,
		"valkey.aiven.nais.io/project":           world.Main,
		"cache.valkey.aiven.nais.io/serviceUser": v.Username, "cache.valkey.aiven.nais.io/serviceName": cache.Name(),
	})
}

func TestASecretForEach(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{NoDashboards: true})
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "rest",
		Kafka:      &v1.Kafka{Pool: world.Pool, SecretName: "one"},
		OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: "two.with.dots"},
		Valkey:     []v1.Valkey{{Instance: "cache"}},
	})
	w.Ready("cart")
	expectData(t, w.Secret("one"), kafkaData(t, w, only(t, w.Kafka)))
	expectData(t, w.Secret("two.with.dots"), openSearchData(t, w, logs, only(t, logs)))
	expectData(t, w.Secret("rest"), valkeyData(t, w, cache, "CACHE", only(t, cache)))
	for _, name := range []string{"one", "two.with.dots", "rest"} {
		expectLogin(t, w, w.Secret(name))
	}
}

// What the application contributes to the metadata of its Secret.
func TestMetadata(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	tests := map[string]struct {
		edit        func(*v1.AivenApplication)
		labels      map[string]string
		annotations map[string]string
	}{
		"copies-the-generation-label": {
			edit:   func(a *v1.AivenApplication) { a.Labels = map[string]string{"aiven.nais.io/secret-generation": "12"} },
			labels: map[string]string{"aiven.nais.io/secret-generation": "12"},
		},
		"ignores-a-generation-that-is-no-number": {
			edit: func(a *v1.AivenApplication) {
				a.Labels = map[string]string{"aiven.nais.io/secret-generation": "latest"}
			},
		},
		"copies-the-correlation-id-and-nothing-else": {
			edit: func(a *v1.AivenApplication) {
				a.Annotations = map[string]string{"nais.io/deploymentCorrelationID": "abc-123", "argocd.argoproj.io/tracking-id": "x"}
				a.Labels = map[string]string{"app.kubernetes.io/instance": "x"}
			},
			annotations: map[string]string{"nais.io/deploymentCorrelationID": "abc-123"},
		},
		"marks-a-protected-one": {
			edit:        func(a *v1.AivenApplication) { a.Spec.Protected = true },
			labels:      map[string]string{"aivenator.aiven.nais.io/protected": "true"},
			annotations: map[string]string{"aivenator.aiven.nais.io/protected": "true"},
		},
		"dates-a-protected-one-with-an-expiry": {
			edit:   func(a *v1.AivenApplication) { a.Spec.Protected, a.Spec.ExpiresAt = true, "2099-01-31T12:00:00+01:00" },
			labels: map[string]string{"aivenator.aiven.nais.io/protected": "true"},
			annotations: map[string]string{
				"aivenator.aiven.nais.io/protected":       "true",
				"aivenator.aiven.nais.io/with-time-limit": "true",
				"aivenator.aiven.nais.io/expires-at":      "2099-01-31T12:00:00+01:00",
			},
		},
		"does-not-date-an-unprotected-one": {
			edit: func(a *v1.AivenApplication) { a.Spec.ExpiresAt = "2099-01-31T12:00:00Z" },
		},
	}
	for name, tt := range tests {
		app := &v1.AivenApplication{Spec: v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: name}}}
		app.Namespace, app.Name = w.Namespace, name
		tt.edit(app)
		if err := w.Create(t.Context(), app); err != nil {
			t.Fatalf("create application %s: %v", name, err)
		}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			app := w.Ready(name)
			s := w.Secret(name)
			labels := map[string]string{
				"app": name, "team": w.Namespace, "type": "aivenator.aiven.nais.io",
				"aiven.nais.io/secret-generation": "0", "aivenator.aiven.nais.io/protected": "false",
			}
			annotations := map[string]string{
				"aivenator.aiven.nais.io/protected": "false",
				"keysmith.io/owner":                 w.Namespace + "/" + name + " " + name,
				"kafka.aiven.nais.io/serviceUser":   app.Status.Bindings[0].Username, "kafka.aiven.nais.io/pool": world.Pool,
			}
			maps.Copy(labels, tt.labels)
			maps.Copy(annotations, tt.annotations)
			if diff := cmp.Diff(labels, s.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(annotations, s.Annotations, ignoreStores); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// Some manifests name the whole service in place of the instance, and some services have names that tell nothing of their namespace.
func TestWholeServiceName(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	legacy := w.Sim.Project(world.Main).AddService("legacy-"+w.Namespace, aivensim.ServiceConfig{Type: aivensim.OpenSearch})
	w.State(binding.OpenSearch, legacy.Name(), "RUNNING")
	w.Start()
	for name, service := range map[string]*aivensim.Service{"full": logs, "old": legacy} {
		w.Apply(name, v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: service.Name(), SecretName: name}})
		w.Ready(name)
		expectData(t, w.Secret(name), openSearchData(t, w, service, only(t, service)))
		expectLogin(t, w, w.Secret(name))
	}
}

func TestNothingAskedFor(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("idle", v1.AivenApplicationSpec{SecretName: "unused"})
	w.Ready("idle")
	var list corev1.SecretList
	if err := w.List(t.Context(), &list, client.InNamespace(w.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) > 0 {
		t.Errorf("there are Secrets: %v", list.Items[0].Name)
	}
	if n := w.Sim.Counters().Writes; n > 0 {
		t.Errorf("%d writes to Aiven", n)
	}
}
