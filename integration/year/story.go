package year

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/keysmith-io/keysmith/integration/clockwork"
	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// When CAs are rotated, as shares of the time that is simulated: the next CA signs, services show certificates of it, certificates of clients that the former
// one has signed are renewed, and it is retired.
const (
	rotated  = 0.30
	switched = 0.40
	reissued = 0.42 // from then on
	retired  = 0.65
)

// together is how many applications begin, and then rotate, at one moment, on average.
const together = 5

// outage is a time in which something does not work.
type outage struct {
	what, over string
	share      float64 // of the time that is simulated, after which it begins
	lasts      time.Duration
	rule       *aivensim.Rule // nil: the operator is away
}

// outages are repeated where there are to be more of them. The first is longer than the interval of rotation; the others begin before a rotation.
var outages = []outage{
	{what: "the operator is away", over: "the operator is back", share: 0.75, lasts: 9 * day},
	{what: "Aiven answers 503", over: "Aiven works again", share: 0.20, lasts: 6 * time.Hour,
		rule: &aivensim.Rule{Answer: aivensim.Error(http.StatusServiceUnavailable, "", "The service is temporarily unavailable")}},
	{what: "Aiven does not answer", over: "Aiven answers again", share: 0.55, lasts: 3 * time.Hour, rule: &aivensim.Rule{Delay: time.Hour}},
}

// cuts are the calls at which the operator is killed; "": it is stopped and started again, at any time.
var cuts = []aivensim.Operation{aivensim.ServiceUserCreate, aivensim.ServiceUserDelete, "", aivensim.ServiceKafkaACLAdd}

// at is the moment after a share of the time that is simulated.
func (r *run) at(share float64) time.Time {
	return r.began.Add(time.Duration(share * float64(r.length())).Truncate(time.Minute))
}

// births are when applications that do not rotate are made, from the first one on: after so long of the year, their certificates are renewed. None is
// renewed shortly before the CA changes if its former certificate outlived that CA: Aiven keeps one former certificate.
func (r *run) births(n int) []time.Duration {
	var out []time.Duration
	for i := range n {
		share := (float64(i) + r.rng.Float64()) / float64(n)
		if after := r.at(share); share < rotated && after.Add(renewal+day).After(r.at(retired)) {
			share += rotated
		}
		out = append(out, r.at(share).Sub(r.began))
	}
	slices.Sort(out)
	return out
}

// draw plans the year.
func (r *run) draw(ctx context.Context) error {
	r.note("the year begins")
	var next []*application
	for _, a := range r.apps {
		if a.spec.Rotation == nil {
			if err := r.drawRenewals(ctx, a); err != nil {
				return err
			}
			continue
		}
		if next = append(next, a); r.rng.IntN(together) == 0 {
			r.drawStart(next)
			next = nil
		}
	}
	r.drawStart(next)
	for d := range 7 * r.Weeks {
		r.plan.add(r.began.Add(time.Duration(d)*day+12*time.Hour), r.checkAll)
	}
	for n := 1; n <= r.Weeks; n++ {
		r.plan.add(r.began.Add(time.Duration(n)*week), func(ctx context.Context) error {
			defer r.progress(n)
			return r.checkAll(ctx)
		})
	}
	r.plan.add(r.at(rotated), r.rotateCAs)
	for i := range r.Outages {
		o := outages[i%len(outages)]
		r.plan.add(r.at(o.share+0.05*float64(i/len(outages))), func(ctx context.Context) error { return r.await(ctx, o) })
	}
	for i := range r.Restarts {
		cut := cuts[i%len(cuts)]
		r.plan.add(r.at((float64(i)+0.5)/float64(r.Restarts)), func(ctx context.Context) error { return r.restart(ctx, cut) })
	}
	return nil
}

// drawStart plans the beginning of applications that rotate, in the first week.
func (r *run) drawStart(apps []*application) {
	if len(apps) > 0 {
		after := time.Duration(r.rng.Int64N(int64(week - day))).Truncate(time.Minute)
		r.plan.add(r.began.Add(after), func(ctx context.Context) error { return r.create(ctx, apps...) })
	}
}

