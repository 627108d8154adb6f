package year

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// Violation is something that does not hold at a moment.
type Violation struct {
	At     time.Time
	Object string // "namespace/name", a Pod, or a service
	User   string // at Aiven; "" where it is about none
	Text   string // what is wrong
	Want   string // what would be right
}

func (v Violation) String() string {
	who := v.Object
	if v.User != "" {
		who += ", user " + v.User
	}
	return fmt.Sprintf("%s: %s: %s; want %s", v.At.UTC().Format(time.RFC3339), who, v.Text, v.Want)
}

// ledger is what is known from one check to the next.
type ledger struct {
	sim   *aivensim.Simulator
	trust map[string]*trust // by project
	pods  []*pod
	// recheck is how long the operator may take to notice what Aiven has changed.
	recheck time.Duration

	now     time.Time
	outage  bool      // an outage excuses the operator, or was a moment ago
	outages time.Time // when the last outage ended; zero: there has been none

	announced map[string]time.Time // by user: when those that were replaced go
	holds     map[string]string    // by Secret and service: the user that the Secret held last
	renewed   map[string]time.Time // by user: when Aiven renewed its certificate last
	opened    map[string]string    // by Secret: the version whose stores have been opened

	Counts     Counts
	violations []Violation
}

// Counts is what was done and seen.
type Counts struct {
	Rotations int // Secrets in which the user of a service was replaced
	Renewals  int // of certificates, by Aiven
	Logins    int // tried
	Refused   int // of them, as announced
	Restarts  int // of the operator
	Outages   int
	PodStarts int
	Checks    int // of everything
}

func newLedger(sim *aivensim.Simulator, recheck time.Duration) *ledger {
	return &ledger{
		sim: sim, recheck: recheck, trust: map[string]*trust{}, announced: map[string]time.Time{}, holds: map[string]string{},
		renewed: map[string]time.Time{}, opened: map[string]string{},
	}
}

// userOf tells users of all services apart.
func userOf(b demand.Bound, username string) string {
	return b.Project + "/" + b.Service + "/" + username
}

// look is what the API server has of one application.
type look struct {
	app     *application
	is      *v1.AivenApplication // nil: it is gone
	secrets map[string]*corev1.Secret
}

// add takes note of a violation, the first time that it is seen.
func (l *ledger) add(object, user, want, format string, args ...any) {
	v := Violation{At: l.now, Object: object, User: user, Text: fmt.Sprintf(format, args...), Want: want}
	if !slices.ContainsFunc(l.violations, func(o Violation) bool { o.At = v.At; return o == v }) {
		l.violations = append(l.violations, v)
	}
}

// check looks at one application, its Secrets and its clients. all lets clients be restarted that wait for no refusal.
func (l *ledger) check(k look, all bool) {
	if k.is == nil {
		l.add(k.app.String(), "", "that it lives until the end", "the application is gone")
		return
	}
	l.checkStatus(k)
	for _, name := range k.app.secrets() {
		s := k.secrets[name]
		if s == nil {
			l.add(k.app.namespace+"/"+name, "", "the Secret of "+k.app.name, "the Secret is missing")
			continue
		}
		for _, b := range k.app.bindings {
			if b.Secret == name {
				l.checkSecret(b, s)
			}
		}
	}
	for _, p := range l.pods {
		if s := k.secrets[p.secret]; p.app == k.app && s != nil {
			l.checkPod(p, s, all)
		}
	}
}

// checkStatus looks at what the application announces.
func (l *ledger) checkStatus(k look) {
	ready := slices.ContainsFunc(k.is.Status.Conditions, func(c v1.Condition) bool {
		return c.Type == v1.ConditionReady && c.Status == corev1.ConditionTrue
	})
	if !ready && !l.outage {
		l.add(k.app.String(), "", "condition Ready", "it is not ready: %+v", k.is.Status.Conditions)
	}
	for i := range k.is.Status.Bindings {
		r := &k.is.Status.Bindings[i]
		user := r.Project + "/" + r.Service + "/" + r.Username
		if r.RetiresAt != nil {
			if known, ok := l.announced[user]; ok && !known.Equal(r.RetiresAt.Time) {
				l.add(k.app.String(), r.Username, "that an announced moment stays as it is", "it was to go at %s, and now is to at %s",
					known.UTC().Format(time.RFC3339), r.RetiresAt.UTC().Format(time.RFC3339))
			}
			l.announced[user] = r.RetiresAt.Time
		}
		if r.RotatesAt != nil && !r.RotatesAt.After(l.now) && !l.outage {
			l.add(k.app.String(), r.Username, "another user", "it was to be replaced at %s", r.RotatesAt.UTC().Format(time.RFC3339))
		}
	}
}

