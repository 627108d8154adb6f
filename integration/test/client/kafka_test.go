//go:build k8srequired

package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// enter connects to a broker with what is in a Secret, and returns the name by which the broker let the client in.
type enter func(t *testing.T, s *corev1.Secret, b *broker) (name string, err error)

// clients are those of applications, by what they are and what they use.
var clients = map[string]enter{
	"Go, PEM":               withGo,
	"OpenSSL, PEM":          withOpenSSL,
	"OpenSSL, key store":    withOpenSSLStore,
	"Java, stores":          withJava,
	"librdkafka, PEM":       withKcat,
	"librdkafka, key store": withKcatStore,
}

func withGo(t *testing.T, s *corev1.Secret, b *broker) (string, error) {
	t.Helper()
	pair, err := tls.X509KeyPair(s.Data[key.KafkaCertificate], s.Data[key.KafkaPrivateKey])
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Data[key.KafkaCA])
	dialer := tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(t.Context(), "tcp", b.address())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	name, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(name), err
}

func withOpenSSL(t *testing.T, s *corev1.Secret, b *broker) (string, error) {
	t.Helper()
	path := mount(t, s)
	return openSSL(t, s, b, "-CAfile", path(key.KafkaCA), "-cert", path(key.KafkaCertificate), "-key", path(key.KafkaPrivateKey))
}

// OpenSSL reads no certificates to trust from a PKCS#12 file.
func withOpenSSLStore(t *testing.T, s *corev1.Secret, b *broker) (string, error) {
	t.Helper()
	path := mount(t, s)
	return openSSL(t, s, b, "-CAfile", path(key.KafkaCA), "-pass", "env:STORE_PASSWORD",
		"-cert", path(key.KafkaKeyStore), "-key", path(key.KafkaKeyStore))
}

func openSSL(t *testing.T, s *corev1.Secret, b *broker, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"s_client", "-quiet", "-connect", b.address(), "-verify_return_error", "-verify_hostname", b.host}, args...)
	cmd := exec.CommandContext(t.Context(), env.Tool(t, "openssl", "openssl"), args...)
	cmd.Env = append(os.Environ(), "STORE_PASSWORD="+string(s.Data[key.KafkaCredStorePassword]))
	return output(cmd)
}

// withJava uses the stores as Kafka's client does. The second one has always been called JKS, which Java forgives.
func withJava(t *testing.T, s *corev1.Secret, b *broker) (string, error) {
	t.Helper()
	path := mount(t, s)
	settings := fmt.Appendf(nil, "security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=%s\nssl.keystore.password=%[3]s\n"+
		"ssl.truststore.type=JKS\nssl.truststore.location=%[2]s\nssl.truststore.password=%[3]s\n",
		path(key.KafkaKeyStore), path(key.KafkaTrustStore), s.Data[key.KafkaCredStorePassword])
	return java(t, settings, strings.Count(string(s.Data[key.KafkaCA]), "BEGIN CERTIFICATE"), b)
}

// java connects with the settings of Kafka's client, and expects so many certificates in the trust store.
func java(t *testing.T, settings []byte, trusted int, b *broker) (string, error) {
	t.Helper()
	env.Tool(t, "javac", "default-jdk-headless") // without which java runs no source file
	file := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := output(exec.CommandContext(t.Context(), env.Tool(t, "java", "default-jdk-headless"), "-Xshare:auto", "-XX:TieredStopAtLevel=1",
		filepath.Join("testdata", "Client.java"), file, b.host, b.port))
	if err != nil {
		return "", err
	}
	count, name, _ := strings.Cut(out, "\n")
	if want := fmt.Sprintf("%d trusted", trusted); count != want {
		return "", fmt.Errorf("the trust store has %q, want %q", count, want)
	}
	return name, nil
}

func withKcat(t *testing.T, s *corev1.Secret, b *broker) (string, error) {
	t.Helper()
	path := mount(t, s)
	return kcat(t, fmt.Appendf(nil, "security.protocol=ssl\nssl.ca.location=%s\nssl.certificate.location=%s\nssl.key.location=%s\n",
		path(key.KafkaCA), path(key.KafkaCertificate), path(key.KafkaPrivateKey)), b)
}

func withKcatStore(t *testing.T, s *corev1.Secret, b *broker) (string, error) {
	t.Helper()
	path := mount(t, s)
	return kcat(t, fmt.Appendf(nil, "security.protocol=ssl\nssl.ca.location=%s\nssl.keystore.location=%s\nssl.keystore.password=%s\n",
		path(key.KafkaCA), path(key.KafkaKeyStore), s.Data[key.KafkaCredStorePassword]), b)
}

// kcat asks a broker for its metadata. The broker does not speak Kafka: the answer is whom it met.
func kcat(t *testing.T, settings []byte, b *broker) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kcat.conf")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	for len(b.met) > 0 {
		<-b.met
	}
	ctx, cancel := context.WithTimeout(t.Context(), world.Deadline)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := output(exec.CommandContext(ctx, env.Tool(t, "kcat", "kcat"), "-F", file, "-b", b.address(), "-L"))
		ended <- err
	}()
	select {
	case name := <-b.met:
		cancel()
		<-ended //nolint:errcheck // says that it was killed
		return name, nil
	case err := <-ended: // it gives up after five seconds
		select {
		case name := <-b.met:
			return name, nil
		default:
			return "", errors.Join(errors.New("the broker met nobody"), err)
		}
	}
}

// output runs a program and returns what it writes; what it says otherwise is in the error.
func output(cmd *exec.Cmd) (string, error) {
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s: %w: %s%s", filepath.Base(cmd.Path), err, out, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// kafka is the spec of an application that has its credentials in the Secret "creds".
func kafka() v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}}
}

// allEnter fails the test unless each client is let in by a broker under the name of the user in the Secret.
func allEnter(t *testing.T, s *corev1.Secret, b *broker) {
	t.Helper()
	for client, enter := range clients {
		name, err := enter(t, s, b)
		if err != nil || name != string(s.Data[key.KafkaSchemaRegistryUser]) {
			t.Errorf("%s: let in as %q, want %q (%v)", client, name, s.Data[key.KafkaSchemaRegistryUser], err)
		}
	}
}

// settings are those of key stores.
var settings = map[string][]string{
	"by default":               nil,
	"in the earlier encoding":  {"--store-encoding=legacy"},
	"with a random password":   {"--store-password-random"},
	"with another password":    {`--store-password=it is "$&=#!`},
	"earlier, random password": {"--store-encoding=legacy", "--store-password-random"},
}

func TestClientsEnterWithWhatIsInTheSecret(t *testing.T) {
	for name, args := range settings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Start(args...)
			w.Apply("cart", kafka())
			w.Ready("cart")
			allEnter(t, w.Secret("creds"), newBroker(t, w.Sim.Project(world.Pool)))
		})
	}
}

func TestClientsRefuseAServerOfAnotherCA(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", kafka())
	w.Ready("cart")
	s, stranger := w.Secret("creds"), newBroker(t, w.Sim.Project(world.Main))
	for client, enter := range clients {
		name, err := enter(t, s, stranger)
		if said := strings.ToLower(fmt.Sprint(err)); err == nil || !strings.Contains(said, "verif") && !strings.Contains(said, "certification path") {
			t.Errorf("%s: let in as %q, or fails for another reason: %v", client, name, err)
		}
	}
}
