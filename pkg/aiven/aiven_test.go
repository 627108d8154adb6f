package aiven

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// token is what must never be seen.
const token = "avnT_canary"

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	kafka  = Ref{"dev", "kafka"}
	search = Ref{"dev", "search"}
	valkey = Ref{"dev", "valkey"}
)

// fixture is a client of a simulator with one service of each type. Their clock stands still.
type fixture struct {
	*Client
	clock    *clocktesting.FakePassiveClock
	registry *prometheus.Registry
	sim      *aivensim.Simulator
	project  *aivensim.Project
	kafka    *aivensim.Service
	search   *aivensim.Service
	valkey   *aivensim.Service
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(start)
	sim := aivensim.New(aivensim.Options{Token: token, Clock: clock, KeySize: 2048, ECDSA: true, UserLimit: -1})
	f := fixture{clock: clock, registry: prometheus.NewRegistry(), sim: sim, project: sim.AddProject("dev")}
	f.kafka = f.project.AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	f.search = f.project.AddService("search", aivensim.ServiceConfig{Type: aivensim.OpenSearch})
	f.valkey = f.project.AddService("valkey", aivensim.ServiceConfig{Type: aivensim.Valkey})
	f.Client = newClient(t, sim, Options{Clock: clock, Registry: f.registry})
	return f
}

// newClient returns a client of a handler.
func newClient(t *testing.T, h http.Handler, o Options) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	if o.URL == "" {
		o.URL = server.URL
	}
	if o.Token == nil {
		o.Token = func() string { return " " + token + "\n" }
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.pause = time.Millisecond
	return c
}

// answering returns a client of an API that always answers the same.
func answering(t *testing.T, status int, body string, header ...string) *Client {
	t.Helper()
	return newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}), Options{Clock: clocktesting.NewFakePassiveClock(start)})
}

func (f fixture) pass(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// requests returns how many requests of an operation arrived.
func (f fixture) requests(o aivensim.Operation) int { return f.sim.Counters().Requests[o] }

// read returns the snapshot of a service.
func (f fixture) read(t *testing.T, ref Ref) *Service {
	t.Helper()
	s, err := f.Service(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// create creates a user that has to be created.
func (f fixture) create(t *testing.T, ref Ref, name string) *User {
	t.Helper()
	u, err := f.CreateUser(t.Context(), ref, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-ticker.C {
		if is() {
			return
		}
	}
	t.Fatalf("waited in vain until %s", what)
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func isError(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("want %v, got %v", target, err)
	}
}

func TestNewRefuses(t *testing.T) {
	some := func() string { return token }
	tests := map[string]struct {
		options Options
		want    string
	}{
		"a client without a token":    {Options{}, "needs a token"},
		"a relative URL":              {Options{Token: some, URL: "api.aiven.io"}, "must be absolute"},
		"a URL of another scheme":     {Options{Token: some, URL: "ftp://canary"}, "must be absolute"},
		"a URL that cannot be parsed": {Options{Token: some, URL: "https://canary:pw word@host:x"}, "must be absolute"},
		"a URL with a user":           {Options{Token: some, URL: "https://canary@host"}, "must not hold a user"},
		"extra CAs that are no PEM":   {Options{Token: some, RootCAs: []byte("canary")}, "no PEM certificate found"},
		"extra CAs with a key":        {Options{Token: some, RootCAs: pemOf("PRIVATE KEY")}, "PEM block 1 is no certificate"},
		"extra CAs that are broken":   {Options{Token: some, RootCAs: pemOf("CERTIFICATE")}, "parse certificate 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("want an error with %q, got %v", test.want, err)
			}
		})
	}
}

func pemOf(kind string) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("canary")})
}

