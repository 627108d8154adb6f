//go:build k8srequired

package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/redis"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// cache is an instance with a real server behind it.
const cache = "cache"

func newCache(t *testing.T) (*world.World, *aivensim.Service) {
	t.Helper()
	env.Tool(t, "redis-server", "redis-server") // before there is a world
	w := world.New(t)
	s := w.Instance(binding.Valkey, cache, aivensim.ServiceConfig{})
	redis.Serve(t, w.Sim.Project(world.Main), s)
	w.Start()
	return w, s
}

func valkey(access v1.Access, secret string) v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{Valkey: []v1.Valkey{{Instance: cache, Access: access, SecretName: secret}}}
}

// login is redis-cli with what is in a Secret. The password is in a variable: a command line is for everybody to see.
type login struct {
	t        *testing.T
	program  string
	args     []string
	password string
}

// names are the data keys of an instance, for clients of Valkey or of Redis.
type names func(key.Field, string) string

func newLogin(t *testing.T, s *corev1.Secret, name names) login {
	t.Helper()
	value := func(f key.Field) string { return string(s.Data[name(f, cache)]) }
	return login{
		t: t, program: env.Tool(t, "redis-cli", "redis-tools"), password: value(key.Password),
		args: []string{
			"-h", value(key.Host), "-p", value(key.Port), "--tls", "--cacert", mount(t, s)(key.AivenCA), "--user", value(key.Username), "--no-auth-warning",
		},
	}
}

func (l login) command(ctx context.Context, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.program, append(append([]string{}, l.args...), words...)...)
	cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+l.password)
	return cmd
}

// do logs in, runs one command and returns the answer, an error of the server being one too.
func (l login) do(words ...string) string {
	l.t.Helper()
	out, err := l.command(l.t.Context(), words...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("run redis-cli %q: %v\n%s", words, err, out)
	}
	return strings.TrimSpace(string(out))
}

// refused tells whether an answer says that the user may not do that.
func refused(answer string) bool {
	return strings.Contains(answer, "NOPERM") || strings.Contains(answer, "can't run this command")
}

// isIn tells why a login does not work.
func (l login) isIn() error {
	if got := l.do("PING"); got != "PONG" {
		return errors.New("PING is answered with: " + got)
	}
	return nil
}

// isOut tells why a login is not refused.
func (l login) isOut() error {
	if got := l.do("PING"); !strings.Contains(got, "WRONGPASS") || !strings.Contains(got, "NOAUTH") {
		return errors.New("PING is answered with: " + got)
	}
	return nil
}

// connection is one that stays open.
type connection struct {
	t       *testing.T
	in      io.Writer
	answers *bufio.Reader
}

func (l login) open() *connection {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*world.Deadline)
	cmd := l.command(ctx)
	in, err := cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	out, end, err := os.Pipe() // for the answers, and what redis-cli says of a connection that is lost
	if err != nil {
		l.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = end, end
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	_ = end.Close() // the process has its own
	l.t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // says that it was killed
		_ = out.Close()
	})
	return &connection{l.t, in, bufio.NewReader(out)}
}

// do runs a command whose answer is one line, and returns that.
func (c *connection) do(command string) string {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, command); err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	for {
		line, err := c.answers.ReadString('\n')
		if err != nil {
			c.t.Fatalf("%s: %v", command, err)
		}
		if line = strings.TrimSpace(line); line != "" { // errors are followed by an empty line
			return line
		}
	}
}

// levels are who may do something.
type levels struct{ read, write, readwrite, admin bool }

var (
	everybody = levels{true, true, true, true}
	readers   = levels{read: true, readwrite: true, admin: true}
	writers   = levels{write: true, readwrite: true, admin: true}
	admins    = levels{admin: true}
	nobody    = levels{}
)

