package aivensim_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aiven/aiven-go-client/v2"
	"github.com/hashicorp/go-retryablehttp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

const bearer = "aivenv1 token"

// start is the time of the fake clock.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a simulator with one service of each type in project dev, whose clock stands still. Keys are small.
type fixture struct {
	sim                       *aivensim.Simulator
	clock                     *clocktesting.FakePassiveClock
	project                   *aivensim.Project
	kafka, openSearch, valkey *aivensim.Service
}

func newFixture(t *testing.T, o aivensim.Options) fixture {
	t.Helper()
	c := clocktesting.NewFakePassiveClock(start)
	o.Clock, o.KeySize = c, 2048
	f := fixture{sim: aivensim.New(o), clock: c}
	f.project = f.sim.AddProject("dev")
	f.kafka = f.project.AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	f.openSearch = f.project.AddService("opensearch", aivensim.ServiceConfig{Type: aivensim.OpenSearch})
	f.valkey = f.project.AddService("valkey", aivensim.ServiceConfig{Type: aivensim.Valkey, Replica: true})
	return f
}

func (f fixture) pass(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// serve starts the simulator on a socket and returns its address, without scheme.
func (f fixture) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(f.sim)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// client returns Aiven's client as it comes, save that it talks to the simulator and does not wait between attempts.
// Its base URL is a global of its process, hence the rewriting.
func (f fixture) client(t *testing.T) *aiven.Client {
	t.Helper()
	c, err := aiven.NewTokenClient("token", "test")
	if err != nil {
		t.Fatal(err)
	}
	r := c.Client.Transport.(*retryablehttp.RoundTripper).Client
	r.HTTPClient.Transport = redirect{to: f.serve(t), base: r.HTTPClient.Transport}
	r.Backoff = func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return 0 }
	return c
}

// redirect sends every request to one address.
type redirect struct {
	to   string
	base http.RoundTripper
}

func (r redirect) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.URL.Scheme, q.URL.Host = "http", r.to
	return r.base.RoundTrip(q)
}

// response is an answer as it is on the wire.
type response struct {
	status int
	header http.Header
	body   string
}

// object returns the body as a JSON object.
func (r response) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("decode %s: %s", r.body, err)
	}
	return v
}

// at returns a part of the body: object keys, and list positions as numbers.
func (r response) at(t *testing.T, path ...any) any {
	t.Helper()
	var v any = r.object(t)
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

// do sends a request without a socket. The path begins after /v1/project.
func (f fixture) do(method, path, body string) response {
	return f.doAs(bearer, method, path, body)
}

func (f fixture) doAs(authorization, method, path, body string) response {
	q := httptest.NewRequest(method, "/v1/project"+path, strings.NewReader(body))
	if authorization != "" {
		q.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	f.sim.ServeHTTP(w, q)
	return response{status: w.Code, header: w.Header(), body: w.Body.String()}
}

// must fails the test unless the answer is 200.
func (r response) must(t *testing.T) response {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("want status 200, got %d: %s", r.status, r.body)
	}
	return r
}
