package aivensim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// TestLags: reads show a change late, each kind in its own time, and the change takes effect at once.
func TestLags(t *testing.T) {
	const (
		search = "/dev/service/opensearch/opensearch/acl"
		list   = "/dev/service/kafka/acl"
		native = "/dev/service/kafka/kafka/acl"
	)
	length := func(f fixture, path string, where ...any) string {
		return fmt.Sprint(len(f.do("GET", path, "").must(t).at(t, where...).([]any)))
	}
	userGet := func(f fixture) string { return fmt.Sprint(f.do("GET", "/dev/service/kafka/user/app", "").status) }
	listed := func(f fixture) string {
		return fmt.Sprint(strings.Contains(f.do("GET", "/dev/service/kafka", "").must(t).body, `"username":"app","type"`)) + " " +
			fmt.Sprint(strings.Contains(f.do("GET", "/dev/service", "").must(t).body, `"username":"app","type"`))
	}
	create := func(f fixture) response { return f.do("POST", "/dev/service/kafka/user", `{"username":"app"}`) }
	remove := func(f fixture) response { return f.do("DELETE", "/dev/service/kafka/user/app", "") }
	keys := func(f fixture) string {
		return fmt.Sprint(f.do("GET", "/dev/service/valkey/user/cache", "").must(t).at(t, "user", "access_control", "valkey_acl_keys"))
	}
	tests := map[string]struct {
		lag           aivensim.Lag
		change        func(fixture) response
		look          func(fixture) string
		before, after string // what reads show during the lag of ten seconds, and then
	}{
		"hides a new user from user get":   {aivensim.Lag{UserGet: 10 * time.Second}, create, userGet, "404", "200"},
		"hides a new user in services":     {aivensim.Lag{ServiceGet: 10 * time.Second}, create, listed, "false false", "true true"},
		"shows a new user in the other":    {aivensim.Lag{ServiceGet: 10 * time.Second}, create, userGet, "200", "200"},
		"shows a deleted user to user get": {aivensim.Lag{Deleted: 10 * time.Second}, func(f fixture) response { create(f); return remove(f) }, userGet, "200", "404"},
		"shows a deleted user in services": {aivensim.Lag{Deleted: 10 * time.Second}, func(f fixture) response { create(f); return remove(f) }, listed, "true true", "false false"},
		"shows a user made again as it is": {
			aivensim.Lag{Deleted: 10 * time.Second, UserGet: 10 * time.Second},
			func(f fixture) response { create(f); remove(f); return create(f) }, userGet, "404", "200",
		},
		"shows a user made again by others once": {
			aivensim.Lag{Deleted: 10 * time.Second},
			func(f fixture) response {
				create(f)
				f.kafka.AddUser(aivensim.User{Username: "other"})
				r := remove(f)
				f.kafka.AddUser(aivensim.User{Username: "app"})
				return r
			},
			func(f fixture) string { return length(f, "/dev/service/kafka", "service", "users") }, "3", "3",
		},
		"shows former rights": {
			aivensim.Lag{AccessControl: 10 * time.Second},
			func(f fixture) response {
				return f.do("PUT", "/dev/service/valkey/user/cache", `{"operation":"set-access-control","access_control":{"valkey_acl_keys":["new"]}}`)
			}, keys, "[old]", "[new]",
		},
		"shows new rights of a reset user": {
			aivensim.Lag{AccessControl: 10 * time.Second, Credentials: 10 * time.Second},
			func(f fixture) response { return f.do("PUT", "/dev/service/valkey/user/cache/credentials/reset", "") }, keys, "[old]", "[old]",
		},
		"hides a new Kafka ACL in the list": {
			aivensim.Lag{KafkaACL: 10 * time.Second},
			func(f fixture) response {
				return f.do("POST", list, `{"permission":"read","topic":"t","username":"b"}`)
			},
			func(f fixture) string { return length(f, list, "acl") }, "2", "3",
		},
		"hides a new Kafka ACL in the service": {
			aivensim.Lag{KafkaACL: 10 * time.Second},
			func(f fixture) response {
				return f.do("POST", list, `{"permission":"read","topic":"t","username":"b"}`)
			},
			func(f fixture) string { return length(f, "/dev/service/kafka", "service", "acl") }, "2", "3",
		},
		"shows a deleted Kafka ACL": {
			aivensim.Lag{KafkaACL: 10 * time.Second},
			func(f fixture) response { return f.do("DELETE", list+"/first", "") },
			func(f fixture) string { return length(f, list, "acl") }, "2", "1",
		},
		"shows a deleted native ACL": {
			aivensim.Lag{KafkaACL: 10 * time.Second},
			func(f fixture) response { return f.do("DELETE", native+"/native", "") },
			func(f fixture) string {
				return length(f, native, "kafka_acl") + " " + fmt.Sprint(f.do("GET", native+"/native", "").status)
			}, "1 200", "0 404",
		},
		"shows the former OpenSearch document": {
			aivensim.Lag{OpenSearchACL: 10 * time.Second},
			func(f fixture) response {
				return f.do("PUT", search, `{"opensearch_acl_config":{"enabled":true,"acls":[{"username":"a","rules":[]}]}}`)
			},
			func(f fixture) string { return length(f, search, "opensearch_acl_config", "acls") }, "0", "1",
		},
		"does not know a new service": {
			aivensim.Lag{Service: 10 * time.Second},
			func(f fixture) response {
				f.project.AddService("new", aivensim.ServiceConfig{Type: aivensim.Valkey})
				return f.do("GET", "/dev/service/new", "")
			},
			func(f fixture) string {
				r := f.do("POST", "/dev/service/new/user", `{}`)
				return r.at(t, "message").(string)[:20]
			}, "Service new does not", "Invalid input: '' do",
		},
	}
	for name, tt := range tests {
		for _, alternate := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", taking turns: ", alternate), func(t *testing.T) {
				f := newFixture(t, aivensim.Options{ECDSA: true})
				f.valkey.AddUser(aivensim.User{Username: "cache", AccessControl: aivensim.AccessControl{Keys: []string{"old"}}})
				f.kafka.AddKafkaACL(aivensim.KafkaACL{ID: "first", Permission: "read", Topic: "t", Username: "a"})
				f.kafka.AddKafkaNativeACL(aivensim.KafkaNativeACL{ID: "native"})
				tt.lag.Alternate = alternate && tt.lag.Service == 0 && !strings.Contains(name, "native")
				f.sim.SetLag(tt.lag)
				tt.change(f).must(t)
				f.sim.SetLag(aivensim.Lag{Alternate: tt.lag.Alternate}) // concerns later changes
				got := []string{tt.look(f), tt.look(f)}
				f.pass(10*time.Second - 1)
				got = append(got, tt.look(f))
				f.pass(1)
				got = append(got, tt.look(f), tt.look(f))
				want := []string{tt.before, tt.before, tt.before, tt.after, tt.after}
				if tt.lag.Alternate {
					want[1] = tt.after
					if strings.Contains(name, "services") { // two reads at a time
						second := strings.Fields(tt.before)[0] + " " + strings.Fields(tt.after)[0]
						want = []string{second, second, second, tt.after, tt.after}
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// TestNoFormerCredentials: while credentials lag they are empty, never those from before.
func TestNoFormerCredentials(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, ShowSecrets: true, Lag: aivensim.Lag{Credentials: time.Minute}})
	before := f.kafka.AddUser(aivensim.User{Username: "app"})
	f.do("PUT", "/dev/service/kafka/user/app", `{"operation":"reset-credentials","new_password":"another one"}`).must(t)
	r := f.do("GET", "/dev/service/kafka", "").must(t)
	if got := r.at(t, "service", "users", 1, "password"); got != "" || strings.Contains(r.body, before.Password) {
		t.Errorf("want an empty password, got %v", got)
	}
	if !f.kafka.Accepts("app", "another one") || f.kafka.Accepts("app", before.Password) {
		t.Error("want the new password only to be accepted")
	}
	f.pass(time.Minute)
	if got := f.do("GET", "/dev/service/kafka/user/app", "").must(t).at(t, "user", "password"); got != "another one" {
		t.Errorf("want the new password, got %v", got)
	}
}

func TestRedaction(t *testing.T) {
	tests := map[string]struct {
		mode          aivensim.Redaction
		password, uri any
	}{
		"stands in the place of secrets":        {aivensim.Redacted, "<redacted>", "<redacted>"},
		"is null":                               {aivensim.RedactedNull, nil, "<redacted>"},
		"is empty":                              {aivensim.RedactedEmpty, "", "<redacted>"},
		"is off, as it was before 1 March 2027": {aivensim.NotRedacted, "a-chosen-password", ""},
	}
	f := newFixture(t, aivensim.Options{ECDSA: true})
	u := f.kafka.AddUser(aivensim.User{Username: "app", Password: "a-chosen-password"})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f.sim.Adjust(func(s *aivensim.Settings) { s.Redaction = tt.mode })
			for _, asks := range []bool{false, true} {
				password, uri, key := tt.password, tt.uri, tt.password
				if asks {
					password, uri = u.Password, ""
				}
				if password == u.Password {
					uri, key = f.do("GET", "/dev/service/kafka?include_secrets=true", "").at(t, "service", "service_uri"), u.AccessKey
				}
				got := f.do("GET", fmt.Sprintf("/dev/service/kafka?include_secrets=%t", asks), "").must(t).at(t, "service").(map[string]any)
				user := got["users"].([]any)[1].(map[string]any)
				_, there := user["access_key"]
				if d := cmp.Diff([]any{password, key, true, uri}, []any{user["password"], user["access_key"], there, got["service_uri"]}); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	const text = "The user has sent too many requests in a given amount of time: Rate limit 120 exceeded - try again in "
	tests := map[string]struct {
		answer  *aivensim.Answer
		header  any
		message any
		held    time.Duration // how long requests count as early
	}{
		"is in the text only":  {aivensim.TooManyRequests(28*time.Second, aivensim.RetryAfterText), "", text + "28s", 28 * time.Second},
		"is in seconds":        {aivensim.TooManyRequests(28*time.Second, aivensim.RetryAfterSeconds), "28", text + "28s", 28 * time.Second},
		"is rounded up":        {aivensim.TooManyRequests(1500*time.Millisecond, aivensim.RetryAfterSeconds), "2", text + "2s", 1500 * time.Millisecond},
		"is a date":            {aivensim.TooManyRequests(28*time.Second, aivensim.RetryAfterDate), "Sun, 01 Mar 2026 12:00:28 GMT", text + "28s", 28 * time.Second},
		"is absurd":            {aivensim.TooManyRequests(1<<63-1, aivensim.RetryAfterSeconds), "9223372037", text + "9223372037s", 1<<63 - 1},
		"is an absurd date":    {aivensim.TooManyRequests(200*365*24*time.Hour, aivensim.RetryAfterDate), "Thu, 12 Jan 2226 12:00:00 GMT", text + "6307200000s", 200 * 365 * 24 * time.Hour},
		"is on another status": {&aivensim.Answer{Status: 503, Message: "No", RetryAfter: &aivensim.RetryAfter{In: time.Second, As: aivensim.RetryAfterSeconds}}, "1", "No", time.Second},
		"is a plain header":    {&aivensim.Answer{Status: 503, Message: "No", Header: map[string][]string{"Retry-After": {"5"}}}, "5", "No", 5 * time.Second},
		"is a plain date":      {&aivensim.Answer{Status: 503, Message: "No", Header: map[string][]string{"Retry-After": {"Sun, 01 Mar 2026 12:00:07 GMT"}}}, "Sun, 01 Mar 2026 12:00:07 GMT", "No", 7 * time.Second},
		"is nonsense":          {&aivensim.Answer{Status: 503, Message: "No", Header: map[string][]string{"Retry-After": {"soon"}}}, "soon", "No", 0},
		"is not there":         {aivensim.Error(429, "", "No"), "", "No", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			f.sim.SetToken("other", aivensim.Token{})
			f.sim.Inject(aivensim.Rule{Count: 1, Answer: tt.answer})
			r := f.do("GET", "", "")
			if d := cmp.Diff([]any{tt.answer.Status, tt.header, tt.message}, []any{r.status, r.header.Get("Retry-After"), r.at(t, "message")}); d != "" {
				t.Error(d)
			}
			early := 0
			if tt.held > 0 {
				f.pass(min(tt.held-1, 100*365*24*time.Hour))
				early = 1
			}
			f.do("GET", "", "").must(t)
			f.doAs("aivenv1 other", "GET", "", "").must(t)
			if tt.held < 100*365*24*time.Hour {
				f.pass(1)
				f.do("GET", "", "").must(t)
			}
			got := f.sim.Counters().EarlyRequests
			if len(got) != early || got[aivensim.TokenID("token")] != early {
				t.Errorf("want %d early requests of the token, got %v", early, got)
			}
		})
	}
}

// TestRateLimit: each token has a bucket of its own, which the clock fills.
func TestRateLimit(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, RateLimit: aivensim.PerMinute120()})
	f.sim.Adjust(func(s *aivensim.Settings) { s.RateLimit.RetryAfter = aivensim.RetryAfterSeconds })
	f.sim.SetToken("other", aivensim.Token{})
	burst := func(n int) (ok int) {
		for range n {
			if f.do("GET", "", "").status == 200 {
				ok++
			}
		}
		return ok
	}
	got := []int{burst(130)}
	last := f.do("GET", "", "")
	got = append(got, f.doAs("aivenv1 other", "GET", "", "").status)
	for _, pause := range []time.Duration{499 * time.Millisecond, time.Millisecond, 10 * time.Second, time.Hour} {
		f.pass(pause)
		got = append(got, burst(130))
	}
	f.sim.Adjust(func(s *aivensim.Settings) { s.RateLimit = aivensim.RateLimit{} })
	got = append(got, burst(130))
	if d := cmp.Diff([]int{120, 200, 0, 1, 20, 120, 130}, got); d != "" {
		t.Error(d)
	}
	const text = "The user has sent too many requests in a given amount of time: Rate limit 120 exceeded - try again in 1s"
	if d := cmp.Diff([]any{429, "1", text}, []any{last.status, last.header.Get("Retry-After"), last.at(t, "message")}); d != "" {
		t.Error(d)
	}
}