// holder is the Kafka user of an application that does not rotate.
func (r *run) holder(ctx context.Context, a *application) (demand.Bound, aivensim.User, error) {
	b := a.bindings[0]
	looks, err := r.look(ctx, a)
	if err != nil {
		return b, aivensim.User{}, err
	}
	s := looks[0].secrets[b.Secret]
	if s == nil {
		return b, aivensim.User{}, fmt.Errorf("look up the user of %s: there is no Secret %s", a, b.Secret)
	}
	nameKey, _, _ := b.Keys()
	u, ok := r.sim.Service(b.Project, b.Service).User(string(s.Data[nameKey]))
	if !ok {
		return b, u, fmt.Errorf("look up the user of %s: Aiven has no %q", a, s.Data[nameKey])
	}
	return b, u, nil
}

// drawRenewals plans the renewals of an application's certificate: before its end, and before its CA is retired.
func (r *run) drawRenewals(ctx context.Context, a *application) error {
	_, u, err := r.holder(ctx, a)
	if err != nil {
		return err
	}
	r.plan.add(u.NotAfter.Add(-renewal), func(ctx context.Context) error { return r.renew(ctx, a, false) })
	r.plan.add(r.at(reissued+0.08*r.rng.Float64()), func(ctx context.Context) error { return r.renew(ctx, a, true) })
	return nil
}

// renew renews a certificate as Aiven does by itself, unless another renewal came first: one that is near its end, or one of a former CA.
func (r *run) renew(ctx context.Context, a *application, ofCA bool) error {
	b, u, err := r.holder(ctx, a)
	if err != nil {
		return err
	}
	now, id := r.works.Now(), userOf(b, u.Username)
	cert, err := certificates([]byte(u.AccessCert))
	if err != nil {
		return fmt.Errorf("read the certificate of %s: %w", u.Username, err)
	}
	why := "which ends at " + u.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case !ofCA && u.NotAfter.Sub(now) > renewal, ofCA && !r.books.trust[b.Project].isFormer(cert[0]):
		return nil
	case ofCA:
		why = "which the former CA has signed"
		if end := r.formers[id]; end.After(now) {
			r.plan.add(end.Add(time.Hour), func(ctx context.Context) error { return r.renew(ctx, a, true) })
			return nil
		}
	}
	r.formers[id], r.books.renewed[id] = u.NotAfter, now
	r.sim.Service(b.Project, b.Service).RenewCertificate(u.Username)
	r.books.Counts.Renewals++
	r.note("Aiven renews the certificate of %s, %s", a, why)
	return nil
}

// rotateCAs begins the rotation of the CAs of all projects, and plans the rest.
func (r *run) rotateCAs(context.Context) error {
	for _, p := range r.sim.Projects() {
		t := r.books.trust[p.Name()]
		p.RotateCA()
		cas, err := certificates([]byte(p.CA()))
		if err != nil {
			return fmt.Errorf("read the CA of project %s: %w", p.Name(), err)
		}
		t.former, t.latest, t.since, t.switches, t.retires = t.latest, cas[0], r.works.Now(), r.at(switched), r.at(retired)
	}
	r.note("Aiven begins to rotate its CAs: new certificates are signed by the next ones")
	r.plan.add(r.at(switched), func(context.Context) (err error) {
		for _, p := range r.sim.Projects() {
			if t := r.books.trust[p.Name()]; err == nil {
				t.server, err = serverOf(p, r.works.Now())
			}
		}
		r.note("Aiven's services show certificates of the next CAs")
		return err
	})
	r.plan.add(r.at(retired), func(context.Context) error {
		for _, p := range r.sim.Projects() {
			p.RetireCAs()
			r.books.trust[p.Name()].since = r.works.Now()
		}
		r.note("Aiven has rotated its CAs: the former ones are no longer accepted")
		return nil
	})
	return nil
}

// serverOf makes the certificate that a project's services show.
func serverOf(p *aivensim.Project, now time.Time) (*x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a server's key: %w", err)
	}
	c, err := x509.ParseCertificate(p.Sign(x509.Certificate{
		Subject: pkix.Name{CommonName: p.Name()}, NotBefore: now, NotAfter: now.AddDate(5, 0, 0), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public()))
	if err != nil {
		return nil, fmt.Errorf("make a server's certificate: %w", err)
	}
	return c, nil
}

