package aivensim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Rule changes how the requests that it matches are treated. It says which requests, when, and what happens to them. The
// zero value matches everything and changes nothing.
//
//	{Answer: a}                 a instead of handling the request
//	{Answer: a, Commit: true}   a although the request took effect
//	{Reset: true}               connection closed without an answer, before the request took effect
//	{Reset: true, Commit: true} the same after it: to the client the two look alike
//
// A request waits for Delay and Latency, then Before and Do happen, then it takes effect unless Answer or the loss of the
// answer keeps it from it, then it waits for Stall, and then it is answered.
//
// In JSON the fields have the names of the tags, durations are texts as "20ms", and unknown fields are errors:
//
//	{"operation":"ServiceUser*","service":"kafka","probability":0.1,"for":"1m","answer":{"status":503,"message":"No"}}
//
// Go's http.Transport repeats a GET by itself when a reused connection is closed without an answer.
type Rule struct {
	// Which requests. All but Method are patterns as for path.Match ("app-*"); empty ones match everything.

	// Method is the HTTP method.
	Method string `json:"method,omitempty"`
	// Path is the path as it is sent, percent-encoded: "/v1/project/*/service/*/user".
	Path      string    `json:"path,omitempty"`
	Operation Operation `json:"operation,omitempty"`
	Project   string    `json:"project,omitempty"`
	Service   string    `json:"service,omitempty"`
	// Username is also matched against the user name in the body of user create and of the creation of an ACL entry.
	Username string `json:"username,omitempty"`
	// Token is the TokenID of the token.
	Token string `json:"token,omitempty"`

	// When. A request that the rule passes over goes on to the next rule.

	// After and For are the time by Options.Clock during which the rule is at work, counted from its injection: from
	// After on, and for that long. For zero: without end.
	After time.Duration `json:"after,omitzero"`
	For   time.Duration `json:"for,omitzero"`
	// Skip is how many matching requests are let pass first.
	Skip int `json:"skip,omitempty"`
	// Probability is the share of the matching requests that the rule applies to, by the seeded random source. Zero: all.
	Probability float64 `json:"probability,omitempty"`
	// Count is how many requests the rule applies to. Zero: no limit.
	Count int `json:"count,omitempty"`

	// What happens.

	// Delay and Latency are how long the request waits, in real time and on top of Settings.Latency. If the client gives
	// up meanwhile, the request is not handled.
	Delay   time.Duration `json:"delay,omitzero"`
	Latency Latency       `json:"latency,omitzero"`
	// Before is called just before the request is handled, without any lock held: it may use the Go API, block, or send
	// requests itself.
	Before func(Request) `json:"-"`
	// Do is done just before the request is handled, after Before: what else happens between two requests of a client.
	Do []Action `json:"do,omitempty"`
	// Answer is sent instead of the simulator's own.
	Answer *Answer `json:"answer,omitempty"`
	// Reset closes the connection without an answer. It is short for Loss: LossClose.
	Reset bool `json:"reset,omitempty"`
	// Loss is how the answer is lost.
	Loss Loss `json:"loss,omitempty"`
	// Commit handles the request in spite of Answer, Reset, LossClose and LossReset.
	Commit bool `json:"commit,omitempty"`
	// Truncate answers the first half of the body as if that were all.
	Truncate bool `json:"truncate,omitempty"`
	// Stall is a wait after the request took effect, before the headers; StallBody one in the middle of the body. Both are
	// in real time.
	Stall     time.Duration `json:"stall,omitzero"`
	StallBody time.Duration `json:"stallBody,omitzero"`
	// BytesPerSecond slows the body down. Zero: as fast as possible.
	BytesPerSecond int `json:"bytesPerSecond,omitempty"`
}

// Loss is how an answer is lost.
type Loss string

const (
	// LossClose closes the connection without an answer.
	LossClose Loss = "close"
	// LossReset does so with a TCP reset, where there is a TCP connection to reset.
	LossReset Loss = "reset"
	// LossCut sends the headers and the first half of the body, then closes the connection. The request takes effect,
	// unless an Answer without Commit is what is cut.
	LossCut Loss = "cut"
)