// TestPropagation: a permission that is new is refused for a while.
func TestPropagation(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.sim.SetToken("new", aivensim.Token{})
	f.sim.Inject(aivensim.Rule{Token: aivensim.TokenID("new"), For: 5 * time.Second, Answer: aivensim.Error(403, "permission_denied", "Permission denied")})
	got := []int{f.doAs("aivenv1 new", "GET", "", "").status, f.do("GET", "", "").status}
	f.pass(5 * time.Second)
	got = append(got, f.doAs("aivenv1 new", "GET", "", "").status)
	if d := cmp.Diff([]int{403, 200, 200}, got); d != "" {
		t.Error(d)
	}
}

func TestLimitsAtRunTime(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, UserLimit: 1})
	create := func(name string) int {
		return f.do("POST", "/dev/service/kafka/user", `{"username":"`+name+`"}`).status
	}
	got := []int{create("a"), create("b")}
	f.sim.Adjust(func(s *aivensim.Settings) { s.UserLimit = 2 })
	got = append(got, create("b"), create("c"))
	c := f.kafka.Config()
	c.UserLimit, c.KafkaACLLimit = -1, 1
	if err := f.kafka.SetConfig(c); err != nil {
		t.Fatal(err)
	}
	got = append(got, create("c"), f.do("POST", "/dev/service/kafka/acl", `{"permission":"read","topic":"t","username":"a"}`).status)
	f.kafka.SetState(aivensim.PowerOff)
	got = append(got, create("d"))
	f.sim.Adjust(func(s *aivensim.Settings) { s.PoweredOff = 503 })
	got = append(got, create("d"))
	if d := cmp.Diff([]int{200, 400, 200, 400, 200, 400, 409, 503}, got); d != "" {
		t.Error(d)
	}
}

