package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func (d *demo) kafkaSecret(ctx context.Context) error {
	s, err := d.show(ctx, kafkaSecret,
		key.KafkaBrokers, key.KafkaSchemaRegistry, key.KafkaSchemaRegistryUser, key.KafkaSchemaRegistryPassword,
		key.KafkaCertificate, key.KafkaPrivateKey, key.KafkaCA, key.KafkaCredStorePassword,
		key.KafkaKeyStore, key.KafkaTrustStore, key.KafkaSecretUpdated)
	if err != nil {
		return err
	}
	d.hide(s, key.KafkaSchemaRegistryPassword, key.KafkaPrivateKey)
	if err := d.holds(s, map[string]string{
		key.KafkaBrokers:        address(d.kafka, "kafka", "primary"),
		key.KafkaSchemaRegistry: "https://" + address(d.kafka, "schema_registry", "primary"),
		key.KafkaCA:             d.aiven.Project(kafkaProject).CA(),
	}); err != nil {
		return err
	}
	return d.canLogIn(d.kafka, s, key.KafkaSchemaRegistryUser, key.KafkaSchemaRegistryPassword)
}

func (d *demo) openSearchSecret(ctx context.Context) error {
	s, err := d.show(ctx, openSearchSecret,
		key.OpenSearchUsername, key.OpenSearchPassword, key.OpenSearchURI, key.OpenSearchHost, key.OpenSearchPort,
		key.OpenSearchDashboardURI, key.OpenSearchDashboardHost, key.OpenSearchDashboardPort)
	if err != nil {
		return err
	}
	d.hide(s, key.OpenSearchPassword)
	if err := d.holds(s, map[string]string{
		key.OpenSearchURI:          "https://" + address(d.openSearch, "opensearch", "primary"),
		key.OpenSearchDashboardURI: "https://" + address(d.openSearch, "opensearch_dashboards", "primary"),
	}); err != nil {
		return err
	}
	return d.canLogIn(d.openSearch, s, key.OpenSearchUsername, key.OpenSearchPassword)
}

func (d *demo) valkeySecret(ctx context.Context) error {
	wanted := []string{
		key.Valkey(key.ReplicaURI, "sessions"), key.Valkey(key.ReplicaHost, "sessions"), key.Valkey(key.ReplicaPort, "sessions"),
	}
	for _, f := range []key.Field{key.Username, key.Password, key.URI, key.Host, key.Port} {
		for _, instance := range []string{"sessions", "cache"} {
			wanted = append(wanted, key.Valkey(f, instance), key.Redis(f, instance))
		}
	}
	s, err := d.show(ctx, valkeySecret, wanted...)
	if err != nil {
		return err
	}
	d.hide(s, key.Valkey(key.Password, "sessions"), key.Valkey(key.Password, "cache"))
	if err := d.holds(s, map[string]string{
		key.Valkey(key.URI, "sessions"):        "valkeys://" + address(d.sessions, "valkey", "primary"),
		key.Valkey(key.ReplicaURI, "sessions"): "valkeys://" + address(d.sessions, "valkey", "replica"),
		key.Redis(key.URI, "cache"):            "rediss://" + address(d.cache, "valkey", "primary"),
	}); err != nil {
		return err
	}
	return cmp.Or(
		d.canLogIn(d.sessions, s, key.Valkey(key.Username, "sessions"), key.Valkey(key.Password, "sessions")),
		d.canLogIn(d.cache, s, key.Redis(key.Username, "cache"), key.Redis(key.Password, "cache")),
	)
}

// show prints a Secret and checks that it has the keys wanted, and those that every Secret has, and no others.
func (d *demo) show(ctx context.Context, name string, wanted ...string) (*corev1.Secret, error) {
	s, err := d.secret(ctx, name)
	if err != nil {
		return nil, err
	}
	found := slices.Sorted(maps.Keys(s.Data))
	var rows [][]string
	for _, k := range found {
		rows = append(rows, []string{k, shown(k, s.Data[k])})
	}
	d.table(rows...)
	wanted = append(wanted, key.AivenCA, key.SecretUpdated)
	slices.Sort(wanted)
	if err := expect("keys of Secret "+name, wanted, found); err != nil {
		return nil, err
	}
	d.checked("these are the %d keys that applications rely on, and no others", len(found))
	return s, nil
}

// holds checks values of a Secret, and the CA that every Secret has.
func (d *demo) holds(s *corev1.Secret, wanted map[string]string) error {
	wanted[key.AivenCA] = d.aiven.Project(mainProject).CA()
	for _, k := range slices.Sorted(maps.Keys(wanted)) {
		if err := expect(k+" of Secret "+s.Name, wanted[k], string(s.Data[k])); err != nil {
			return err
		}
	}
	d.checked("addresses and CAs are those of the services: %s", strings.Join(slices.Sorted(maps.Keys(wanted)), ", "))
	return nil
}

// address is where a component of a service answers.
func address(s *aivensim.Service, component, usage string) string {
	for _, c := range s.Components() {
		if c.Component == component && c.Usage == usage {
			return fmt.Sprintf("%s:%d", c.Host, c.Port)
		}
	}
	return "no such component"
}

func (d *demo) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	if err := d.stage.Get(ctx, d.at(name), s); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return s, nil
}