// Action is a call of the control interface: {"method":"POST","path":"/state?project=p&service=s&state=POWEROFF"}.
type Action struct {
	Method string `json:"method"`
	// Path is path and query.
	Path string `json:"path"`
	// Body is JSON, or empty.
	Body json.RawMessage `json:"body,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler. What the JSON does not have stays.
func (r *Rule) UnmarshalJSON(data []byte) error {
	type plain Rule
	return decodeStrict(data, (*plain)(r))
}

// MarshalJSON implements json.Marshaler.
func (r Rule) MarshalJSON() ([]byte, error) {
	type plain Rule
	return encodeTexts(plain(r))
}

// Injection is a Rule at work.
type Injection struct {
	id    int
	rule  Rule
	since time.Time
	rules *rules

	// Guarded by rules.mu.
	rng     *rand.Rand
	matched int
	hits    int
	failure string
}

// rules is the list of the rules at work, in the order in which they came.
type rules struct {
	mu    sync.Mutex
	list  []*Injection
	count int        // of the rules there have ever been
	rng   *rand.Rand // of Settings.Latency
}

// Inject puts a rule to work. The first rule that matches a request and does not pass over it applies, in the order of
// injection. Inject panics if the rule makes no sense.
func (s *Simulator) Inject(r Rule) *Injection {
	i, err := s.inject(r)
	if err != nil {
		panic("aivensim: bad rule: " + err.Error())
	}
	return i
}

func (s *Simulator) inject(r Rule) (*Injection, error) {
	if err := s.check(r); err != nil {
		return nil, err
	}
	rs := &s.rules
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.count++
	i := &Injection{id: rs.count, rule: r, since: s.now(), rules: rs, rng: newRand(s.options.Seed, "rule", rs.count)}
	rs.list = append(rs.list, i)
	return i, nil
}

// ClearRules removes every rule.
func (s *Simulator) ClearRules() {
	s.rules.mu.Lock()
	defer s.rules.mu.Unlock()
	s.rules.list = nil
}

// Hits returns how many requests the rule was applied to.
func (i *Injection) Hits() int {
	i.rules.mu.Lock()
	defer i.rules.mu.Unlock()
	return i.hits
}

// Remove ends the rule.
func (i *Injection) Remove() {
	i.rules.mu.Lock()
	defer i.rules.mu.Unlock()
	i.rules.list = slices.DeleteFunc(i.rules.list, func(o *Injection) bool { return o == i })
}

// fail keeps why an action could not be done.
func (i *Injection) fail(err error) {
	i.rules.mu.Lock()
	defer i.rules.mu.Unlock()
	i.failure = err.Error()
}

// treatment is what happens to one request.
type treatment struct {
	Rule
	injection *Injection // nil: no rule applies
	delay     time.Duration
}

// apply returns what happens to a request, and counts the hit of the rule that says so.
func (rs *rules) apply(c *call, base Latency) treatment {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	t := treatment{delay: base.draw(rs.rng)}
	for _, i := range rs.list {
		if i.takes(c) {
			t.Rule, t.injection = i.rule, i
			t.delay += i.rule.Delay + i.rule.Latency.draw(i.rng)
			break
		}
	}
	return t
}

// takes tells whether the rule applies to a request. The caller holds the lock.
func (i *Injection) takes(c *call) bool {
	r := &i.rule
	age := c.now.Sub(i.since)
	switch {
	case r.Count > 0 && i.hits >= r.Count, age < r.After, r.For > 0 && age >= r.After+r.For, !r.matches(c):
		return false
	}
	if i.matched++; i.matched <= r.Skip {
		return false
	}
	if r.Probability > 0 && i.rng.Float64() >= r.Probability {
		return false
	}
	i.hits++
	return true
}

func (r *Rule) matches(c *call) bool {
	return (r.Method == "" || r.Method == c.Method) && matches(r.Path, c.path) &&
		matches(string(r.Operation), string(c.Operation)) && matches(r.Project, c.Project) &&
		matches(r.Service, c.Service) && matches(r.Username, c.Username) && matches(r.Token, c.Token)
}

func matches(pattern, name string) bool {
	if pattern == "" || pattern == name {
		return true
	}
	ok, _ := path.Match(pattern, name) // inject has checked the pattern
	return ok
}

// loss returns how the answer is lost, empty if it is not.
func (r *Rule) loss() Loss {
	if r.Reset {
		return LossClose
	}
	return r.Loss
}

// handles tells whether the request takes effect.
func (r *Rule) handles() bool {
	silent := r.loss() == LossClose || r.loss() == LossReset
	return r.Commit || r.Answer == nil && !silent
}

// distorts tells whether the client cannot see what became of a request that took effect.
func (r *Rule) distorts() bool { return r.Answer != nil || r.loss() != "" || r.Truncate }

// faults returns the kinds of what the rule does to a request.
func (r *Rule) faults() []string {
	var out []string
	for _, f := range []struct {
		kind string
		is   bool
	}{
		{"delay", r.Delay > 0 || !r.Latency.IsZero()},
		{"interference", r.Before != nil || len(r.Do) > 0},
		{"answer", r.Answer != nil},
		{string(r.loss()), r.loss() != ""},
		{"truncate", r.Truncate},
		{"stall", r.Stall > 0 || r.StallBody > 0},
		{"slow", r.BytesPerSecond > 0},
	} {
		if f.is {
			out = append(out, f.kind)
		}
	}
	return out
}

// check tells what is wrong with a rule, by the name that the field has in JSON.
func (s *Simulator) check(r Rule) error {
	for _, p := range []struct{ field, pattern string }{
		{"path", r.Path}, {"operation", string(r.Operation)}, {"project", r.Project}, {"service", r.Service},
		{"username", r.Username}, {"token", r.Token},
	} {
		if _, err := path.Match(p.pattern, ""); err != nil {
			return fmt.Errorf("%s: %q is no pattern", p.field, p.pattern)
		}
	}
	for _, n := range []struct {
		field    string
		negative bool
	}{
		{"after", r.After < 0}, {"for", r.For < 0}, {"skip", r.Skip < 0}, {"count", r.Count < 0}, {"delay", r.Delay < 0},
		{"stall", r.Stall < 0}, {"stallBody", r.StallBody < 0}, {"bytesPerSecond", r.BytesPerSecond < 0},
	} {
		if n.negative {
			return fmt.Errorf("%s: want no negative value", n.field)
		}
	}
	known := func(rt route) bool { return matches(string(r.Operation), string(rt.operation)) }
	switch {
	case !slices.ContainsFunc(routes, known):
		return fmt.Errorf("operation: %q is none", r.Operation)
	case !isOneOf(r.Method, "", http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete):
		return fmt.Errorf("method: %q is none that the API has", r.Method)
	case !(r.Probability >= 0 && r.Probability <= 1):
		return fmt.Errorf("probability: want 0 to 1, got %v", r.Probability)
	case !isOneOf(string(r.Loss), "", string(LossClose), string(LossReset), string(LossCut)):
		return fmt.Errorf("loss: want close, reset or cut, got %q", r.Loss)
	case r.Reset && r.Loss != "":
		return errors.New("reset: it is a loss, and there is one already")
	case r.loss() == LossCut && r.Answer != nil && r.Answer.isEmpty():
		return errors.New("loss: there is no body to cut")
	case r.Truncate && r.loss() != "":
		return errors.New("truncate: the answer is lost anyway")
	}
	if err := r.Latency.check(); err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	if err := r.Answer.check(); err != nil {
		return fmt.Errorf("answer.%w", err)
	}
	for n, a := range r.Do {
		where, _, _ := strings.Cut(a.Path, "?")
		if s.controls[a.Method+" "+where] == nil {
			return fmt.Errorf("do[%d]: the control interface has no %s %s", n, a.Method, where)
		}
	}
	return nil
}
