package aivensim

import (
	"path"
	"slices"
	"sync"
	"time"
)

// Rule changes how the requests that it matches are treated. The zero value matches everything and changes nothing.
//
//	{Answer: a}               a instead of handling the request
//	{Answer: a, Commit: true} a although the request took effect
//	{Reset: true}             connection closed without an answer, before the request took effect
//	{Reset: true, Commit: true} the same after it: to the client the two look alike
//
// Go's http.Transport repeats a GET by itself when a reused connection is closed without an answer.
type Rule struct {
	// Operation is the operation to match. Empty: every one.
	Operation Operation
	// Project, Service and Username are matched as by path.Match ("app-*"). Empty: everything. Username is also matched
	// against the user name in the body of user create and of the creation of an ACL entry.
	Project, Service, Username string
	// Count is how many requests the rule applies to. Zero: no limit.
	Count int

	// Delay is how long the request waits, in real time and on top of the latency. If the client gives up meanwhile, the
	// request is not handled.
	Delay time.Duration
	// Before is called just before the request is handled, without any lock held: it may use the Go API, block, or send
	// requests itself.
	Before func(Request)
	// Answer is sent instead of the simulator's own.
	Answer *Answer
	// Reset closes the connection without an answer.
	Reset bool
	// Commit handles the request in spite of Answer or Reset.
	Commit bool
}

// Injection is a Rule at work.
type Injection struct {
	rule  Rule
	rules *rules
	hits  int // guarded by rules.mu
}

// rules is the list of the rules at work, in the order in which they came.
type rules struct {
	mu   sync.Mutex
	list []*Injection
}

// Inject puts a rule to work. The first rule that matches a request applies, in the order of injection.
func (s *Simulator) Inject(r Rule) *Injection {
	for _, pattern := range []string{r.Project, r.Service, r.Username} {
		if _, err := path.Match(pattern, ""); err != nil {
			panic("aivensim: bad pattern " + pattern)
		}
	}
	i := &Injection{rule: r, rules: &s.rules}
	s.rules.mu.Lock()
	defer s.rules.mu.Unlock()
	s.rules.list = append(s.rules.list, i)
	return i
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

// apply returns the rule for a request and counts the hit; the zero Rule if there is none.
func (rs *rules) apply(r Request) Rule {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, i := range rs.list {
		if (i.rule.Count == 0 || i.hits < i.rule.Count) && i.rule.matches(r) {
			i.hits++
			return i.rule
		}
	}
	return Rule{}
}

func (r Rule) matches(q Request) bool {
	return (r.Operation == "" || r.Operation == q.Operation) &&
		matches(r.Project, q.Project) && matches(r.Service, q.Service) && matches(r.Username, q.Username)
}

func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // Inject has checked the pattern
	return pattern == "" || ok
}