func TestSettingsRefuses(t *testing.T) {
	tests := map[string]struct{ settings, want string }{
		"names an unknown field":     {`{"lag":{"users":"1s"}}`, `unknown field "users"`},
		"wants durations":            {`{"lag":{"userGet":1}}`, `lag.userGet: want a duration such as "20ms"`},
		"wants no negative time":     {`{"lag":{"userGet":"-1s"}}`, `lag.userGet: want no negative time`},
		"wants a latency":            {`{"latency":"slow"}`, `latency: want "20ms", "uniform 10ms 50ms", "lognormal 20ms 0.5" or "pareto 10ms 1.5"`},
		"wants a positive latency":   {`{"latency":"-1s"}`, `latency: want no negative time`},
		"wants a time for the limit": {`{"rateLimit":{"requests":1}}`, `rateLimit.per: want a positive time`},
		"wants no negative limit":    {`{"rateLimit":{"requests":-1}}`, `rateLimit.requests: want no negative number`},
		"wants a known Retry-After":  {`{"rateLimit":{"requests":1,"per":"1s","retryAfter":"smoke"}}`, `rateLimit.retryAfter: want seconds, date or nothing, got "smoke"`},
		"wants a known redaction":    {`{"redaction":"none"}`, `redaction: want redacted, null, empty or off, got "none"`},
		"wants 409 or 503":           {`{"poweredOff":200}`, `poweredOff: want 409 or 503, got 200`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			before := fmt.Sprint(f.sim.Settings())
			_, err := f.sim.Do(aivensim.Action{Method: "PATCH", Path: "/settings", Body: []byte(tt.settings)})
			if err == nil {
				t.Fatal("want an error")
			}
			if d := cmp.Diff("PATCH /settings: "+tt.want, err.Error()); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(before, fmt.Sprint(f.sim.Settings())); d != "" {
				t.Errorf("want no change: %s", d)
			}
		})
	}
}