func TestTrustsExtraCAs(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"projects":[]}`))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	tests := map[string]struct {
		roots []byte
		want  string
	}{
		"it accepts the API's certificate":             {ca, ""},
		"it says why it does not, without an extra CA": {nil, "unknown authority"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := New(Options{URL: server.URL, RootCAs: test.roots, Token: func() string { return token }})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			err = c.Probe(t.Context())
			if test.want == "" && err != nil || test.want != "" && !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, err)
			}
		})
	}
}

func TestRequestsAsTheAPIExpects(t *testing.T) {
	type request struct{ Path, Secrets string }
	tests := map[string]struct {
		call func(context.Context, *Client)
		want request
	}{
		"it asks for the secrets of a service": {
			func(ctx context.Context, c *Client) { _, _ = c.Service(ctx, kafka) },
			request{"GET /base/v1/project/dev/service/kafka", "true"},
		},
		"it asks for the secrets of a user, and escapes its name": {
			func(ctx context.Context, c *Client) { _, _ = c.User(ctx, kafka, "a/b") },
			request{"GET /base/v1/project/dev/service/kafka/user/a%2Fb", "true"},
		},
		"it reads the CA": {
			func(ctx context.Context, c *Client) { _, _ = c.CA(ctx, "dev") },
			request{"GET /base/v1/project/dev/kms/ca", ""},
		},
		"it creates a user": {
			func(ctx context.Context, c *Client) { _, _ = c.CreateUser(ctx, kafka, "a", nil) },
			request{"POST /base/v1/project/dev/service/kafka/user", ""},
		},
		"it sets access control": {
			func(ctx context.Context, c *Client) { _ = c.SetAccessControl(ctx, valkey, "a", AccessControl{}) },
			request{"PUT /base/v1/project/dev/service/valkey/user/a", ""},
		},
		"it deletes a user, whose name is escaped": {
			func(ctx context.Context, c *Client) { _ = c.DeleteUser(ctx, kafka, "a/../b") },
			request{"DELETE /base/v1/project/dev/service/kafka/user/a%2F..%2Fb", ""},
		},
		"it adds a Kafka ACL entry": {
			func(ctx context.Context, c *Client) {
				_ = c.AddKafkaACL(ctx, kafka, KafkaACL{Username: "a", Topic: "t"})
			},
			request{"POST /base/v1/project/dev/service/kafka/acl", ""},
		},
		"it deletes a Kafka ACL entry": {
			func(ctx context.Context, c *Client) { _ = c.DeleteKafkaACL(ctx, kafka, KafkaACL{ID: "acl1"}) },
			request{"DELETE /base/v1/project/dev/service/kafka/acl/acl1", ""},
		},
		"it reads the ACL document": {
			func(ctx context.Context, c *Client) { _ = c.RevokeOpenSearch(ctx, search, "a") },
			request{"GET /base/v1/project/dev/service/search/opensearch/acl", ""},
		},
		"it lists projects": {
			func(ctx context.Context, c *Client) { _ = c.Probe(ctx) },
			request{"GET /base/v1/project", ""},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var got request
			header := http.Header{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				got = request{r.Method + " " + r.URL.EscapedPath(), r.URL.Query().Get("include_secrets")}
				header = r.Header
				w.WriteHeader(http.StatusNotFound)
			}))
			defer server.Close()
			c := newClient(t, nil, Options{URL: server.URL + "/base/", UserAgent: "keysmith/1.2.3"})
			test.call(t.Context(), c)
			mu.Lock()
			defer mu.Unlock()
			diff(t, test.want, got)
			diff(t, []string{"aivenv1 " + token, "keysmith/1.2.3"}, []string{header.Get("Authorization"), header.Get("User-Agent")})
		})
	}
}

func TestRefusesNamesThatArePaths(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	bad := Ref{"dev", ".."}
	for name, call := range map[string]func() error{
		"a service":           func() error { _, err := f.Service(ctx, bad); return err },
		"a project":           func() error { _, err := f.CA(ctx, ""); return err },
		"a user to read":      func() error { _, err := f.User(ctx, kafka, ".."); return err },
		"a user to create":    func() error { _, err := f.CreateUser(ctx, kafka, ".", nil); return err },
		"a user to delete":    func() error { return f.DeleteUser(ctx, kafka, "..") },
		"a user to change":    func() error { return f.SetAccessControl(ctx, valkey, "", AccessControl{}) },
		"an entry to add":     func() error { return f.AddKafkaACL(ctx, bad, KafkaACL{Username: "a", Topic: "t"}) },
		"an entry to delete":  func() error { return f.DeleteKafkaACL(ctx, kafka, KafkaACL{}) },
		"a service to revoke": func() error { return f.RevokeOpenSearch(ctx, bad, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			if err := call(); !terminal(err) {
				t.Errorf("want a terminal error, got %v", err)
			}
		})
	}
	diff(t, 0, f.sim.Counters().Total())
}

func TestTokenIsAskedBeforeEveryCall(t *testing.T) {
	var current string
	sim := aivensim.New(aivensim.Options{Token: "new", ECDSA: true, KeySize: 2048})
	c := newClient(t, sim, Options{Token: func() string { return current }})
	isError(t, c.Probe(t.Context()), ErrUnauthorized)
	diff(t, "list projects: there is no API token", fmt.Sprint(c.Ready()))
	diff(t, 0, sim.Counters().Total())
	current = "old"
	isError(t, c.Probe(t.Context()), ErrUnauthorized)
	current = "new\n"
	if err := c.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestContextThatEnded(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.CreateUser(ctx, kafka, "a", nil)
	isError(t, err, context.Canceled)
	if errors.Is(err, ErrOutcomeUnknown) {
		t.Error("nothing was sent, so that the outcome is known")
	}
	isError(t, f.GrantOpenSearch(ctx, search, "a", []OpenSearchRule{{"*", "read"}}), context.Canceled)
	_, err = f.Service(ctx, kafka)
	isError(t, err, context.Canceled)
	diff(t, 0, f.sim.Counters().Total())
}

func TestCloseEndsEverything(t *testing.T) {
	arrived := make(chan struct{}, 9)
	c := newClient(t, stalled(arrived), Options{})
	failed := make(chan error)
	go func() { _, err := c.Service(t.Context(), kafka); failed <- err }()
	go func() { _, err := c.User(t.Context(), kafka, "a"); failed <- err }()
	<-arrived
	<-arrived
	c.Close()
	isError(t, <-failed, context.Canceled)
	isError(t, <-failed, context.Canceled)
	isError(t, c.DeleteUser(t.Context(), kafka, "a"), context.Canceled)
}

// stalled is an API that takes requests and never answers.
func stalled(arrived chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = http.MaxBytesReader(w, r.Body, 1<<20).Read(make([]byte, 1<<16)) // else the end of the connection is not noticed
		arrived <- struct{}{}
		<-r.Context().Done()
	})
}

func TestStalledAPI(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 9)
	c := newClient(t, stalled(arrived), Options{Timeout: time.Second})
	_, err := c.Service(t.Context(), kafka)
	diff(t, "read service dev/kafka: no answer within 1s", err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the deadline of a call must not be taken for the caller's")
	}
	diff(t, 1, len(arrived))
	_, err = c.CreateUser(t.Context(), kafka, "a", nil)
	isError(t, err, ErrOutcomeUnknown)
}

func TestProjectThatHangsHoldsUpNobodyElse(t *testing.T) {
	f := newFixture(t)
	f.sim.AddProject("slow")
	f.sim.Inject(aivensim.Rule{Project: "slow", Delay: patience})
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 40 {
		callers.Go(func() { _, _ = f.User(ctx, Ref{"slow", "s"}, "a") })
	}
	eventually(t, "the project has all the calls it may have", func() bool { return f.sim.Counters().InFlight == 16 })
	f.read(t, kafka)
	diff(t, 17, f.sim.Counters().MaxInFlight)
	cancel()
	callers.Wait()
}

func TestTokenGoesToTheAPIAlone(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked for %s, with %q", r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := answering(t, status, "", "Location", other.URL+"/v1/project")
		if err := c.Probe(t.Context()); err == nil {
			t.Errorf("a redirection (%d) is taken for an answer", status)
		}
	}
}
