package chaos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// outgoing is a user that was replaced, as the Secret records it.
type outgoing struct {
	Kind     aivensim.ServiceType
	Instance string
	Project  string
	User     string
	Until    time.Time `json:"retiresAt"`
}

// outgoingOf are the users that were replaced in a Secret.
func outgoingOf(s *corev1.Secret) []outgoing {
	var record struct{ Outgoing []outgoing }
	if json.Unmarshal([]byte(s.Annotations["keysmith.io/rotation"]), &record) != nil {
		return nil
	}
	return record.Outgoing
}

// isAbout tells whether a user that was replaced is one of a binding's service.
func (o outgoing) isAbout(b demand.Bound) bool {
	return o.Kind == b.Kind && o.Project == b.Project && (o.Kind != aivensim.Valkey || o.Instance == b.Instance)
}

// bound is what stands for the user in the Secret.
func (o outgoing) bound() demand.Bound {
	return demand.Bound{Kind: o.Kind, Project: o.Project, Instance: o.Instance}
}

// material are the keys of all that a new user brings with it. Its private key may be another one's: the simulator makes a few and hands them out in turn.
func material(b demand.Bound) []string {
	name, password, _ := b.Keys()
	if b.Kind == aivensim.Kafka {
		return []string{name, password, "KAFKA_CERTIFICATE", "client.keystore.p12"}
	}
	return []string{name, password}
}

// halves are the keys that one write of a Secret left as they were, although it replaced the user that they belong to, and the records of replaced
// users that came without a new one. A Secret that was made again records those that the one before had replaced.
func halves(before, after *corev1.Secret, replaced func(outgoing) bool) []string {
	var out []string
	known := outgoingOf(before)
	for _, o := range outgoingOf(after) {
		if replaced(o) || slices.ContainsFunc(known, func(k outgoing) bool { return k.User == o.User && k.isAbout(o.bound()) }) {
			continue
		}
		for _, k := range material(o.bound()) {
			if len(after.Data[k]) == 0 || bytes.Equal(before.Data[k], after.Data[k]) {
				out = append(out, k)
			}
		}
	}
	return out
}

// dropped are the users that a write of a Secret replaced by others of the same service without a word of how long they go on working.
func dropped(before, after *corev1.Secret) []outgoing {
	const pool = "kafka.aiven.nais.io/pool"
	var out []outgoing
	for kind, keys := range demand.Names {
		if kind == aivensim.Kafka && before.Annotations[pool] != after.Annotations[pool] {
			continue
		}
		for _, k := range keys {
			old, now := string(before.Data[k]), string(after.Data[k])
			if old == "" || now == "" || now == edited || now == old {
				continue
			}
			o := outgoing{Kind: kind, Project: Main, User: old}
			if kind == aivensim.Kafka {
				o.Project = before.Annotations[pool]
			}
			for instance, name := range demand.Variables {
				if k == "VALKEY_USERNAME_"+name {
					o.Instance = instance
				}
			}
			if !slices.ContainsFunc(outgoingOf(after), func(p outgoing) bool { return p.User == old && p.isAbout(o.bound()) }) {
				out = append(out, o)
			}
		}
	}
	return out
}

// twice are the services of an application of whose users more than one is being replaced, by its status.
func twice(app *v1.AivenApplication) []string {
	count := map[string]int{}
	for _, r := range app.Status.Bindings {
		if r.State == "Rotating" || r.RetiresAt != nil {
			count[r.Kind+" "+r.Instance+" of "+r.Project+" in "+r.SecretName]++
		}
	}
	var out []string
	for what, n := range count {
		if n > 1 {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return out
}

// promise is that a user which was replaced goes on working until a moment.
type promise struct {
	outgoing
	app, secret string
	uid         types.UID // of the Secret
	made        time.Time
	released    time.Time // when somebody took away what it was for; zero: nobody did
}

// ledger keeps the promises of a namespace. It is safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	promises []*promise
	wanted   map[string]v1.AivenApplicationSpec // what applications asked for last, by name
}

// add notes what a Secret promises for the first time.
func (l *ledger) add(app string, s *corev1.Secret, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range outgoingOf(s) {
		if !slices.ContainsFunc(l.promises, func(p *promise) bool { return p.uid == s.UID && p.User == o.User && p.isAbout(o.bound()) }) {
			p := &promise{outgoing: o, app: app, secret: s.Name, uid: s.UID, made: now}
			l.promises = append(l.promises, p)
			if spec, ok := l.wanted[app]; ok { // the operator may have seen the one before
				p.follow(spec, now)
			}
		}
	}
}

// has tells whether a user was promised to go on working before, by whatever Secret.
func (l *ledger) has(o outgoing) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.promises, func(p *promise) bool { return p.User == o.User && p.isAbout(o.bound()) })
}

