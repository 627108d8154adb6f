package aivensim_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

var teapot = aivensim.Error(418, "", "No")

func TestRuleMatches(t *testing.T) {
	requests := [][3]string{
		{"GET", "/dev/service/kafka", ""},
		{"POST", "/dev/service/kafka/user", `{"username":"app-1"}`},
		{"DELETE", "/dev/service/kafka/user/a%2Fb", ""},
		{"GET", "/dev/service/valkey/user/app-1", ""},
		{"GET", "", ""},
	}
	tests := map[string]struct {
		rule aivensim.Rule
		want string // a digit for each request that is hit
	}{
		"matches everything":            {aivensim.Rule{}, "01234"},
		"matches a method":              {aivensim.Rule{Method: "POST"}, "1"},
		"matches a path":                {aivensim.Rule{Path: "/v1/project/*/service/*/user/*"}, "23"},
		"matches a path as it was sent": {aivensim.Rule{Path: "*/*/*/*/*/*/*/a%2Fb"}, "2"},
		"matches an operation":          {aivensim.Rule{Operation: aivensim.ServiceGet}, "0"},
		"matches operations":            {aivensim.Rule{Operation: "ServiceUser*"}, "123"},
		"matches a project":             {aivensim.Rule{Project: "d?v"}, "0123"},
		"matches a service":             {aivensim.Rule{Service: "valkey"}, "3"},
		"matches a user name":           {aivensim.Rule{Username: "app-*"}, "13"},
		"matches a token":               {aivensim.Rule{Token: aivensim.TokenID("token")}, "01234"},
		"does not match another token":  {aivensim.Rule{Token: aivensim.TokenID("other")}, ""},
		"matches all at once":           {aivensim.Rule{Method: "GET", Service: "*", Username: "app-1"}, "3"},
		"skips some":                    {aivensim.Rule{Skip: 3}, "34"},
		"counts what it matches":        {aivensim.Rule{Method: "GET", Skip: 1, Count: 1}, "3"},
		"always applies":                {aivensim.Rule{Probability: 1}, "01234"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			tt.rule.Answer = teapot
			rule := f.sim.Inject(tt.rule)
			got := ""
			for i, q := range requests {
				if f.do(q[0], q[1], q[2]).status == 418 {
					got += fmt.Sprint(i)
				}
			}
			if got != tt.want || rule.Hits() != len(got) {
				t.Errorf("want %s, got %s, and %d hits", tt.want, got, rule.Hits())
			}
		})
	}
}

func TestRuleTime(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, Rules: []aivensim.Rule{{After: 10 * time.Second, For: 20 * time.Second, Answer: teapot}}})
	got := ""
	for range 5 {
		got += fmt.Sprint(f.do("GET", "", "").status, " ")
		f.pass(5 * time.Second)
		f.sim.Advance(5 * time.Second)
	}
	if got != "200 418 418 200 200 " {
		t.Errorf("want it at work from 10 s to 30 s, got %s", got)
	}
}

// TestRuleProbability: the same seed and the same order of requests give the same faults.
func TestRuleProbability(t *testing.T) {
	run := func(seed uint64) string {
		f := newFixture(t, aivensim.Options{ECDSA: true, Seed: seed})
		f.sim.Inject(aivensim.Rule{Probability: 0.3, Answer: teapot})
		f.sim.Inject(aivensim.Rule{Probability: 0.5, Answer: aivensim.Error(503, "", "No")})
		got := ""
		for range 1000 {
			got += fmt.Sprint(f.do("GET", "", "").status, " ")
		}
		return got
	}
	first := run(1)
	if first != run(1) || first == run(2) {
		t.Error("want the same faults for the same seed only")
	}
	first503 := strings.Count(first, "503")
	if n := strings.Count(first, "418"); n < 250 || n > 350 || first503 < 300 || first503 > 400 {
		t.Errorf("want 300 of the first and 350 of the second rule, got %d and %d", n, first503)
	}
}