// next is the first of the moments that applications announce; zero: there is none.
func (r *run) next(ctx context.Context, of func(*v1.Binding) bool, moment func(*v1.Binding) time.Time) (time.Time, error) {
	looks, err := r.look(ctx, r.living()...)
	if err != nil {
		return time.Time{}, err
	}
	var soonest time.Time
	for _, k := range looks {
		for i := range k.is.Status.Bindings {
			if b := &k.is.Status.Bindings[i]; of(b) {
				soonest = first(soonest, moment(b))
			}
		}
	}
	return soonest, nil
}

// rotation is when a binding rotates.
func rotation(b *v1.Binding) time.Time { return b.RotatesAt.Time }

// await begins an outage, just before a rotation if it is one of Aiven.
func (r *run) await(ctx context.Context, o outage) error {
	if o.rule == nil {
		return r.begin(o)
	}
	soon := r.works.Now().Add(time.Hour)
	at, err := r.next(ctx, func(b *v1.Binding) bool { return b.RotatesAt != nil && b.RotatesAt.After(soon) }, rotation)
	if err != nil || at.IsZero() {
		return err
	}
	r.plan.add(at.Add(-30*time.Minute), func(context.Context) error { return r.begin(o) })
	return nil
}

// begin begins an outage, after another one if that is under way, and plans its end.
func (r *run) begin(o outage) error {
	if r.outage {
		r.plan.add(r.works.Now().Add(day), func(context.Context) error { return r.begin(o) })
		return nil
	}
	r.outage = true
	r.books.Counts.Outages++
	r.note("an outage begins: %s for %s", o.what, o.lasts)
	var injected *aivensim.Injection
	if o.rule == nil {
		if err := r.stop(); err != nil {
			return err
		}
	} else {
		injected = r.sim.Inject(*o.rule)
		r.works.Grain = 2 * time.Hour // a pass that fails takes seconds
	}
	r.plan.add(r.works.Now().Add(o.lasts), func(ctx context.Context) error {
		if injected == nil {
			if err := r.start(ctx); err != nil {
				return err
			}
		} else {
			r.works.Grain = 0
			injected.Remove()
		}
		r.outage, r.books.outages = false, r.works.Now()
		r.note("the outage is over: %s", o.over)
		r.plan.add(r.works.Now().Add(recovery), r.checkAll)
		return nil
	})
	return nil
}

// restart restarts the operator, after an outage if there is one. Where it is to be killed, that is in the middle of the next rotation.
func (r *run) restart(ctx context.Context, cut aivensim.Operation) error {
	again := func(ctx context.Context) error { return r.restart(ctx, cut) }
	if r.outage {
		r.plan.add(r.works.Now().Add(day), again)
		return nil
	}
	if cut == "" {
		if err := r.stop(); err != nil {
			return err
		}
		r.books.Counts.Restarts++
		r.note("the operator is restarted")
		return r.start(ctx)
	}
	soon, moment := r.works.Now().Add(time.Minute), rotation
	of := func(b *v1.Binding) bool {
		return b.RotatesAt != nil && b.RotatesAt.After(soon) && (cut != aivensim.ServiceKafkaACLAdd || b.Kind == string(aivensim.Kafka))
	}
	if cut == aivensim.ServiceUserDelete {
		of = func(b *v1.Binding) bool { return b.RetiresAt != nil && b.RetiresAt.After(soon) }
		moment = func(b *v1.Binding) time.Time { return b.RetiresAt.Time }
	}
	at, err := r.next(ctx, of, moment)
	if err != nil {
		return err
	}
	if at.IsZero() {
		r.plan.add(r.works.Now().Add(day), again)
		return nil
	}
	r.plan.add(at.Add(-time.Second), func(ctx context.Context) error {
		if r.outage {
			return again(ctx)
		}
		return r.cut(ctx, at, cut)
	})
	return nil
}

// cut moves the time on to a moment and kills the operator at the first call of a kind.
func (r *run) cut(ctx context.Context, at time.Time, call aivensim.Operation) error {
	reached := make(chan struct{})
	once := sync.OnceFunc(func() { close(reached) })
	injected := r.sim.Inject(aivensim.Rule{Operation: call, Before: func(aivensim.Request) { once() }})
	r.works.Jump(at)
	select {
	case <-reached:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(clockwork.Deadline):
		return fmt.Errorf("kill the operator at %s: it makes no such call at %s", call, at.UTC().Format(time.RFC3339))
	}
	r.kill()
	injected.Remove()
	r.books.Counts.Restarts++
	r.note("the operator is killed at %s, and started again", call)
	return r.start(ctx)
}