// asks notes what an application asks for from now on.
func (l *ledger) asks(app string, spec v1.AivenApplicationSpec, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted == nil {
		l.wanted = map[string]v1.AivenApplicationSpec{}
	}
	l.wanted[app] = *spec.DeepCopy()
	for _, p := range l.promises {
		if p.app == app && p.released.IsZero() {
			p.follow(spec, now)
		}
	}
}

// follow changes a promise to what its application asks for: none holds for a service that it does not want in that Secret, and a shorter overlap
// holds for users that were replaced already.
func (p *promise) follow(spec v1.AivenApplicationSpec, now time.Time) {
	if !slices.ContainsFunc(bindings("", spec), func(b demand.Bound) bool { return b.Secret == p.secret && p.isAbout(b) }) {
		p.released = now
	}
	overlap := overlapOf(spec)
	if sooner := p.made.Truncate(time.Second).Add(overlap); overlap > 0 && sooner.Before(p.Until) {
		p.Until = sooner
	}
}

// release ends the promises of all Secrets that are meant.
func (l *ledger) release(now time.Time, meant func(*promise) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.promises {
		if meant(p) && (p.released.IsZero() || now.Before(p.released)) {
			p.released = now
		}
	}
}

// overlapOf is how long a replaced user of an application works; zero if the application does not say it.
func overlapOf(spec v1.AivenApplicationSpec) time.Duration {
	if spec.Rotation == nil {
		return 0
	}
	overlap, _ := time.ParseDuration(spec.Rotation.Overlap)
	interval, _ := time.ParseDuration(spec.Rotation.Interval)
	return cmp.Or(overlap, interval/2)
}

// broken are the promises that were not kept: a user was to be deleted, or got another password, before its time. calls are what the operator did.
func (l *ledger) broken(namespace string, calls []aivensim.Entry, excused func(user string) bool) []Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Violation
	for _, p := range l.promises {
		for _, e := range calls {
			harms := e.Operation == aivensim.ServiceUserDelete || e.Operation == aivensim.ServiceUserCredentialsReset
			early := e.Time.After(p.made) && e.Time.Before(p.Until) && (p.released.IsZero() || e.Time.Before(p.released))
			if !harms || !early || e.Username != p.User || e.Project != p.Project || excused(p.User) {
				continue
			}
			out = append(out, Violation{Invariant: Overlap, at: e.Time, Namespace: namespace, Objects: []string{p.app, p.secret}, Users: []string{p.User},
				Text: fmt.Sprintf("user %s of Secret %s, replaced at %s, was to work until %s: %s", p.User, p.secret, p.made.UTC().Format(time.TimeOnly),
					p.Until.UTC().Format(time.TimeOnly), callText(e))})
			break
		}
	}
	return out
}

// due is when the last of the promises that end before a moment does; zero: there are none.
func (l *ledger) due(now, before time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last time.Time
	for _, p := range l.promises {
		if p.released.IsZero() && p.Until.After(now) && p.Until.Before(before) && p.Until.After(last) {
			last = p.Until
		}
	}
	return last
}

// kept counts the promises, and those whose time came.
func (l *ledger) kept(now time.Time) (all, over int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.promises {
		if p.released.IsZero() && !p.Until.After(now) || !p.released.IsZero() && !p.Until.After(p.released) {
			over++
		}
	}
	return len(l.promises), over
}
