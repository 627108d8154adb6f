package aivensim_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

func TestControl(t *testing.T) {
	const (
		ok       = `{"ok":true}`
		notFound = `{"error":"Not found"}`
		kafka    = "?project=dev&service=kafka"
		search   = "?project=dev&service=opensearch"
		valkey   = "?project=dev&service=valkey"
	)
	tests := map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"lists services": {"GET", "/services", "", 200, `{"services":[` +
			`{"project":"dev","service":"kafka","state":"RUNNING","type":"kafka","users":2},` +
			`{"project":"dev","service":"opensearch","state":"RUNNING","type":"opensearch","users":1},` +
			`{"project":"dev","service":"valkey","state":"RUNNING","type":"valkey","users":1}]}`},
		"lists users": {"GET", "/users" + kafka, "", 200,
			`{"users":[{"username":"avnadmin","type":"primary","generation":1},{"username":"app","type":"normal","generation":1}]}`},
		"adds a user":               {"POST", "/users" + kafka + "&username=jane", "", 200, ok},
		"needs a name":              {"POST", "/users" + kafka, `{"type":"primary"}`, 400, `{"error":"username: want a name"}`},
		"deletes a user":            {"DELETE", "/users" + kafka + "&username=app", "", 200, ok},
		"does not know a user":      {"DELETE", "/users" + kafka + "&username=nobody", "", 404, notFound},
		"does not know a service":   {"GET", "/users?project=dev&service=other", "", 404, notFound},
		"does not know a project":   {"POST", "/ca?project=other", "", 404, notFound},
		"does not know an action":   {"GET", "/state" + kafka, "", 404, notFound},
		"shows Kafka ACLs":          {"GET", "/acl" + kafka, "", 200, `{"acl":[{"id":"default","permission":"admin","topic":"*","username":"avnadmin"}],"kafka_acl":[]}`},
		"shows OpenSearch ACLs":     {"GET", "/acl" + search, "", 200, `{"opensearch_acl_config":{"acls":[],"enabled":false}}`},
		"shows nothing for Valkey":  {"GET", "/acl" + valkey, "", 200, `{}`},
		"has no ACLs for Valkey":    {"POST", "/acl" + valkey, `{}`, 400, `{"error":"Operation is not supported for this service type"}`},
		"sets no document on Kafka": {"PUT", "/acl" + kafka, `{}`, 400, `{"error":"Operation is not supported for this service type"}`},
		"deletes an ACL":            {"DELETE", "/acl" + kafka + "&id=default", "", 200, ok},
		"does not know an ACL":      {"DELETE", "/acl" + kafka + "&id=other", "", 404, notFound},
		"refuses an unknown state":  {"POST", "/state" + kafka + "&state=ON", "", 400, `{"error":"Invalid input: unknown state"}`},
		"refuses a strange latency": {"POST", "/latency?duration=long", "", 400,
			`{"error":"duration: want \"20ms\", \"uniform 10ms 50ms\", \"lognormal 20ms 0.5\" or \"pareto 10ms 1.5\""}`},
		"refuses a strange clock":   {"POST", "/clock?advance=a", "", 400, `{"error":"advance: time: invalid duration \"a\""}`},
		"refuses a strange port":    {"POST", "/address" + kafka + "&port=a", "", 400, `{"error":"port: strconv.Atoi: parsing \"a\": invalid syntax"}`},
		"refuses another type":      {"PATCH", "/config" + kafka, `{"type":"valkey"}`, 400, `{"error":"type: it is kafka, and stays so"}`},
		"refuses an unknown config": {"PATCH", "/config" + kafka, `{"nullUri":true,"numericport":1,"users":1}`, 400, `{"error":"numericPort: want bool, got number"}`},
		"refuses an unknown type":   {"POST", "/services?project=dev&service=new", `{"type":"mysql"}`, 400, `{"error":"type: want kafka, opensearch, pg or valkey, got \"mysql\""}`},
		"refuses a service of none": {"POST", "/services?project=dev", `{"type":"kafka"}`, 400, `{"error":"service: want a name"}`},
		"refuses a project of none": {"POST", "/projects", "", 400, `{"error":"project: want a name"}`},
		"refuses no token":          {"POST", "/tokens", `{}`, 400, `{"error":"token: want a token"}`},
		"refuses a strange token":   {"POST", "/tokens", `{"token":"t","secrets":"some"}`, 400, `{"error":"secrets: want shown, forbidden or hidden, got \"some\""}`},
		"refuses an unknown rule":   {"POST", "/rules", `{"answers":1}`, 400, `{"error":"unknown field \"answers\""}`},
		"does not know a rule":      {"DELETE", "/rules?id=7", "", 404, notFound},
		"logs in":                   {"POST", "/authenticate", `{"project":"dev","service":"kafka","username":"app","password":"a-chosen-password"}`, 200, ok},
		"refuses a login":           {"POST", "/authenticate", `{"project":"dev","service":"kafka","username":"app","password":"other"}`, 200, `{"ok":false}`},
		"resets the counters":       {"POST", "/reset-counters", "", 200, ok},
		"shows the journal":         {"GET", "/journal", "", 200, `{"entries":[{"method":"GET","operation":"ProjectList","time":"2026-03-01T12:00:00Z","status":401,"bytes":105}]}`},
		"shows the clock":           {"GET", "/clock", "", 200, `{"now":"2026-03-01T12:00:00Z"}`},
		"moves the clock":           {"POST", "/clock?advance=720h", "", 200, `{"now":"2026-03-31T12:00:00Z"}`},
		"shows tokens":              {"GET", "/tokens", "", 200, `{"tokens":[{"id":"3c469e9d"}]}`},
		"shows a configuration":     {"GET", "/config" + valkey, "", 200, `{"type":"valkey","state":"RUNNING","replica":true}`},
		"changes a configuration":   {"PATCH", "/config" + valkey, `{"noTLS":true,"state":"REBUILDING"}`, 200, `{"type":"valkey","state":"REBUILDING","replica":true,"noTLS":true}`},
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

// TestControlChanges: an action has the effect that the method of the Go API has.
func TestControlChanges(t *testing.T) {
	const kafka, search, valkey = "?project=dev&service=kafka", "?project=dev&service=opensearch", "?project=dev&service=valkey"
	user := func(s *aivensim.Service) aivensim.User { u, _ := s.User("app"); return u }
	tests := map[string]struct {
		method, path, body string
		look               func(fixture) any
		want               any
	}{
		"adds a project":    {"POST", "/projects?project=new", "", func(f fixture) any { return len(f.sim.Projects()) }, 2},
		"removes a project": {"DELETE", "/projects?project=dev", "", func(f fixture) any { return len(f.sim.Projects()) }, 0},
		"adds a service":    {"POST", "/services?project=dev&service=new", `{"type":"kafka","sasl":true}`, func(f fixture) any { return len(f.sim.Service("dev", "new").Components()) }, 2},
		"makes a service anew": {"POST", "/services" + valkey, "", func(f fixture) any {
			s := f.sim.Service("dev", "valkey")
			return len(s.Users()) + 10*len(s.Components())
		}, 21},
		"removes a service":    {"DELETE", "/services" + valkey, "", func(f fixture) any { return f.sim.Service("dev", "valkey") == nil }, true},
		"sets a state":         {"POST", "/state" + kafka + "&state=POWEROFF", "", func(f fixture) any { return f.kafka.State() }, aivensim.PowerOff},
		"sets components":      {"PUT", "/components" + valkey, `{"components":[]}`, func(f fixture) any { return len(f.valkey.Components()) }, 0},
		"shuffles components":  {"POST", "/components" + valkey, ``, func(f fixture) any { return len(f.valkey.Components()) }, 2},
		"moves a service":      {"POST", "/address" + valkey + "&host=h&port=7", "", func(f fixture) any { c := f.valkey.Components()[0]; return fmt.Sprint(c.Host, c.Port) }, "h7"},
		"adds a user":          {"POST", "/users" + kafka, `{"username":"b","type":"primary","password":"p"}`, func(f fixture) any { u, _ := f.kafka.User("b"); return u.Type + u.Password }, "primaryp"},
		"sets a password":      {"POST", "/password" + valkey + "&username=app", `{"password":"p"}`, func(f fixture) any { return user(f.valkey).Password }, "p"},
		"overrides a password": {"POST", "/password" + valkey + "&username=app&override=true", `{"password":"p"}`, func(f fixture) any { return f.do("GET", "/dev/service/valkey/user/app", "").at(t, "user", "password") }, nil},
		"sets access control":  {"PUT", "/access-control" + valkey + "&username=app", `{"valkey_acl_keys":["k"]}`, func(f fixture) any { return user(f.valkey).AccessControl.Keys }, []string{"k"}},
		"shuffles rights":      {"POST", "/access-control" + valkey + "&username=app", "", func(f fixture) any { return len(user(f.valkey).AccessControl.Keys) }, 9},
		"renews a certificate": {"POST", "/certificate" + kafka + "&username=app", "", func(f fixture) any { return user(f.kafka).ExpiringNotAfter.IsZero() }, false},
		"ends a certificate":   {"POST", "/certificate" + kafka + "&username=app&end=2020-01-01T00:00:00Z", "", func(f fixture) any { return user(f.kafka).NotAfter.Year() }, 2020},
		"adds an ACL":          {"POST", "/acl" + kafka, `{"username":"a"}`, func(f fixture) any { return len(f.kafka.KafkaACLs()) }, 2},
		"adds a native ACL":    {"POST", "/native-acl" + kafka, `{"principal":"a"}`, func(f fixture) any { return len(f.kafka.KafkaNativeACLs()) }, 1},
		"sets a document":      {"PUT", "/acl" + search, `{"enabled":true,"acls":[{"username":"a","rules":[]}]}`, func(f fixture) any { o := f.openSearch.OpenSearchACLs(); return fmt.Sprint(o.Enabled, len(o.ACLs)) }, "true 1"},
		"adds to a document":   {"POST", "/acl" + search, `{"username":"a","rules":[]}`, func(f fixture) any { return len(f.openSearch.OpenSearchACLs().ACLs) }, 1},
		"rotates the CA":       {"POST", "/ca?project=dev", "", func(f fixture) any { return strings.Count(f.project.CA(), "BEGIN") }, 2},
		"retires the CA":       {"DELETE", "/ca?project=dev", "", func(f fixture) any { return strings.Count(f.project.CA(), "BEGIN") }, 1},
		"sets the CA":          {"PUT", "/ca?project=dev", `{"certificate":"text"}`, func(f fixture) any { return f.project.CA() }, "text"},
		"accepts a token": {"POST", "/tokens", `{"token":"new","projects":["dev"],"deny":["ServiceGet"]}`, func(f fixture) any {
			return fmt.Sprint(f.doAs("aivenv1 new", "GET", "/dev", "").status, f.doAs("aivenv1 new", "GET", "/dev/service/kafka", "").status)
		}, "200 403"},
		"revokes a token":       {"DELETE", "/tokens", `{"token":"token"}`, func(f fixture) any { return f.do("GET", "", "").status }, 401},
		"injects a rule":        {"POST", "/rules", `{"answer":{"status":418}}`, func(f fixture) any { return f.do("GET", "", "").status }, 418},
		"ends all rules":        {"DELETE", "/rules", "", func(f fixture) any { return f.do("DELETE", "", "").status }, 404},
		"ends a rule":           {"DELETE", "/rules?id=1", "", func(f fixture) any { return f.do("DELETE", "", "").status }, 404},
		"moves the clock":       {"POST", "/clock?advance=1h", "", func(f fixture) any { return f.sim.Now() }, start.Add(time.Hour)},
		"sets the latency":      {"POST", "/latency?duration=1ms", "", func(f fixture) any { return f.sim.Settings().Latency.String() }, "1ms"},
		"changes some settings": {"PATCH", "/settings", `{"lag":{"userGet":"2s"}}`, func(f fixture) any { l := f.sim.Settings().Lag; return fmt.Sprint(l.UserGet, l.Deleted) }, "2s 1s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true, Lag: aivensim.Lag{Deleted: time.Second}})
			f.kafka.AddUser(aivensim.User{Username: "app"})
			f.valkey.AddUser(aivensim.User{Username: "app", AccessControl: aivensim.AccessControl{Keys: strings.Split("abcdefghi", "")}})
			f.sim.Inject(aivensim.Rule{Method: "DELETE", Answer: aivensim.Error(417, "", "No")})
			if _, err := f.sim.Do(aivensim.Action{Method: tt.method, Path: tt.path, Body: []byte(tt.body)}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, tt.look(f)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestControlShows: what is shown can be sent back.
func TestControlShows(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, Lag: aivensim.Lag{Deleted: time.Second}, Latency: time.Millisecond})
	f.sim.Inject(aivensim.Rule{Delay: time.Second, Operation: aivensim.ServiceGet, Answer: teapot})
	const settings = `{"lag":{"accessControl":"0s","alternate":false,"credentials":"0s","deleted":"1s","kafkaACL":"0s","openSearchACL":"0s",` +
		`"service":"0s","serviceGet":"0s","userGet":"0s"},"latency":"1ms","poweredOff":409,"rateLimit":{"per":"0s","requests":0,"retryAfter":""},` +
		`"redaction":"redacted","repeatWindow":"10s","userLimit":50}`
	for path, want := range map[string]string{
		"/settings": settings,
		"/rules":    `{"rules":[{"id":1,"hits":0,"rule":{"answer":{"message":"No","status":418},"delay":"1s","operation":"ServiceGet"}}]}`,
	} {
		got, err := f.sim.Do(aivensim.Action{Method: "GET", Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Error(d)
		}
	}
	got, err := f.sim.Do(aivensim.Action{Method: "PATCH", Path: "/settings", Body: []byte(settings)})
	if d := cmp.Diff(settings, string(got)); d != "" || err != nil {
		t.Error(d, err)
	}
	var counters aivensim.Counters
	if got, err = f.sim.Do(aivensim.Action{Method: "GET", Path: "/counters"}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &counters); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(f.sim.Counters(), counters); d != "" {
		t.Error(d)
	}
}

// TestControlIsApart: nothing of it can be reached where the API is.
func TestControlIsApart(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	for _, path := range []string{"/counters", "/settings", "/v1/rules", "/v1/project/dev/service/kafka/../../../../../rules"} {
		w := httptest.NewRecorder()
		q := httptest.NewRequest("POST", path, strings.NewReader(`{}`))
		q.Header.Set("Authorization", bearer)
		f.sim.ServeHTTP(w, q)
		if w.Code != 404 && w.Code != 307 && w.Code != 301 {
			t.Errorf("want %s not found, got %d", path, w.Code)
		}
	}
	if out, err := f.sim.Do(aivensim.Action{Method: "GET", Path: "/rules"}); err != nil || string(out) != `{"rules":[]}` {
		t.Errorf("want no rules, got %s, %v", out, err)
	}
}