func TestRuleRefuses(t *testing.T) {
	tests := map[string]struct{ rule, want string }{
		"names an unknown field":        {`{"dely":"1s"}`, `unknown field "dely"`},
		"names an unknown inner field":  {`{"answer":{"state":1}}`, `unknown field "state"`},
		"names a field of another type": {`{"answer":{"status":"no"}}`, `answer.status: want int, got string`},
		"wants durations as texts":      {`{"delay":5}`, `delay: want a duration such as "20ms"`},
		"wants inner durations too":     {`{"answer":{"status":429,"retryAfter":{"in":"soon"}}}`, `answer.retryAfter.in: want a duration such as "20ms"`},
		"wants a latency": {
			`{"latency":"uniform 1ms"}`, `latency: want "20ms", "uniform 10ms 50ms", "lognormal 20ms 0.5" or "pareto 10ms 1.5"`,
		},
		"wants latencies in order":      {`{"latency":"uniform 2ms 1ms"}`, `latency: want the shorter time first`},
		"wants a heavy tail":            {`{"latency":"pareto 2ms 0"}`, `latency: want a positive shape`},
		"wants JSON":                    {`{`, `decode JSON: unexpected EOF`},
		"wants something":               {``, `want a JSON object, got nothing`},
		"wants a pattern":               {`{"username":"["}`, `username: "[" is no pattern`},
		"wants a known operation":       {`{"operation":"UserCreate"}`, `operation: "UserCreate" is none`},
		"wants a known method":          {`{"method":"post"}`, `method: "post" is none that the API has`},
		"wants a probability":           {`{"probability":2}`, `probability: want 0 to 1, got 2`},
		"wants no negative number":      {`{"count":-1}`, `count: want no negative value`},
		"wants no negative time":        {`{"stallBody":"-1s"}`, `stallBody: want no negative value`},
		"wants a known loss":            {`{"loss":"burn"}`, `loss: want close, reset or cut, got "burn"`},
		"loses an answer once":          {`{"loss":"cut","reset":true}`, `reset: it is a loss, and there is one already`},
		"wants something to cut":        {`{"loss":"cut","answer":{"status":500}}`, `loss: there is no body to cut`},
		"does not damage what is lost":  {`{"loss":"cut","truncate":true}`, `truncate: the answer is lost anyway`},
		"wants a status":                {`{"answer":{}}`, `answer.status: want 200 to 599, got 0`},
		"wants one body":                {`{"answer":{"status":500,"body":"a","message":"b"}}`, `answer.message: there is a body already`},
		"wants a message with the code": {`{"answer":{"status":500,"code":"a"}}`, `answer.code: there is no message`},
		"wants a known Retry-After":     {`{"answer":{"status":429,"retryAfter":{"in":"1s","as":"smoke"}}}`, `answer.retryAfter.as: want seconds, date or nothing, got "smoke"`},
		"wants an action that there is": {`{"do":[{"method":"POST","path":"/rules"},{"method":"GET","path":"/state?a=b"}]}`, `do[1]: the control interface has no GET /state`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			_, err := f.sim.Do(aivensim.Action{Method: "POST", Path: "/rules", Body: []byte(tt.rule)})
			if err == nil {
				t.Fatal("want an error")
			}
			if d := cmp.Diff("POST /rules: "+tt.want, err.Error()); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("panics in Go", func(t *testing.T) {
		defer func() {
			if d := cmp.Diff("aivensim: bad rule: count: want no negative value", recover()); d != "" {
				t.Error(d)
			}
		}()
		newFixture(t, aivensim.Options{ECDSA: true}).sim.Inject(aivensim.Rule{Count: -1})
	})
}

// TestRuleJSON: the JSON of a rule is the rule.
func TestRuleJSON(t *testing.T) {
	const text = `{"after":"1s","answer":{"message":"No","retryAfter":{"as":"date","in":"28s"},"status":429},"bytesPerSecond":10,` +
		`"commit":true,"count":3,"delay":"10ms","do":[{"body":{"a":1},"method":"PUT","path":"/acl"}],"for":"1h0m0s","latency":"uniform 1ms 2ms",` +
		`"loss":"cut","method":"POST","operation":"ServiceUser*","path":"/v1/*","probability":0.5,"project":"p","service":"s",` +
		`"skip":1,"stall":"2s","stallBody":"3s","token":"t","username":"u"}`
	var rule aivensim.Rule
	if err := json.Unmarshal([]byte(text), &rule); err != nil {
		t.Fatal(err)
	}
	if rule.For != time.Hour || rule.Answer.RetryAfter.In != 28*time.Second || rule.Latency != aivensim.Uniform(time.Millisecond, 2*time.Millisecond) {
		t.Errorf("unexpected rule: %+v", rule)
	}
	got, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(text, string(got)); d != "" {
		t.Error(d)
	}
}

func TestRuleWaits(t *testing.T) {
	const body = `0123456789`
	answer := &aivensim.Answer{Status: 200, Body: body}
	tests := map[string]struct {
		settings    aivensim.Latency
		rule        aivensim.Rule
		least, most time.Duration
	}{
		"answers at once":                         {least: 0, most: 0},
		"waits for everybody":                     {settings: aivensim.Constant(time.Second), least: time.Second, most: time.Second},
		"waits on top of that":                    {settings: aivensim.Constant(time.Second), rule: aivensim.Rule{Delay: time.Minute, Latency: aivensim.Constant(time.Hour)}, least: time.Hour + 61*time.Second, most: time.Hour + 61*time.Second},
		"waits an even time":                      {rule: aivensim.Rule{Latency: aivensim.Uniform(time.Second, 2*time.Second)}, least: time.Second, most: 2 * time.Second},
		"stalls before the headers":               {rule: aivensim.Rule{Stall: time.Second}, least: time.Second, most: time.Second},
		"stalls in the body":                      {rule: aivensim.Rule{StallBody: time.Second}, least: time.Second, most: time.Second},
		"sends a byte each second":                {rule: aivensim.Rule{BytesPerSecond: 1, Answer: answer}, least: 10 * time.Second, most: 10 * time.Second},
		"sends five bytes each tenth of a second": {rule: aivensim.Rule{BytesPerSecond: 50, Answer: answer}, least: 200 * time.Millisecond, most: 200 * time.Millisecond},
		"does all of it":                          {rule: aivensim.Rule{Delay: time.Hour, Stall: time.Minute, StallBody: time.Second, BytesPerSecond: 10, Answer: answer}, least: time.Hour + 62*time.Second, most: time.Hour + 62*time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			f.sim.Adjust(func(s *aivensim.Settings) { s.Latency = tt.settings })
			f.sim.Inject(tt.rule)
			synctest.Test(t, func(t *testing.T) {
				before := time.Now()
				r := f.do("GET", "", "").must(t)
				if took := time.Since(before); took < tt.least || took > tt.most {
					t.Errorf("want %s to %s, got %s", tt.least, tt.most, took)
				}
				if tt.rule.Answer != nil && r.body != body {
					t.Errorf("want %s, got %s", body, r.body)
				}
			})
		})
	}
}

// TestRuleDo: what an action changes is there for the request that it comes before.
func TestRuleDo(t *testing.T) {
	action := func(method, path, body string) []aivensim.Action {
		return []aivensim.Action{{Method: method, Path: path, Body: []byte(body)}}
	}
	const put = `{"opensearch_acl_config":{"enabled":true,"acls":[{"username":"app","rules":[{"index":"a","permission":"read"}]}]}}`
	tests := map[string]struct {
		do                 []aivensim.Action
		method, path, body string
		status             int
		counters           aivensim.Counters
	}{
		"loses the entry of a second writer between GET and PUT": {
			do:     action("POST", "/acl?project=dev&service=opensearch", `{"username":"other","rules":[{"index":"b","permission":"read"}]}`),
			method: "PUT", path: "/dev/service/opensearch/opensearch/acl", body: put, status: 200, counters: aivensim.Counters{LostUpdates: 1},
		},
		"loses a service that is powered off":     {do: action("POST", "/state?project=dev&service=kafka&state=POWEROFF", ""), method: "GET", path: "/dev/service/kafka/user/app", status: 409, counters: aivensim.Counters{PoweredOff: 1}},
		"loses a user when a service is new":      {do: action("POST", "/services?project=dev&service=kafka", ""), method: "GET", path: "/dev/service/kafka/user/app", status: 404},
		"loses a project":                         {do: action("DELETE", "/projects?project=dev", ""), method: "GET", path: "/dev/service/kafka/user/app", status: 404},
		"loses the token":                         {do: action("DELETE", "/tokens", `{"token":"token"}`), method: "GET", path: "", status: 401, counters: aivensim.Counters{RevokedToken: 1}},
		"goes on if the action cannot be done":    {do: action("DELETE", "/users?project=dev&service=kafka&username=nobody", ""), method: "GET", path: "", status: 200},
		"does not know the user that it deletes":  {do: action("DELETE", "/users?project=dev&service=kafka&username=app", ""), method: "DELETE", path: "/dev/service/kafka/user/app", status: 404},
		"does not create a user that was created": {do: action("POST", "/users?project=dev&service=kafka&username=new", ""), method: "POST", path: "/dev/service/kafka/user", body: `{"username":"new"}`, status: 409, counters: aivensim.Counters{DuplicateCreates: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			f.kafka.AddUser(aivensim.User{Username: "app"})
			f.do("GET", "/dev/service/opensearch/opensearch/acl", "").must(t)
			f.sim.Inject(aivensim.Rule{Count: 1, Do: tt.do})
			if r := f.do(tt.method, tt.path, tt.body); r.status != tt.status {
				t.Errorf("want status %d, got %d: %s", tt.status, r.status, r.body)
			}
			got := f.sim.Counters()
			got = aivensim.Counters{
				LostUpdates: got.LostUpdates, PoweredOff: got.PoweredOff, RevokedToken: got.RevokedToken, DuplicateCreates: got.DuplicateCreates,
			}
			if d := cmp.Diff(tt.counters, got); d != "" {
				t.Error(d)
			}
		})
	}
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.sim.Inject(aivensim.Rule{Do: action("DELETE", "/projects?project=other", "")})
	f.do("GET", "", "").must(t)
	out, err := f.sim.Do(aivensim.Action{Method: "GET", Path: "/rules"})
	if want := `"error":"DELETE /projects?project=other: Not found"`; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("want %s in the list of rules, got %s, %v", want, out, err)
	}
}

