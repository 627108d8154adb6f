package aivensim_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

func TestControl(t *testing.T) {
	const ok = `{"ok":true}`
	tests := map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"lists services": {"GET", "/services", "", 200, `{"services":[` +
			`{"project":"dev","service":"kafka","state":"RUNNING","type":"kafka","users":2},` +
			`{"project":"dev","service":"opensearch","state":"RUNNING","type":"opensearch","users":1},` +
			`{"project":"dev","service":"valkey","state":"RUNNING","type":"valkey","users":1}]}`},
		"lists users": {"GET", "/users?project=dev&service=kafka", "", 200,
			`{"users":[{"username":"avnadmin","type":"primary"},{"username":"app","type":"normal"}]}`},
		"adds a user":               {"POST", "/users?project=dev&service=kafka&username=jane", "", 200, ok},
		"deletes a user":            {"DELETE", "/users?project=dev&service=kafka&username=app", "", 200, ok},
		"does not know a user":      {"DELETE", "/users?project=dev&service=kafka&username=nobody", "", 404, `{"error":"Not found"}`},
		"does not know a service":   {"GET", "/users?project=dev&service=other", "", 404, `{"error":"Not found"}`},
		"shows Kafka ACLs":          {"GET", "/acl?project=dev&service=kafka", "", 200, `{"acl":[{"id":"default","permission":"admin","topic":"*","username":"avnadmin"}],"kafka_acl":[]}`},
		"shows OpenSearch ACLs":     {"GET", "/acl?project=dev&service=opensearch", "", 200, `{"opensearch_acl_config":{"acls":[],"enabled":false}}`},
		"shows nothing for Valkey":  {"GET", "/acl?project=dev&service=valkey", "", 200, `{}`},
		"sets a state":              {"POST", "/state?project=dev&service=kafka&state=POWEROFF", "", 200, ok},
		"refuses an unknown state":  {"POST", "/state?project=dev&service=kafka&state=ON", "", 400, `{"error":"Invalid input: unknown state"}`},
		"sets the latency":          {"POST", "/latency?duration=1ms", "", 200, ok},
		"refuses a strange latency": {"POST", "/latency?duration=long", "", 400, `{"error":"time: invalid duration \"long\""}`},
		"logs in":                   {"POST", "/authenticate", `{"project":"dev","service":"kafka","username":"app","password":"a-chosen-password"}`, 200, ok},
		"refuses a login":           {"POST", "/authenticate", `{"project":"dev","service":"kafka","username":"app","password":"other"}`, 200, `{"ok":false}`},
		"counts":                    {"GET", "/counters", "", 200, `{"requests":{"ProjectList":1},"statuses":{"401":1},"bytesOut":{"ProjectList":105},"inFlight":0,"maxInFlight":1,"writes":0}`},
		"resets the counters":       {"POST", "/reset-counters", "", 200, ok},
		"shows the journal":         {"GET", "/journal", "", 200, `{"entries":[{"method":"GET","operation":"ProjectList","time":"2026-03-01T12:00:00Z","status":401,"bytes":105}]}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			f.kafka.AddUser(aivensim.User{Username: "app", Password: "a-chosen-password"})
			f.doAs("", "GET", "", "")
			w := httptest.NewRecorder()
			f.sim.Control().ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
			if w.Code != tt.status {
				t.Errorf("want status %d, got %d", tt.status, w.Code)
			}
			if d := cmp.Diff(tt.want, w.Body.String()); d != "" {
				t.Error(d)
			}
			if strings.Contains(w.Body.String(), "a-chosen-password") {
				t.Error("want no secret in the answer")
			}
		})
	}
}

// TestControlIsApart: nothing of it can be reached where the API is.
func TestControlIsApart(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	w := httptest.NewRecorder()
	f.sim.ServeHTTP(w, httptest.NewRequest("GET", "/counters", nil))
	if w.Code != 401 {
		t.Errorf("want status 401, got %d", w.Code)
	}
}