// How much of the two ends of a value is printed at most.
const (
	head = 32
	tail = 13
)

// shown is what may be printed of a value of a Secret: nothing of a secret one, the ends of a long one.
func shown(name string, value []byte) string {
	switch {
	case strings.Contains(name, "PASSWORD"):
		return "********"
	case strings.Contains(name, "PRIVATE_KEY"):
		return fmt.Sprintf("******** (%d bytes)", len(value))
	case bytes.HasPrefix(value, []byte("-----BEGIN ")):
		first, _, _ := bytes.Cut(value, []byte("\n"))
		return fmt.Sprintf("%s ... (%d bytes)", first, len(value))
	case slices.Contains([]string{key.KafkaKeyStore, key.KafkaTrustStore}, name):
		return fmt.Sprintf("(%d bytes)", len(value))
	case len(value) > head+len("...")+tail:
		return string(value[:head]) + "..." + string(value[len(value)-tail:])
	}
	return string(value)
}

// hide remembers values that the operator may not print.
func (d *demo) hide(s *corev1.Secret, keys ...string) {
	for _, k := range keys {
		value := s.Data[k]
		if block, _ := pem.Decode(value); block != nil {
			value = bytes.Split(value, []byte("\n"))[1] // a log would show the lines in another form
		}
		d.secrets = append(d.secrets, value)
	}
}

// canLogIn checks that a Secret's name and password open a service.
func (d *demo) canLogIn(service *aivensim.Service, s *corev1.Secret, username, password string) error {
	user := string(s.Data[username])
	project := mainProject
	if service == d.kafka {
		project = kafkaProject
	}
	if !d.aiven.Authenticate(project, service.Name(), user, string(s.Data[password])) {
		return fmt.Errorf("log in to %s: expected %s and %s of Secret %s to be accepted, found them refused", service.Name(), username, password, s.Name)
	}
	d.checked("%s and %s log in to %s", username, password, service.Name())
	return nil
}

func (d *demo) certificate(ctx context.Context) error {
	s, err := d.secret(ctx, kafkaSecret)
	if err != nil {
		return err
	}
	ca := d.aiven.Project(kafkaProject).CA()
	leaf, err := verify(s, ca)
	if err != nil {
		return err
	}
	d.table(
		[]string{"Subject", leaf.Subject.String()},
		[]string{"Issuer", leaf.Issuer.String()},
		[]string{"Valid until", leaf.NotAfter.Format(time.RFC3339)},
	)
	d.checked("the certificate verifies against the CA of project %s, as that of a client", kafkaProject)
	d.checked("the private key is that of the certificate")
	pair, err := credstore.ParsePair(string(s.Data[key.KafkaCertificate]), string(s.Data[key.KafkaPrivateKey]))
	if err != nil {
		return err
	}
	bundle, err := credstore.ParseCA(ca)
	if err != nil {
		return err
	}
	password := string(s.Data[key.KafkaCredStorePassword])
	if !credstore.Matches(s.Data[key.KafkaKeyStore], s.Data[key.KafkaTrustStore], pair, bundle, password) {
		return errors.New("stores: expected certificate, key and CA of the Secret in them, found others or none")
	}
	d.checked("both stores open and hold this certificate, this key and this CA")
	return d.keytool(ctx, s)
}

// verify checks the Kafka certificate of a Secret against a CA, and its key against it.
func verify(s *corev1.Secret, ca string) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(s.Data[key.KafkaCertificate], s.Data[key.KafkaPrivateKey])
	if err != nil {
		return nil, fmt.Errorf("read certificate and key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("read the CA of the project: expected certificates, found none")
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: usage}); err != nil {
		return nil, fmt.Errorf("verify the certificate: %w", err)
	}
	return pair.Leaf, expect("subject of the certificate", string(s.Data[key.KafkaSchemaRegistryUser]), pair.Leaf.Subject.CommonName)
}

// keytool opens both stores with Java's own tool, if there is one.
func (d *demo) keytool(ctx context.Context, s *corev1.Secret) error {
	// Where there is no Java, some systems have a keytool all the same, which only says so.
	if exec.CommandContext(ctx, "keytool", "-help").Run() != nil {
		d.say("[--] there is no keytool here to open them with as well")
		return ctx.Err()
	}
	for _, store := range []struct{ name, entry string }{
		{key.KafkaKeyStore, "PrivateKeyEntry"},
		{key.KafkaTrustStore, "trustedCertEntry"},
	} {
		path := filepath.Join(d.dir, store.name)
		if err := os.WriteFile(path, s.Data[store.name], 0o600); err != nil {
			return fmt.Errorf("write a store: %w", err)
		}
		cmd := exec.CommandContext(ctx, "keytool", "-J-Duser.language=en", "-list", "-keystore", path, "-storepass:env", "STORE_PASSWORD")
		cmd.Env = append(os.Environ(), "STORE_PASSWORD="+string(s.Data[key.KafkaCredStorePassword]))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("open %s with keytool: %w\n%s", store.name, err, out)
		}
		if !bytes.Contains(out, []byte(store.entry)) {
			return fmt.Errorf("open %s with keytool: expected an entry of type %s, found:\n%s", store.name, store.entry, out)
		}
		d.checked("keytool opens %s and finds a %s", store.name, store.entry)
	}
	return nil
}