// exchange sends one request over a connection of its own and returns all that comes back, and how it ends.
func exchange(t *testing.T, address, request string) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	_, err = io.Copy(&out, bufio.NewReader(conn))
	return regexp.MustCompile(`Date: .*\r\n`).ReplaceAllString(out.String(), ""), err
}

// TestLossOnTheWire: a client that loses the answer cannot tell whether the request took effect.
func TestLossOnTheWire(t *testing.T) {
	const body = `{"username":"app"}`
	request := fmt.Sprintf("POST /v1/project/dev/service/valkey/user HTTP/1.1\r\nHost: h\r\nAuthorization: aivenv1 token\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	tests := map[string]struct {
		rule aivensim.Rule
		want string // of what comes back
		err  error
	}{
		"closes":                 {aivensim.Rule{Reset: true}, `^$`, nil},
		"closes by another name": {aivensim.Rule{Loss: aivensim.LossClose}, `^$`, nil},
		"resets":                 {aivensim.Rule{Loss: aivensim.LossReset}, `^$`, syscall.ECONNRESET},
		"fails":                  {aivensim.Rule{Answer: aivensim.Error(500, "", "No")}, `(?s)^HTTP/1.1 500 .*"message":"No"}$`, nil},
		"fails without a body":   {aivensim.Rule{Answer: &aivensim.Answer{Status: 502}}, `(?s)^HTTP/1.1 502 .*\r\n\r\n$`, nil},
		"cuts":                   {aivensim.Rule{Answer: aivensim.Error(500, "", "No"), Loss: aivensim.LossCut}, `(?s)^HTTP/1.1 500 .*Content-Length: 57\r\n.*\r\n\r\n.{28}$`, nil},
		"truncates":              {aivensim.Rule{Answer: aivensim.Error(500, "", "No"), Truncate: true}, `(?s)^HTTP/1.1 500 .*Content-Length: 28\r\n.*\r\n\r\n.{28}$`, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			address := f.serve(t)
			var seen []string
			for _, commit := range []bool{false, true} {
				f.sim.ClearRules()
				f.sim.ResetCounters()
				tt.rule.Commit = commit
				f.sim.Inject(tt.rule)
				got, err := exchange(t, address, request)
				if !errors.Is(err, tt.err) || !regexp.MustCompile(tt.want).MatchString(got) {
					t.Errorf("want %s and %v, got %q and %v", tt.want, tt.err, got, err)
				}
				seen = append(seen, got)
				if _, ok := f.valkey.User("app"); ok != commit {
					t.Errorf("want the user to exist: %t, got %t", commit, ok)
				}
				want := map[bool]int{true: 1}[commit]
				if n := f.sim.Counters().CommitsLost; n != want {
					t.Errorf("want %d lost commits, got %d", want, n)
				}
			}
			if d := cmp.Diff(seen[0], seen[1]); d != "" {
				t.Errorf("want the two to look the same: %s", d)
			}
		})
	}
}