func TestValkeyUsersMayDoWhatTheirLevelSays(t *testing.T) {
	t.Parallel()
	w, _ := newCache(t)
	commands := map[string]levels{
		"PING":                             everybody,
		"CLIENT ID":                        everybody,
		"GET key":                          readers,
		"MGET key other":                   readers,
		"KEYS *":                           readers,
		"SCAN 0":                           readers,
		"SET key value":                    writers,
		"INCR number":                      writers,
		"GETDEL none":                      writers,
		"EXPIRE key 1000":                  writers,
		"LPUSH list value":                 writers,
		"FLUSHALL":                         writers,
		"PUBLISH channel message":          everybody,
		"PUBSUB CHANNELS":                  everybody,
		"MULTI":                            everybody,
		"EVAL return(1) 0":                 everybody,
		"EVAL redis.call('get','key') 0":   readers,
		"EVAL redis.call('set','a','b') 0": writers,
		"INFO server":                      everybody,
		"CLUSTER SLOTS":                    everybody,
		"CLUSTER NODES":                    nobody,
		"CONFIG GET maxmemory":             admins,
		"CONFIG SET maxmemory 0":           admins,
		"ACL LIST":                         admins,
		"ACL WHOAMI":                       nobody,
		"LASTSAVE":                         admins,
		"SLOWLOG LEN":                      admins,
		"MEMORY DOCTOR":                    nobody,
	}
	for access, may := range map[v1.Access]func(levels) bool{
		v1.AccessRead:      func(l levels) bool { return l.read },
		v1.AccessWrite:     func(l levels) bool { return l.write },
		v1.AccessReadWrite: func(l levels) bool { return l.readwrite },
		v1.AccessAdmin:     func(l levels) bool { return l.admin },
		"":                 func(l levels) bool { return l.read }, // the default
	} {
		name := "app-" + string(access) + "x"
		w.Apply(name, valkey(access, name))
		w.Ready(name)
		for client, names := range map[string]names{"valkey": key.Valkey, "redis": key.Redis} {
			l := newLogin(t, w.Secret(name), names)
			if err := l.isIn(); err != nil {
				t.Fatalf("access %q as client of %s: %v", access, client, err)
			}
		}
		l := newLogin(t, w.Secret(name), key.Valkey)
		for command, who := range commands {
			answer := l.do(strings.Fields(command)...)
			if got := !refused(answer); got != may(who) {
				t.Errorf("access %q may %s: %t, want %t: %s", access, command, got, may(who), answer)
			}
		}
	}
}

func TestAnotherLevelHoldsAtOnceForOpenConnections(t *testing.T) {
	t.Parallel()
	w, _ := newCache(t)
	w.Apply("cart", valkey(v1.AccessReadWrite, "creds"))
	w.Ready("cart")
	before := w.Secret("creds")
	l := newLogin(t, before, key.Valkey)
	c := l.open()
	if got := c.do("SET key value"); got != "OK" {
		t.Fatalf("SET is answered with: %s", got)
	}
	for _, step := range []struct {
		access                    v1.Access
		reads, writes, configures bool
	}{
		{v1.AccessRead, true, false, false},
		{v1.AccessWrite, false, true, false},
		{v1.AccessAdmin, true, true, true},
		{v1.AccessRead, true, false, false},
	} {
		w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Valkey[0].Access = step.access })
		w.Ready("cart")
		for command, want := range map[string]bool{"GET key": step.reads, "SET key value": step.writes, "CONFIG SET maxmemory 0": step.configures} {
			if got := c.do(command); refused(got) == want {
				t.Errorf("with access %s, %s is answered with: %s", step.access, command, got)
			}
		}
	}
	if err := newLogin(t, w.Secret("creds"), key.Valkey).isIn(); err != nil {
		t.Error(err)
	}
	if after := w.Secret("creds"); after.ResourceVersion != before.ResourceVersion {
		t.Error("the Secret was written, though name and password stay")
	}
}

func TestCredentialsOfADeletedApplicationAreRefused(t *testing.T) {
	t.Parallel()
	w, _ := newCache(t)
	app := w.Apply("cart", valkey(v1.AccessReadWrite, "creds"))
	w.Ready("cart")
	l := newLogin(t, w.Secret("creds"), key.Valkey)
	c := l.open()
	if got := c.do("SET key value"); got != "OK" {
		t.Fatalf("SET is answered with: %s", got)
	}
	w.Remove(app)
	w.Gone(&corev1.Secret{}, "creds")
	if err := l.isOut(); err != nil {
		t.Error(err)
	}
	if got := c.do("GET key"); !strings.Contains(got, "closed") {
		t.Errorf("an open connection goes on: GET is answered with %s", got)
	}
}

func TestADeletedSecretIsFollowedByOneThatWorks(t *testing.T) {
	t.Parallel()
	w, _ := newCache(t)
	w.Apply("cart", valkey(v1.AccessRead, "creds"))
	w.Ready("cart")
	before := w.Secret("creds")
	former := newLogin(t, before, key.Valkey)
	w.Remove(before.DeepCopy())
	after := w.Replaced(before)
	if err := former.isOut(); err != nil {
		t.Errorf("the former login: %v", err)
	}
	if err := newLogin(t, after, key.Valkey).isIn(); err != nil {
		t.Errorf("the present login: %v", err)
	}
}

func TestAnotherPasswordReachesTheSecret(t *testing.T) {
	t.Parallel()
	w, s := newCache(t)
	w.Apply("cart", valkey(v1.AccessRead, "creds"))
	w.Ready("cart")
	before := w.Secret("creds")
	w.Restart("--snapshot-age=1s", "--resync=2s")
	s.SetPassword(world.Users(s)[0], "another-password")
	if err := newLogin(t, before, key.Valkey).isOut(); err != nil {
		t.Errorf("the former login: %v", err)
	}
	w.Eventually(func(context.Context) error { return newLogin(t, w.Secret("creds"), key.Valkey).isIn() })
}
