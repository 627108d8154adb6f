//go:build k8srequired

package provision

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// ignoreStores leaves out the annotation whose value nobody can foretell.
var ignoreStores = cmpopts.IgnoreMapEntries(func(k, _ string) bool { return k == "keysmith.io/stores" })

// only is the one user of a service, its built-in ones aside.
func only(t *testing.T, s *aivensim.Service) aivensim.User {
	t.Helper()
	names := world.Users(s)
	if len(names) != 1 {
		t.Fatalf("service %s: want one user, got %q", s.Name(), names)
	}
	u, _ := s.User(names[0])
	return u
}

// component is the address of a service that the name and the usage choose.
func component(t *testing.T, s *aivensim.Service, name, usage string) (host, port string) {
	t.Helper()
	for _, c := range s.Components() {
		if c.Component == name && c.Usage == usage {
			return c.Host, strconv.Itoa(c.Port)
		}
	}
	t.Fatalf("service %s has no %s %s", s.Name(), usage, name)
	return "", ""
}

func at(t *testing.T, s *aivensim.Service, name, usage string) string {
	t.Helper()
	return net.JoinHostPort(component(t, s, name, usage))
}

func kafkaData(t *testing.T, w *world.World, u aivensim.User) map[string]string {
	t.Helper()
	return map[string]string{
		"AIVEN_CA":                       w.Sim.Project(world.Main).CA(),
		"KAFKA_BROKERS":                  at(t, w.Kafka, "kafka", "primary"),
		"KAFKA_SCHEMA_REGISTRY":          "https://" + at(t, w.Kafka, "schema_registry", "primary"),
		"KAFKA_SCHEMA_REGISTRY_USER":     u.Username,
		"KAFKA_SCHEMA_REGISTRY_PASSWORD": u.Password,
		"KAFKA_CERTIFICATE":              u.AccessCert,
		"KAFKA_PRIVATE_KEY":              u.AccessKey,
		"KAFKA_CA":                       w.Sim.Project(world.Pool).CA(),
		"KAFKA_CREDSTORE_PASSWORD":       "changeme",
		"client.keystore.p12":            "",
		"client.truststore.jks":          "",
		"KAFKA_SECRET_UPDATED":           "",
	}
}

func openSearchData(t *testing.T, w *world.World, s *aivensim.Service, u aivensim.User) map[string]string {
	t.Helper()
	host, port := component(t, s, "opensearch", "primary")
	data := map[string]string{
		"AIVEN_CA":             w.Sim.Project(world.Main).CA(),
		"OPEN_SEARCH_USERNAME": u.Username,
		"OPEN_SEARCH_PASSWORD": u.Password,
		"OPEN_SEARCH_URI":      "https://" + net.JoinHostPort(host, port),
		"OPEN_SEARCH_HOST":     host,
		"OPEN_SEARCH_PORT":     port,
	}
	for _, c := range s.Components() {
		if c.Component == "opensearch_dashboards" {
			data["OPEN_SEARCH_DASHBOARD_HOST"], data["OPEN_SEARCH_DASHBOARD_PORT"] = c.Host, strconv.Itoa(c.Port)
			data["OPEN_SEARCH_DASHBOARD_URI"] = "https://" + net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
		}
	}
	return data
}

func valkeyData(t *testing.T, w *world.World, s *aivensim.Service, instance string, u aivensim.User) map[string]string {
	t.Helper()
	host, port := component(t, s, "valkey", "primary")
	address := net.JoinHostPort(host, port)
	data := map[string]string{
		"AIVEN_CA":                    w.Sim.Project(world.Main).CA(),
		"VALKEY_USERNAME_" + instance: u.Username, "REDIS_USERNAME_" + instance: u.Username,
		"VALKEY_PASSWORD_" + instance: u.Password, "REDIS_PASSWORD_" + instance: u.Password,
		"VALKEY_URI_" + instance: "valkeys://" + address, "REDIS_URI_" + instance: "rediss://" + address,
		"VALKEY_HOST_" + instance: host, "REDIS_HOST_" + instance: host,
		"VALKEY_PORT_" + instance: port, "REDIS_PORT_" + instance: port,
	}
	for _, c := range s.Components() {
		if c.Usage == "replica" {
			data["VALKEY_REPLICA_HOST_"+instance], data["VALKEY_REPLICA_PORT_"+instance] = c.Host, strconv.Itoa(c.Port)
			data["VALKEY_REPLICA_URI_"+instance] = "valkeys://" + net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
		}
	}
	return data
}

