// Package redis puts a real Redis server behind a Valkey service of the simulator. It speaks TLS with a certificate of the project's CA,
// and has exactly the users of the service, with their passwords and rights.
package redis

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// Host is where servers listen. Their certificates are for this name.
const Host = "localhost"

// The user by whom the users of the service are made.
const admin, adminPassword = "simulator", "simulator"

// server is a running Redis.
type server struct {
	t           testing.TB
	cli, socket string
	users       map[string]aivensim.User // that it has
}

// Serve starts a Redis server for a service, moves the service to its address, and ends it with the test. The test is skipped where there
// is none.
func Serve(t testing.TB, project *aivensim.Project, service *aivensim.Service) {
	t.Helper()
	binary := env.Tool(t, "redis-server", "redis-server")
	s := &server{t: t, cli: env.Tool(t, "redis-cli", "redis-tools"), users: map[string]aivensim.User{}}
	dir, err := os.MkdirTemp("", "redis-") //nolint:usetesting // the path of a socket may have 107 characters, the name of a test counts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.socket = filepath.Join(dir, "socket")
	port := freePort(t)
	config := writeConfig(t, dir, project, port)

	var log bytes.Buffer
	cmd := exec.Command(binary, config)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		service.Follow(nil)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
		if t.Failed() {
			t.Logf("the log of Redis:\n%s", log.String())
		}
	})
	env.Eventually(t, 30*time.Second, func(context.Context) error { return s.run("PING") })
	service.SetAddress(Host, port)
	service.Follow(s.follow)
}

func writeConfig(t testing.TB, dir string, project *aivensim.Project, port int) (path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := project.Sign(x509.Certificate{
		Subject: pkix.Name{CommonName: Host}, DNSNames: []string{Host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}, key.Public())
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("redis.conf", fmt.Appendf(nil, `
dir %s
save ""
bind 127.0.0.1
port 0
tls-port %d
tls-cert-file %s
tls-key-file %s
tls-auth-clients no
unixsocket %s
user default off
user %s on >%s ~* &* +@all
`, dir, port, write("server.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
		write("server.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		filepath.Join(dir, "socket"), admin, adminPassword))
}

// follow gives Redis the users that the service has. It says what it cannot do by a failure of the test.
func (s *server) follow(users []aivensim.User) {
	var commands []string
	gone := s.users
	s.users = map[string]aivensim.User{}
	for _, u := range users {
		if old, ok := gone[u.Username]; !ok || old.Password != u.Password || !reflect.DeepEqual(old.AccessControl, u.AccessControl) {
			commands = append(commands, setUser(u))
		}
		delete(gone, u.Username)
		s.users[u.Username] = u
	}
	for name := range gone {
		commands = append(commands, quote("ACL", "DELUSER", name))
	}
	if err := s.run(commands...); err != nil {
		s.t.Errorf("give Redis the users of the service: %v", err)
	}
}

// setUser is the command that makes a user what it should be. Connections of the user stay, and have the new rights.
func setUser(u aivensim.User) string {
	rules := slices.Concat([]string{"ACL", "SETUSER", u.Username, "reset", "on", ">" + u.Password}, u.AccessControl.Categories, u.AccessControl.Commands)
	for _, k := range u.AccessControl.Keys {
		rules = append(rules, "~"+k)
	}
	for _, c := range u.AccessControl.Channels {
		rules = append(rules, "&"+c)
	}
	return quote(rules...)
}

// quote writes a command as redis-cli reads it.
func quote(words ...string) string {
	for i := range words {
		words[i] = strconv.Quote(words[i])
	}
	return strings.Join(words, " ")
}

// run has redis-cli run commands as the administrator. An answer but OK, PONG and 1 is an error.
func (s *server) run(commands ...string) error {
	if len(commands) == 0 {
		return nil
	}
	cmd := exec.Command(s.cli, "-s", s.socket, "--user", admin, "--no-auth-warning")
	cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+adminPassword)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run redis-cli: %w: %s", err, out)
	}
	answers := strings.Fields(string(out))
	for _, a := range answers {
		if !slices.Contains([]string{"OK", "PONG", "1"}, a) {
			return fmt.Errorf("run redis-cli: %s", out)
		}
	}
	if len(answers) != len(commands) {
		return fmt.Errorf("run redis-cli: %d answers to %d commands", len(answers), len(commands))
	}
	return nil
}

// freePort returns a port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	address, err := operator.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address[strings.LastIndex(address, ":")+1:])
	if err != nil {
		t.Fatal(err)
	}
	return port
}
