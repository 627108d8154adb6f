package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// fault is something that goes wrong for a while. begin draws what exactly, and returns how to end it, which may be nil.
type fault struct {
	name  string
	begin func(*rand.Rand) (end func())
}

// inject begins one fault after the other, each for up to most, until until ends.
func inject(until context.Context, h *history, rng *rand.Rand, faults []fault, pause, most time.Duration) {
	for rest(until, time.Duration(rng.ExpFloat64()*float64(pause))) {
		f := faults[rng.IntN(len(faults))]
		h.count("fault", f.name)
		h.note("", "", "fault: %s", f.name)
		end := f.begin(rng)
		rest(until, time.Duration(rng.Int64N(int64(most))))
		if end != nil {
			end()
			h.note("", "", "end of fault: %s", f.name)
		}
	}
}

// some draws how many requests in a hundred a fault hits, as a share: often a few, at times all.
func some(rng *rand.Rand) float64 { return []float64{0.05, 0.2, 0.5, 1}[rng.IntN(4)] }

// Faults of answers, of which one is drawn.
var (
	failures = []aivensim.Answer{
		{Status: 500, Message: "Internal server error"},
		{Status: 502, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html><h1>Bad Gateway</h1></html>"},
		{Status: 503, Message: "Service Unavailable"},
		{Status: 503, RetryAfter: &aivensim.RetryAfter{In: 2 * time.Second, As: aivensim.RetryAfterSeconds}, Message: "Maintenance"},
		{Status: 504, Body: ""},
		{Status: 408, Message: "Request Timeout"},
	}
	nonsense = []string{``, `{`, `{}`, `[]`, `null`, `"text"`, `<html></html>`, `{"message":"x"}`, `{"user":null,"service":null}`, `{"service":{"users":"none"}}`}
	losses   = []aivensim.Loss{aivensim.LossClose, aivensim.LossReset, aivensim.LossCut}
	forms    = []aivensim.RetryAfterForm{aivensim.RetryAfterSeconds, aivensim.RetryAfterDate, aivensim.RetryAfterText}
	reads    = []string{http.MethodGet}
	writes   = []string{http.MethodPost, http.MethodPut, http.MethodDelete}
)

// aivenFaults are the faults of the Aiven API.
func aivenFaults(sim *aivensim.Simulator) []fault {
	rule := func(rs ...aivensim.Rule) func() {
		injections := make([]*aivensim.Injection, len(rs))
		for i, r := range rs {
			injections[i] = sim.Inject(r)
		}
		return func() {
			for _, i := range injections {
				i.Remove()
			}
		}
	}
	lag := func(set func(*aivensim.Lag, time.Duration)) func(*rand.Rand) func() {
		return func(rng *rand.Rand) func() {
			var l aivensim.Lag
			set(&l, time.Duration(500+rng.IntN(4500))*time.Millisecond)
			l.Alternate = rng.IntN(3) == 0
			sim.SetLag(l)
			return func() { sim.SetLag(aivensim.Lag{}) }
		}
	}
	each := func(methods []string, r aivensim.Rule) []aivensim.Rule {
		var out []aivensim.Rule
		for _, m := range methods {
			r.Method = m
			out = append(out, r)
		}
		return out
	}
	return []fault{
		{"5xx before the commit", func(rng *rand.Rand) func() {
			a := failures[rng.IntN(len(failures))]
			return rule(aivensim.Rule{Probability: some(rng), Answer: &a})
		}},
		{"5xx after the commit", func(rng *rand.Rand) func() {
			a := failures[rng.IntN(len(failures))]
			return rule(aivensim.Rule{Probability: some(rng), Answer: &a, Commit: true})
		}},
		{"connection lost before the commit", func(rng *rand.Rand) func() {
			return rule(aivensim.Rule{Probability: some(rng), Loss: losses[rng.IntN(2)]})
		}},
		{"connection lost after the commit", func(rng *rand.Rand) func() {
			return rule(aivensim.Rule{Probability: some(rng), Loss: losses[rng.IntN(3)], Commit: true})
		}},
		{"body cut", func(rng *rand.Rand) func() {
			return rule(aivensim.Rule{Probability: some(rng), Truncate: true})
		}},
		{"wrong body of a read", func(rng *rand.Rand) func() {
			a := aivensim.Answer{Status: 200, Body: nonsense[rng.IntN(len(nonsense))]}
			return rule(each(reads, aivensim.Rule{Probability: some(rng), Answer: &a})...)
		}},
		// With a 200 that had no effect the API would be lying.
		{"wrong body of a write", func(rng *rand.Rand) func() {
			a := aivensim.Answer{Status: 200, Body: nonsense[rng.IntN(len(nonsense))]}
			return rule(each(writes, aivensim.Rule{Probability: some(rng), Answer: &a, Commit: true})...)
		}},
		{"429", func(rng *rand.Rand) func() {
			in := time.Duration(1+rng.IntN(5)) * time.Second
			return rule(aivensim.Rule{Probability: 0.3, Answer: aivensim.TooManyRequests(in, forms[rng.IntN(len(forms))])})
		}},
		{"rate limit", func(rng *rand.Rand) func() {
			limit := aivensim.RateLimit{Requests: 5 + rng.IntN(30), Per: time.Second, RetryAfter: forms[rng.IntN(len(forms))]}
			sim.Adjust(func(s *aivensim.Settings) { s.RateLimit = limit })
			return func() { sim.Adjust(func(s *aivensim.Settings) { s.RateLimit = aivensim.RateLimit{} }) }
		}},
		{"403", func(rng *rand.Rand) func() {
			return rule(aivensim.Rule{Probability: some(rng), Answer: aivensim.Error(403, "permission_denied", "Permission denied")})
		}},
		{"401", func(*rand.Rand) func() {
			return rule(aivensim.Rule{Answer: aivensim.Error(401, "", "Missing (expired) db token")})
		}},
		{"404 to a POST", func(rng *rand.Rand) func() {
			return rule(aivensim.Rule{Method: "POST", Probability: some(rng), Answer: aivensim.Error(404, "", "Service {service} does not exist")})
		}},
		{"slow", func(rng *rand.Rand) func() {
			d := time.Duration(200+rng.IntN(2000)) * time.Millisecond
			return rule(aivensim.Rule{Probability: some(rng), Delay: d})
		}},
		{"stalled after the commit", func(rng *rand.Rand) func() { // longer than the operator waits
			return rule(each(writes, aivensim.Rule{Probability: some(rng), Stall: 2 * aivenTimeout})...)
		}},
		{"stalled body", func(rng *rand.Rand) func() {
			return rule(aivensim.Rule{Probability: some(rng), StallBody: 2 * aivenTimeout})
		}},
		{"lag of user get", lag(func(l *aivensim.Lag, d time.Duration) { l.UserGet = d })},
		{"lag of service get", lag(func(l *aivensim.Lag, d time.Duration) { l.ServiceGet, l.UserGet = d, d/2 })},
		{"lag of credentials", lag(func(l *aivensim.Lag, d time.Duration) { l.Credentials = d })},
		{"lag of deletions", lag(func(l *aivensim.Lag, d time.Duration) { l.Deleted = d })},
		{"lag of access control", lag(func(l *aivensim.Lag, d time.Duration) { l.AccessControl = d })},
		{lagOfTopics, lag(func(l *aivensim.Lag, d time.Duration) { l.KafkaACL = d })},
		{lagOfDocument, lag(func(l *aivensim.Lag, d time.Duration) { l.OpenSearchACL = d })},
	}
}

// The faults that let a new process start from old ACLs.
const (
	lagOfDocument = "lag of OpenSearch ACLs"
	lagOfTopics   = "lag of Kafka ACLs"
)

// meddling is what others do at Aiven.
func meddling(sim *aivensim.Simulator, isOurs func(*aivensim.Service, string) bool) []fault {
	var count atomic.Int64
	services := func(kind aivensim.ServiceType) []*aivensim.Service {
		var out []*aivensim.Service
		for _, p := range sim.Projects() {
			for _, s := range p.Services() {
				if kind == "" || s.Type() == kind {
					out = append(out, s)
				}
			}
		}
		return out
	}
	ours := func(rng *rand.Rand, kind aivensim.ServiceType) (*aivensim.Service, string) {
		list := services(kind)
		s, which := list[rng.IntN(len(list))], rng.Int() // both are always drawn: what comes next must not hang on what is there
		var names []string
		for _, u := range s.Users() {
			if u.Type == "normal" && isOurs(s, u.Username) {
				names = append(names, u.Username)
			}
		}
		if len(names) == 0 {
			return s, ""
		}
		return s, names[which%len(names)]
	}
	return []fault{
		{"second writer of ACLs between GET and PUT", func(*rand.Rand) func() {
			i := sim.Inject(aivensim.Rule{Operation: aivensim.ServiceOpenSearchACLUpdate, Before: func(r aivensim.Request) {
				if s := sim.Service(r.Project, r.Service); s != nil && count.Load() < 400 { // the document has room for 512 entries
					s.AddOpenSearchACL(entry(second+fmt.Sprint(count.Add(1)), "second-*", "read"))
				}
			}})
			return i.Remove
		}},
		{"ACLs of ours taken away", func(rng *rand.Rand) func() {
			s, name := ours(rng, aivensim.OpenSearch)
			doc := s.OpenSearchACLs()
			doc.ACLs = slices.DeleteFunc(doc.ACLs, func(e aivensim.OpenSearchACL) bool { return e.Username == name })
			s.SetOpenSearchACLs(doc)
			return nil
		}},
		{"topic of ours taken away", func(rng *rand.Rand) func() {
			s, name := ours(rng, aivensim.Kafka)
			for _, e := range s.KafkaACLs() {
				if name != "" && e.Username == name {
					s.DeleteKafkaACL(e.ID)
					break
				}
			}
			return nil
		}},
		{"rights of ours changed", func(rng *rand.Rand) func() {
			s, name := ours(rng, aivensim.Valkey)
			s.SetAccessControl(name, aivensim.AccessControl{Categories: []string{"+@all"}})
			return nil
		}},
		{"password of ours changed", func(rng *rand.Rand) func() {
			s, name := ours(rng, "")
			s.SetPassword(name, fmt.Sprintf("AVNS_changed-by-hand-%d", count.Add(1)))
			return nil
		}},
		{"user of ours deleted", func(rng *rand.Rand) func() {
			s, name := ours(rng, "")
			s.DeleteUser(name)
			return nil
		}},
		{"service powered off", func(rng *rand.Rand) func() {
			list := services("")
			s := list[rng.IntN(len(list))]
			s.SetState(aivensim.PowerOff)
			return func() { s.SetState(aivensim.Running) }
		}},
		{"service rebuilding", func(rng *rand.Rand) func() {
			list := services("")
			s := list[rng.IntN(len(list))]
			s.SetState(aivensim.Rebuilding)
			return func() { s.SetState(aivensim.Running) }
		}},
	}
}

func entry(user, index, permission string) aivensim.OpenSearchACL {
	return aivensim.OpenSearchACL{Username: user, Rules: []aivensim.OpenSearchRule{{Index: index, Permission: permission}}}
}

// calm ends every fault of the Aiven API.
func calm(sim *aivensim.Simulator) {
	sim.ClearRules()
	sim.SetLag(aivensim.Lag{})
	sim.Adjust(func(s *aivensim.Settings) { s.RateLimit = aivensim.RateLimit{} })
	for _, p := range sim.Projects() {
		for _, s := range p.Services() {
			s.SetState(aivensim.Running)
		}
	}
}

// clusterFaults are what happens to processes and to the way to the API server.
func clusterFaults(ctx context.Context, c *crew, p *Proxy) []fault {
	any := func(rng *rand.Rand) *replica { return c.replicas[rng.IntN(len(c.replicas))] }
	kill := func(rng *rand.Rand) func() {
		r := any(rng)
		led := c.leads(ctx, r)
		c.kill(r)
		if led {
			c.vacate(ctx)
		}
		return func() { c.resume(r) }
	}
	out := []fault{
		{"operator killed", kill},
		{"operator killed and started at once", func(rng *rand.Rand) func() {
			kill(rng)()
			return nil
		}},
		{"operator stopped and started", func(rng *rand.Rand) func() {
			r := any(rng)
			c.stop(r)
			return func() { c.resume(r) }
		}},
		{"operator frozen", func(rng *rand.Rand) func() {
			r, d := any(rng), time.Duration(1+rng.IntN(4))*time.Second
			if c.elected && rng.IntN(3) == 0 {
				d += 15 * time.Second // the lease runs out
			}
			c.freeze(ctx, r, d)
			return nil
		}},
		{"connections to the API server cut", func(*rand.Rand) func() {
			c.outage()
			p.Cut()
			return nil
		}},
		{"API server away", func(*rand.Rand) func() {
			c.outage()
			p.Refuse(true)
			return func() {
				p.Refuse(false)
				c.outage()
			}
		}},
	}
	return append(out, out[0], out[1]) // kills are the point
}

// isSecond tells whether a rule that was lost, as "name index permission", is a second writer's.
func isSecond(rule string) bool { return strings.HasPrefix(rule, second) }