// checkSecret looks at what a Secret holds for a service.
func (l *ledger) checkSecret(b demand.Bound, s *corev1.Secret) {
	object, service := s.Namespace+"/"+s.Name, l.sim.Service(b.Project, b.Service)
	nameKey, _, all := b.Keys()
	user := string(s.Data[nameKey])
	for _, k := range append(all, "AIVEN_CA", "AIVEN_SECRET_UPDATED") {
		if len(s.Data[k]) == 0 {
			l.add(object, user, "a value", "%s is missing", k)
		}
	}
	id := object + "/" + b.Service
	if before := l.holds[id]; before != "" && before != user {
		l.Counts.Rotations++
	}
	l.holds[id] = user
	for _, t := range l.logins("Secret "+object, b, s.Data, s.Data) {
		t.ends, t.unknown = time.Time{}, false // what a Secret holds has no end
		l.judge(t)
	}
	for _, wrong := range b.Rights(service, user) {
		l.add(object, user, "the rights that were asked for", "on %s: %s", b.Service, wrong)
	}
	l.checkCAs(object, main, s.Data["AIVEN_CA"])
	if b.Kind == aivensim.Kafka {
		l.checkCAs(object, b.Project, s.Data["KAFKA_CA"])
		l.checkMaterial(b, s, user)
	}
}

// late tells whether what Aiven changed at a moment should have reached Secrets by now.
func (l *ledger) late(changed time.Time) bool {
	if l.outages.After(changed) {
		changed = l.outages
	}
	return !l.outage && l.now.After(changed.Add(l.recheck))
}

// checkCAs compares the CAs in a Secret with those that a project has.
func (l *ledger) checkCAs(object, project string, ca []byte) {
	want := strings.TrimSpace(l.sim.Project(project).CA())
	if strings.TrimSpace(string(ca)) != want && l.late(l.trust[project].since) {
		l.add(object, "", "the CAs that it has now", "it does not hold the CAs of project %s, which changed at %s", project,
			l.trust[project].since.UTC().Format(time.RFC3339))
	}
}

// checkMaterial looks at certificate and key, and whether both stores hold the same.
func (l *ledger) checkMaterial(b demand.Bound, s *corev1.Secret, user string) {
	object := s.Namespace + "/" + s.Name
	id := userOf(b, user)
	u, _ := l.sim.Service(b.Project, b.Service).User(user)
	if strings.TrimSpace(u.AccessCert) != strings.TrimSpace(string(s.Data["KAFKA_CERTIFICATE"])) && l.late(l.renewed[id]) {
		l.add(object, user, "the renewed certificate", "it does not hold the user's certificate, which Aiven renewed at %s", l.renewed[id].UTC().Format(time.RFC3339))
	}
	if !u.ExpiringNotAfter.IsZero() && l.late(l.renewed[id]) {
		l.add(object, user, "that it is", "the renewal of %s is not acknowledged at Aiven", l.renewed[id].UTC().Format(time.RFC3339))
	}
	if l.opened[object] == s.ResourceVersion {
		return
	}
	l.opened[object] = s.ResourceVersion // opening a store takes a while
	next := ""
	if !l.late(l.trust[b.Project].since) {
		next = l.sim.Project(b.Project).CA()
	}
	if err := openStores(s.Data, next, l.now); err != nil {
		l.add(object, user, "stores that hold what the PEM files hold", "%v", err)
	}
}