// TestResetOfTLS: a reset goes through the encryption.
func TestResetOfTLS(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	server := httptest.NewTLSServer(f.sim)
	defer server.Close()
	f.sim.Inject(aivensim.Rule{Loss: aivensim.LossReset})
	r, err := server.Client().Post(server.URL+"/v1/project", "", nil)
	if err == nil {
		_ = r.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("want a reset, got %v", err)
	}
}

// TestOwnAnswerDamaged: what the simulator itself answers can be cut and truncated too.
func TestOwnAnswerDamaged(t *testing.T) {
	const request = "DELETE /v1/project/dev/service/kafka/user/app HTTP/1.1\r\nHost: h\r\nAuthorization: aivenv1 token\r\nConnection: close\r\n\r\n"
	for name, tt := range map[string]struct {
		rule aivensim.Rule
		want string
	}{
		"is cut":       {aivensim.Rule{Loss: aivensim.LossCut}, "Content-Length: 21\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"message\""},
		"is truncated": {aivensim.Rule{Truncate: true}, "Content-Length: 10\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"message\""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			f.kafka.AddUser(aivensim.User{Username: "app"})
			f.sim.Inject(tt.rule)
			got, err := exchange(t, f.serve(t), request)
			if d := cmp.Diff("HTTP/1.1 200 OK\r\n"+tt.want, got); d != "" || err != nil {
				t.Error(d, err)
			}
			if n := f.sim.Counters().CommitsLost; n != 1 {
				t.Errorf("want a lost commit, got %d", n)
			}
		})
	}
}

// TestGoneDuringStall: a client that gives up while the answer stalls does not know that its request took effect.
func TestGoneDuringStall(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.sim.Inject(aivensim.Rule{Stall: time.Hour})
	address := f.serve(t)
	c := http.Client{Timeout: 50 * time.Millisecond}
	q, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+address+"/v1/project/dev/service/valkey/user", strings.NewReader(`{"username":"app"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", bearer)
	if r, err := c.Do(q); err == nil {
		_ = r.Body.Close()
		t.Fatal("want a timeout")
	}
	await(t, func() bool { return f.sim.Counters().CommitsLost == 1 })
	if got := f.sim.Journal(); len(got) != 1 || got[0].Status != 200 || !got[0].Lost || !got[0].CommitLost {
		t.Errorf("want one lost commit, got %+v", got)
	}
}

func TestMessagePlaceholders(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.sim.Inject(aivensim.Rule{Answer: aivensim.Error(404, "", "Service {service} of {project} does not exist for {username}")})
	r := f.do("GET", "/dev/service/kafka/user/a%22b", "")
	if got := r.at(t, "message"); got != `Service kafka of dev does not exist for a"b` {
		t.Errorf("unexpected message %v", got)
	}
}
