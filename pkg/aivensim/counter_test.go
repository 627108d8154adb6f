package aivensim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// step is a request; - as token stands for none.
type step struct{ token, method, path, body string }

func (f fixture) run(steps ...step) {
	for _, s := range steps {
		authorization := bearer
		switch s.token {
		case "":
		case "-":
			authorization = ""
		default:
			authorization = "aivenv1 " + s.token
		}
		f.doAs(authorization, s.method, s.path, s.body)
	}
}

// TestCounters: each counter counts what it is for, and nothing else.
func TestCounters(t *testing.T) {
	id := aivensim.TokenID("token")
	const (
		users  = "/dev/service/kafka/user"
		native = `{"principal":"User:app","operation":"Read","resource_type":"Topic","resource_name":"t","pattern_type":"LITERAL","permission_type":"ALLOW"}`
		acl    = `{"permission":"read","topic":"t","username":"app"}`
	)
	app := step{"", "POST", users, `{"username":"app"}`}
	tests := map[string]struct {
		prepare func(fixture)
		steps   []step
		want    aivensim.Counters
	}{
		"counts whole services": {
			steps: []step{{"", "GET", "/dev/service/kafka", ""}, {"", "GET", "/dev/service/valkey", ""}, {"", "GET", "/dev/service/kafka", ""}, {"", "GET", "/dev/service", ""}},
			want:  aivensim.Counters{ServiceGets: map[string]int{"dev/kafka": 2, "dev/valkey": 1}},
		},
		"counts single users": {
			steps: []step{{"", "GET", users + "/avnadmin", ""}, {"", "GET", users + "/nobody", ""}},
			want:  aivensim.Counters{UserGets: map[string]int{"dev/kafka": 2}},
		},
		"counts users": {
			steps: []step{
				app,
				{"", "PUT", users + "/app", `{"operation":"reset-credentials"}`},
				{"", "PUT", users + "/app", `{"operation":"reset-credentials","new_password":"long enough"}`},
				{"", "PUT", users + "/app", `{"operation":"acknowledge-renewal"}`},
				{"", "PUT", users + "/app/credentials/reset", ""},
				{"", "PUT", users + "/nobody/credentials/reset", ""},
				{"", "DELETE", users + "/app", ""},
				{"", "DELETE", users + "/app", ""},
			},
			want: aivensim.Counters{UsersCreated: 1, UsersReset: 3, UsersDeleted: 1},
		},
		"does not count what others do": {
			prepare: func(f fixture) {
				f.kafka.AddUser(aivensim.User{Username: "app"})
				f.kafka.SetPassword("app", "other")
				f.kafka.DeleteUser("app")
				f.openSearch.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{})
			},
		},
		"counts Kafka ACLs": {
			prepare: func(f fixture) { f.kafka.AddKafkaACL(aivensim.KafkaACL{ID: "a"}) },
			steps: []step{
				{"", "POST", "/dev/service/kafka/acl", acl},
				{"", "POST", "/dev/service/kafka/kafka/acl", native},
				{"", "DELETE", "/dev/service/kafka/acl/a", ""},
				{"", "DELETE", "/dev/service/kafka/acl/b", ""},
			},
			want: aivensim.Counters{ACLsAdded: 2, ACLsDeleted: 1},
		},
		"counts duplicates": {
			prepare: func(f fixture) {
				f.kafka.AddUser(aivensim.User{Username: "app"})
				f.kafka.AddKafkaACL(aivensim.KafkaACL{Permission: "read", Topic: "t", Username: "app"})
			},
			steps: []step{app, {"", "POST", "/dev/service/kafka/acl", acl}},
			want:  aivensim.Counters{DuplicateCreates: 2},
		},
		"counts writes of OpenSearch ACLs": {
			steps: []step{
				{"", "PUT", "/dev/service/opensearch/opensearch/acl", `{"opensearch_acl_config":{"enabled":true}}`},
				{"", "PUT", "/dev/service/opensearch/opensearch/acl", `{}`},
				{"", "POST", "/dev/service/opensearch/opensearch/acl", `{"opensearch_acl_config":{"enabled":true,"acls":[]}}`},
			},
			want: aivensim.Counters{OpenSearchPuts: 2},
		},
		"counts revoked and expired tokens, not unknown ones": {
			prepare: func(f fixture) {
				f.sim.SetToken("late", aivensim.Token{Expires: start})
				f.sim.SetToken("early", aivensim.Token{Expires: start.Add(time.Second)})
				f.sim.RevokeToken("token")
			},
			steps: []step{{"", "GET", "", ""}, {"late", "GET", "", ""}, {"early", "GET", "", ""}, {"strange", "GET", "", ""}, {"-", "GET", "", ""}},
			want:  aivensim.Counters{RevokedToken: 2},
		},
		"counts work on services that are powered off": {
			prepare: func(f fixture) { f.kafka.SetState(aivensim.PowerOff) },
			steps:   []step{app, {"", "GET", "/dev/service/kafka", ""}},
			want:    aivensim.Counters{PoweredOff: 1, ServiceGets: map[string]int{"dev/kafka": 1}},
		},
		"counts deletes of built-in users": {
			steps: []step{
				{"", "DELETE", users + "/avnadmin", ""}, {"", "DELETE", "/dev/service/opensearch/user/os-sec-admin", ""},
				{"", "PUT", users + "/avnadmin/credentials/reset", ""}, {"", "DELETE", users + "/nobody", ""},
			},
			want: aivensim.Counters{BuiltInDeletes: 2},
		},
		"counts faults by kind": {
			prepare: func(f fixture) {
				f.sim.Inject(aivensim.Rule{Count: 1, Answer: teapot, Delay: 1})
				f.sim.Inject(aivensim.Rule{Count: 1, Truncate: true, BytesPerSecond: 1e9})
				f.sim.Inject(aivensim.Rule{Count: 1, Stall: 1, Before: func(aivensim.Request) {}})
				f.sim.Inject(aivensim.Rule{Count: 1, Skip: 100, Answer: teapot})
				f.sim.SetLag(aivensim.Lag{UserGet: time.Second})
			},
			steps: []step{{"", "GET", "", ""}, {"", "GET", "", ""}, {"", "GET", "", ""}, app, {"", "GET", users + "/app", ""}},
			want: aivensim.Counters{
				Faults:       map[string]int{"answer": 1, "delay": 1, "truncate": 1, "slow": 1, "stall": 1, "interference": 1, "lag": 1},
				UsersCreated: 1, UserGets: map[string]int{"dev/kafka": 1},
			},
		},
		"counts commits whose answer was replaced": {
			prepare: func(f fixture) { f.sim.Inject(aivensim.Rule{Commit: true, Answer: teapot}) },
			steps:   []step{app, app, {"", "GET", "", ""}},
			want: aivensim.Counters{
				UsersCreated: 1, CommitsLost: 1, DuplicateCreates: 1, Repeats: 1, Faults: map[string]int{"answer": 3},
			},
		},
		"counts the limit of a rate": {
			prepare: func(f fixture) {
				f.sim.Adjust(func(s *aivensim.Settings) { s.RateLimit = aivensim.RateLimit{Requests: 1, Per: time.Minute} })
				f.sim.SetToken("other", aivensim.Token{})
			},
			steps: []step{{"", "GET", "", ""}, {"other", "GET", "", ""}, {"", "GET", "", ""}, {"", "GET", "", ""}},
			want: aivensim.Counters{
				RateLimited: map[string]int{id: 2}, EarlyRequests: map[string]int{id: 1}, Faults: map[string]int{"rateLimit": 2},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			if tt.prepare != nil {
				tt.prepare(f)
			}
			f.run(tt.steps...)
			general := cmpopts.IgnoreFields(aivensim.Counters{}, "Requests", "Statuses", "BytesIn", "BytesOut", "MaxInFlight", "Writes", "Calls", "Latency")
			if d := cmp.Diff(tt.want, f.sim.Counters(), general, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGeneralCounters(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	id := aivensim.TokenID("token")
	f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceGet, Delay: 2 * time.Second})
	var size int64
	synctest.Test(t, func(t *testing.T) {
		size = int64(len(f.do("GET", "/dev/service/kafka?include_secrets=true", "").must(t).body))
		f.do("POST", "/dev/service/kafka/user", `{"username":"avnadmin"}`)
		f.do("GET", "/dev/nothing", "")
		f.doAs("aivenv1 other", "GET", "/dev/nothing", "")
	})
	got := f.sim.Counters()
	want := aivensim.Counters{
		Requests:    map[aivensim.Operation]int{aivensim.ServiceGet: 1, aivensim.ServiceUserCreate: 1, "": 2},
		Statuses:    map[int]int{200: 1, 409: 1, 404: 1, 403: 1},
		BytesIn:     map[aivensim.Operation]int64{aivensim.ServiceUserCreate: 23, aivensim.ServiceGet: 0, "": 0},
		BytesOut:    map[aivensim.Operation]int64{aivensim.ServiceGet: size, aivensim.ServiceUserCreate: 113, "": 150},
		MaxInFlight: 1,
		Writes:      1,
		Calls: []aivensim.CallCount{
			{Operation: "", Method: "GET", Status: 403, Token: aivensim.TokenID("other"), Count: 1},
			{Operation: "", Method: "GET", Status: 404, Token: id, Count: 1},
			{Operation: aivensim.ServiceGet, Method: "GET", Status: 200, Token: id, Count: 1},
			{Operation: aivensim.ServiceUserCreate, Method: "POST", Status: 409, Token: id, Count: 1},
		},
		Latency:          map[aivensim.Operation]aivensim.Histogram{aivensim.ServiceGet: {7: 1}, aivensim.ServiceUserCreate: {1}, "": {2}},
		ServiceGets:      map[string]int{"dev/kafka": 1},
		DuplicateCreates: 1,
		Faults:           map[string]int{"delay": 1},
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if got.Total() != 4 {
		t.Errorf("want 4 requests, got %d", got.Total())
	}
	entry := aivensim.Entry{
		Request: aivensim.Request{Method: "GET", Operation: aivensim.ServiceGet, Project: "dev", Service: "kafka", Query: "include_secrets=true", Token: id},
		Time:    start, Status: 200, Bytes: size, Faults: []string{"delay"},
	}
	if d := cmp.Diff(entry, f.sim.Journal()[0]); d != "" {
		t.Error(d)
	}
	f.sim.ResetCounters()
	if got := f.sim.Counters(); got.Total() != 0 || len(got.Calls) != 0 || len(f.sim.Journal()) != 0 {
		t.Errorf("want nothing, got %v", got)
	}
}

func TestRepeats(t *testing.T) {
	const path = "/dev/service/kafka/user"
	post := step{"", "POST", path, `{"username":"app"}`}
	lose := aivensim.Rule{Operation: aivensim.ServiceUserCreate, Count: 1, Answer: aivensim.Error(500, "", "No")}
	tests := map[string]struct {
		rule           aivensim.Rule
		between        []step
		pause          time.Duration
		again          step
		repeats, blind int
	}{
		"repeats blindly":                          {lose, nil, 0, post, 1, 1},
		"repeats blindly what took effect":         {aivensim.Rule{Skip: 100}, nil, 0, post, 1, 1},
		"repeats what it knows to be refused":      {aivensim.Rule{Count: 1, Answer: aivensim.Error(429, "", "No")}, nil, 0, post, 1, 0},
		"repeats after a look at the user":         {lose, []step{{"", "GET", path + "/app", ""}}, 0, post, 1, 0},
		"repeats after a look at the service":      {lose, []step{{"", "GET", "/dev/service/kafka", ""}}, 0, post, 1, 0},
		"repeats after a look at another user":     {lose, []step{{"", "GET", path + "/other", ""}}, 0, post, 1, 1},
		"repeats after a look at another service":  {lose, []step{{"", "GET", "/dev/service/valkey", ""}}, 0, post, 1, 1},
		"repeats after a look at the ACLs":         {lose, []step{{"", "GET", "/dev/service/kafka/acl", ""}}, 0, post, 1, 1},
		"repeats after a look of somebody else":    {lose, []step{{"other", "GET", path + "/app", ""}}, 0, post, 1, 1},
		"repeats after another POST":               {lose, []step{{"", "POST", path, `{"username":"b"}`}}, 0, post, 1, 1},
		"repeats at the end of the window":         {lose, nil, 10 * time.Second, post, 1, 1},
		"comes again later":                        {lose, nil, 11 * time.Second, post, 0, 0},
		"comes from somebody else":                 {lose, nil, 0, step{"other", "POST", path, post.body}, 0, 0},
		"has another body":                         {lose, nil, 0, step{"", "POST", path, `{"username":"app" }`}, 0, 0},
		"goes to another service":                  {lose, nil, 0, step{"", "POST", "/dev/service/valkey/user", post.body}, 0, 0},
		"is no POST":                               {lose, nil, 0, step{"", "PUT", path + "/app/credentials/reset", post.body}, 0, 0},
		"repeats a second time, refused meanwhile": {aivensim.Rule{Skip: 100}, []step{post}, 0, post, 2, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			f.sim.SetToken("other", aivensim.Token{})
			f.sim.Inject(tt.rule)
			f.run(post)
			f.run(tt.between...)
			f.pass(tt.pause)
			f.run(tt.again)
			got := f.sim.Counters()
			if d := cmp.Diff([]int{tt.repeats, tt.blind}, []int{got.Repeats, got.BlindRepeats}); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestLostUpdates: a and b are two writers; each letter of a document is a rule.
func TestLostUpdates(t *testing.T) {
	tests := map[string]struct {
		steps         string // reads as a?, writes as a=xyz, and others with the Go API as o=xyz
		lost, revived int
		entries       []string // of the last write
	}{
		"adds":                              {steps: "a? a=x"},
		"removes what it has seen":          {steps: "o=xy a? a=x"},
		"removes everything":                {steps: "o=xy a? a="},
		"removes what it wrote":             {steps: "a? a=xy a=x"},
		"removes after some looks":          {steps: "a? a? o=xy a? a=x"},
		"removes much, and adds":            {steps: "a? a=x a? a? a=xyz a? a=w"},
		"replaces without a look":           {steps: "o=xy a=z", lost: 2, entries: []string{"u x read", "u y read"}},
		"overwrites what came since":        {steps: "o=x a? o=xy a=xz", lost: 1, entries: []string{"u y read"}},
		"overwrites what another one wrote": {steps: "o=x a? b? a=xa b=xb", lost: 1, entries: []string{"u a read"}},
		"does so with one token":            {steps: "o=x a? a? a=xa a=xb", lost: 1, entries: []string{"u a read"}},
		"looks before it overwrites":        {steps: "o=x a? b? a=xa b? b=xb"},
		"brings back what was deleted":      {steps: "o=xy a? b? b=x a=xyz", revived: 1},
		"adds anew what was deleted":        {steps: "o=xy a? a=x a? a=xy"},
		"repeats a write":                   {steps: "o=x a? a=xy a=xy"},
		"both loses and brings back":        {steps: "o=xy a? b? b=xb a=xya", lost: 1, revived: 1, entries: []string{"u b read"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			f.sim.SetToken("a", aivensim.Token{})
			f.sim.SetToken("b", aivensim.Token{})
			for action := range strings.FieldsSeq(tt.steps) {
				const path = "/dev/service/opensearch/opensearch/acl"
				token, letters, writes := strings.Cut(strings.TrimSuffix(action, "?"), "=")
				if !writes {
					f.doAs("aivenv1 "+token, "GET", path, "").must(t)
					continue
				}
				entry := aivensim.OpenSearchACL{Username: "u", Rules: []aivensim.OpenSearchRule{}}
				for _, r := range letters {
					entry.Rules = append(entry.Rules, aivensim.OpenSearchRule{Index: string(r), Permission: "read"})
				}
				doc := aivensim.OpenSearchACLConfig{ACLs: []aivensim.OpenSearchACL{entry}}
				if token == "o" {
					f.openSearch.SetOpenSearchACLs(doc)
					continue
				}
				body, err := json.Marshal(map[string]any{"opensearch_acl_config": doc})
				if err != nil {
					t.Fatal(err)
				}
				f.doAs("aivenv1 "+token, "PUT", path, string(body)).must(t)
			}
			got := f.sim.Counters()
			if d := cmp.Diff([]int{tt.lost, tt.revived}, []int{got.LostUpdates, got.RevivedACLs}); d != "" {
				t.Error(d)
			}
			j := f.sim.Journal()
			if d := cmp.Diff(tt.entries, j[len(j)-1].LostUpdates); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGauges(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	for _, name := range []string{"named", "globbed-1", "native", "bare", "old"} {
		f.kafka.AddUser(aivensim.User{Username: name})
	}
	for _, name := range []string{"named", "globbed-*", "gone", "old"} {
		f.kafka.AddKafkaACL(aivensim.KafkaACL{Permission: "read", Topic: "t", Username: name})
	}
	for _, principal := range []string{"User:native", "User:missing", "User:*x"} {
		f.kafka.AddKafkaNativeACL(aivensim.KafkaNativeACL{Principal: principal})
	}
	f.kafka.SetCertificateEnd("old", start.Add(89*24*time.Hour))
	f.kafka.RenewCertificate("native")
	f.kafka.SetPassword("native", "another")
	f.openSearch.AddUser(aivensim.User{Username: "app"})
	f.openSearch.AddOpenSearchACL(aivensim.OpenSearchACL{Username: "left"})
	f.valkey.AddUser(aivensim.User{Username: "free"})
	f.valkey.AddUser(aivensim.User{Username: "bound", AccessControl: aivensim.AccessControl{Keys: []string{"k"}}})
	want := map[string]aivensim.Gauges{
		"kafka": {
			Users: 5, KafkaACLs: 5, KafkaNativeACLs: 3, OrphanACLs: []string{"gone", "missing"}, UsersWithoutACL: []string{"bare"},
			Expiring:    []string{"native", "old"},
			Generations: map[string]int{"avnadmin": 1, "named": 1, "globbed-1": 1, "native": 3, "bare": 1, "old": 2},
		},
		"opensearch": {
			Users: 1, OpenSearchACLs: 1, OrphanACLs: []string{"left"}, UsersWithoutACL: []string{"app"}, Expiring: []string{},
			Generations: map[string]int{"avnadmin": 1, "app": 1},
		},
		"valkey": {
			Users: 2, OrphanACLs: []string{}, UsersWithoutACL: []string{"free"}, Expiring: []string{},
			Generations: map[string]int{"default": 1, "free": 1, "bound": 1},
		},
	}
	got := map[string]aivensim.Gauges{}
	for _, s := range f.project.Services() {
		got[s.Name()] = s.Gauges()
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestReproducible: the same requests in the same order meet the same faults, and the same ids and passwords.
func TestReproducible(t *testing.T) {
	run := func(seed uint64) (out []string) {
		f := newFixture(t, aivensim.Options{
			ECDSA: true, Seed: seed, Latency: 0, Lag: aivensim.Lag{UserGet: 2 * time.Second, Alternate: true},
			RateLimit: aivensim.RateLimit{Requests: 3, Per: time.Minute},
			Rules: []aivensim.Rule{
				{Probability: 0.2, Answer: aivensim.Error(503, "", "No")},
				{Probability: 0.2, Commit: true, Answer: aivensim.Error(500, "", "No")},
				{Probability: 0.5, Latency: aivensim.Pareto(time.Second, 1)},
			},
		})
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			for i := range 60 {
				name := fmt.Sprint("app-", i/3)
				f.run(
					step{"", "POST", "/dev/service/valkey/user", `{"username":"` + name + `"}`},
					step{"", "GET", "/dev/service/valkey/user/" + name, ""},
				)
				f.pass(15 * time.Second)
				out = append(out, fmt.Sprint(time.Since(begin)))
			}
		})
		for _, e := range f.sim.Journal() {
			out = append(out, fmt.Sprint(e))
		}
		for _, u := range f.valkey.Users() {
			out = append(out, u.Username+" "+u.Password)
		}
		return out
	}
	first := run(1)
	if d := cmp.Diff(first, run(1)); d != "" {
		t.Error(d)
	}
	if cmp.Equal(first, run(2)) {
		t.Error("want a difference between two seeds")
	}
}

// TestNoSecretIsShown: passwords, tokens and keys are in the answers of the API only.
func TestNoSecretIsShown(t *testing.T) {
	const canary = "canary-of-a-password"
	f := newFixture(t, aivensim.Options{ECDSA: true, Token: "canary-of-a-token"})
	f.kafka.AddUser(aivensim.User{Username: "app", Password: canary})
	f.sim.Inject(aivensim.Rule{Method: "DELETE", Do: []aivensim.Action{{Method: "GET", Path: "/users?project=dev&service=none"}}})
	f.run(
		step{"canary-of-a-token", "GET", "/dev/service/kafka?include_secrets=true", ""},
		step{"canary-of-a-token", "PUT", "/dev/service/kafka/user/app", `{"operation":"reset-credentials","new_password":"` + canary + `"}`},
		step{"canary-of-a-token", "PUT", "/dev/service/kafka/user/app", `{"operation":"reset-credentials","new_password":"canary"}`},
		step{"canary-of-another-token", "DELETE", "/dev/service/kafka/user/app", ""},
		step{"canary-of-a-token", "POST", "/dev/service/kafka/user", `{"username":"other"}`},
	)
	u, _ := f.kafka.User("app")
	key := strings.Split(u.AccessKey, "\n")[1]
	for _, path := range []string{
		"/settings", "/rules", "/clock", "/tokens", "/counters", "/gauges", "/journal", "/services", "/config?project=dev&service=kafka",
		"/components?project=dev&service=kafka", "/acl?project=dev&service=kafka", "/users?project=dev&service=kafka", "/ca?project=dev",
	} {
		out, err := f.sim.Do(aivensim.Action{Method: http.MethodGet, Path: path})
		if err != nil {
			t.Error(err)
		}
		for _, secret := range []string{"canary", key, "AVNS_"} {
			if strings.Contains(string(out), secret) {
				t.Errorf("want no secret in %s, got %s", path, out)
			}
		}
	}
}