// checkPod lets a client try what it has, and restarts it when it is time.
func (l *ledger) checkPod(p *pod, s *corev1.Secret, all bool) {
	refused := false
	for _, b := range p.app.bindings {
		if b.Secret != p.secret || p.data == nil {
			continue
		}
		for _, t := range l.logins(p.String(), b, p.data, s.Data) {
			refused = l.judge(t) || refused
		}
	}
	if p.data == nil || refused || all && !p.late && p.version != s.ResourceVersion {
		p.restart(s)
		l.Counts.PodStarts++
	}
}

// judge tells whether a login was refused as announced, and takes note of one that ended otherwise than it should.
func (l *ledger) judge(t login) (refused bool) {
	l.Counts.Logins++
	over := !t.ends.IsZero() && !l.now.Before(t.ends)
	what := fmt.Sprintf("%s on %s", t.with, t.service)
	switch {
	case t.accepted && over && !l.outage:
		l.add(t.by, t.user, "that it is refused", "%s is still accepted, and was to end at %s", what, t.ends.UTC().Format(time.RFC3339))
	case t.accepted:
		if t.unknown && !l.outage {
			l.add(t.by, t.user, "a moment in status.bindings", "%s is of a user that was replaced, and no moment is announced for its end", what)
		}
	case over:
		l.Counts.Refused++
		return true
	case t.ends.IsZero():
		l.add(t.by, t.user, "that it works", "%s is refused, and no moment was announced for its end", what)
	default:
		l.add(t.by, t.user, "that it works until then", "%s is refused before its end, which is announced for %s", what, t.ends.UTC().Format(time.RFC3339))
	}
	return false
}

// census compares the users that Aiven has with those that Secrets hold and those on their way out, and looks for rights without a user.
func (l *ledger) census(looks []look) {
	if l.outage {
		return
	}
	want := map[string]string{} // by service: its users, and what wants them
	for _, k := range looks {
		for _, b := range k.app.bindings {
			if s := k.secrets[b.Secret]; s != nil {
				nameKey, _, _ := b.Keys()
				want[userOf(b, string(s.Data[nameKey]))] = "Secret " + s.Namespace + "/" + s.Name
			}
		}
		if k.is == nil {
			continue
		}
		for i := range k.is.Status.Bindings {
			r := &k.is.Status.Bindings[i]
			if r.RetiresAt != nil && r.RetiresAt.After(l.now) {
				want[r.Project+"/"+r.Service+"/"+r.Username] = "the status of " + k.app.String()
			}
		}
	}
	for _, project := range l.sim.Projects() {
		for _, service := range project.Services() {
			at := project.Name() + "/" + service.Name()
			for _, u := range service.Users() {
				if _, ok := want[at+"/"+u.Username]; !ok && u.Type == "normal" {
					l.add(at, u.Username, "that it is deleted", "no Secret holds the user, and it is not on its way out")
				}
				delete(want, at+"/"+u.Username)
			}
			for _, name := range service.Gauges().OrphanACLs {
				l.add(at, name, "that they are deleted", "the user is gone, and its rights are still there")
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		at := strings.LastIndexByte(id, '/')
		l.add(id[:at], id[at+1:], "that it is there", "the user does not exist, and %s has it", want[id])
	}
}

// nothing looks for what is left after the end.
func (l *ledger) nothing(looks []look) {
	for _, k := range looks {
		if k.is != nil {
			l.add(k.app.String(), "", "that it is gone", "the application was deleted a day ago, and is held by %q", k.is.Finalizers)
		}
		for name, s := range k.secrets {
			l.add(k.app.namespace+"/"+name, "", "that it is gone", "the application was deleted a day ago, and its Secret is still there, with finalizers %q", s.Finalizers)
		}
	}
	l.census(nil)
	if c := l.sim.Counters(); c.BlindRepeats+c.BuiltInDeletes+c.LostUpdates > 0 {
		l.add("Aiven", "", "none of them", "%d POSTs were repeated blindly, %d built-in users were to be deleted, %d updates of rights got lost",
			c.BlindRepeats, c.BuiltInDeletes, c.LostUpdates)
	}
}