// expectData compares all that a Secret holds with all that it should hold. Of what nobody can foretell it compares the names alone; the times
// it reads.
func expectData(t *testing.T, s *corev1.Secret, parts ...map[string]string) {
	t.Helper()
	want := map[string]string{"AIVEN_SECRET_UPDATED": ""}
	for _, part := range parts {
		maps.Copy(want, part)
	}
	got := map[string]string{}
	for k, v := range s.Data {
		got[k] = string(v)
		switch {
		case strings.HasSuffix(k, "_SECRET_UPDATED"):
			if moment, err := time.Parse(time.RFC3339, string(v)); err != nil || time.Since(moment).Abs() > time.Hour {
				t.Errorf("%s is %q, which is not the time of now: %v", k, v, err)
			}
			got[k] = ""
		case strings.HasPrefix(k, "client."):
			got[k] = ""
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("data of Secret %s (-want +got):\n%s", s.Name, diff)
	}
}

// expectKafkaFiles makes sure that certificate, key and stores are of use to a client of the pool's Kafka, and are the user's own.
func expectKafkaFiles(t *testing.T, w *world.World, s *corev1.Secret, u aivensim.User) {
	t.Helper()
	pair, err := tls.X509KeyPair(s.Data["KAFKA_CERTIFICATE"], s.Data["KAFKA_PRIVATE_KEY"])
	if err != nil {
		t.Fatalf("certificate and key: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(w.Sim.Project(world.Pool).CA())) {
		t.Fatal("the project's CA holds no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := pair.Leaf.Verify(options); err != nil {
		t.Errorf("certificate: %v", err)
	}
	if pair.Leaf.Subject.CommonName != u.Username {
		t.Errorf("the certificate is that of %q, not of %q", pair.Leaf.Subject.CommonName, u.Username)
	}
	password := string(s.Data["KAFKA_CREDSTORE_PASSWORD"])
	key, leaf, chain, err := pkcs12.DecodeChain(s.Data["client.keystore.p12"], password)
	if err != nil {
		t.Fatalf("key store: %v", err)
	}
	if !leaf.Equal(pair.Leaf) {
		t.Error("the key store holds another certificate")
	}
	if own, ok := key.(interface{ Equal(x any) bool }); ok && !own.Equal(pair.PrivateKey) {
		t.Error("the key store holds another key")
	}
	trusted, err := pkcs12.DecodeTrustStore(s.Data["client.truststore.jks"], password)
	if err != nil {
		t.Fatalf("trust store: %v", err)
	}
	options.Roots = x509.NewCertPool()
	for _, c := range trusted {
		options.Roots.AddCert(c)
	}
	options.Intermediates = x509.NewCertPool()
	for _, c := range chain {
		options.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(options); err != nil {
		t.Errorf("the key store's certificate does not verify against the trust store: %v", err)
	}
}

// expectLogin makes sure that every pair of name and password in a Secret opens its service.
func expectLogin(t *testing.T, w *world.World, s *corev1.Secret) {
	t.Helper()
	pairs := 0
	try := func(project, service, user, password string) {
		if !w.Sim.Authenticate(project, service, string(s.Data[user]), string(s.Data[password])) {
			t.Errorf("%s and %s of Secret %s do not open service %s", user, password, s.Name, service)
		}
		pairs++
	}
	if pool := s.Annotations["kafka.aiven.nais.io/pool"]; pool != "" {
		try(pool, w.Kafka.Name(), "KAFKA_SCHEMA_REGISTRY_USER", "KAFKA_SCHEMA_REGISTRY_PASSWORD")
	}
	if service := s.Annotations["opensearch.aiven.nais.io/serviceName"]; service != "" {
		try(s.Annotations["opensearch.aiven.nais.io/project"], service, "OPEN_SEARCH_USERNAME", "OPEN_SEARCH_PASSWORD")
	}
	for name, service := range s.Annotations {
		instance, ok := strings.CutSuffix(name, ".valkey.aiven.nais.io/serviceName")
		if !ok {
			continue
		}
		instance = strings.ReplaceAll(strings.ToUpper(instance), "-", "_")
		for _, family := range []string{"VALKEY_", "REDIS_"} {
			try(s.Annotations["valkey.aiven.nais.io/project"], service, family+"USERNAME_"+instance, family+"PASSWORD_"+instance)
		}
	}
	if pairs == 0 {
		t.Errorf("Secret %s records no user", s.Name)
	}
}

// expectMetadata compares the metadata of an application's Secret; records are the annotations that clean-up needs.
func expectMetadata(t *testing.T, w *world.World, s *corev1.Secret, app string, records map[string]string) {
	t.Helper()
	labels := map[string]string{
		"app": app, "team": w.Namespace, "type": "aivenator.aiven.nais.io",
		"aiven.nais.io/secret-generation": "0", "aivenator.aiven.nais.io/protected": "false",
	}
	if diff := cmp.Diff(labels, s.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	annotations := map[string]string{
		"aivenator.aiven.nais.io/protected": "false",
		"keysmith.io/owner":                 w.Namespace + "/" + s.Name + " " + app,
	}
	maps.Copy(annotations, records)
	if diff := cmp.Diff(annotations, s.Annotations, ignoreStores); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"operatorkit.giantswarm.io/keysmith-secret"}, s.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if s.Type != corev1.SecretTypeOpaque {
		t.Errorf("the Secret's type is %s", s.Type)
	}
	if len(s.OwnerReferences) > 0 {
		t.Errorf("the Secret would go with the application: %v", s.OwnerReferences)
	}
}

func expectBindings(t *testing.T, app *v1.AivenApplication, want ...v1.Binding) {
	t.Helper()
	if diff := cmp.Diff(want, app.Status.Bindings); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}
