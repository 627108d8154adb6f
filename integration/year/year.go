package year

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/clockwork"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/stage"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// Config says what a run is like.
type Config struct {
	Seed         uint64
	Weeks        int // simulated; at least 6
	Applications int
	Outages      int
	Restarts     int
	// Kubeconfig is the path of the cluster's.
	Kubeconfig string
	// Log takes the timeline, line by line; nil: nobody does.
	Log func(format string, args ...any)
}

const (
	// minWeeks is what an outage of longer than a week takes beside the rotation of CAs.
	minWeeks   = 6
	token      = "avnT_year_token"
	namespaces = 3
	// resync is how often the operator looks at an application without a reason, and snapshotAge how old what it knows of Aiven may be then.
	resync      = 3 * day
	snapshotAge = 12 * time.Hour
	// recheck is how long it takes at most until the operator notices what Aiven has changed: a resync is spread by a fifth.
	recheck = resync*6/5 + snapshotAge
	// renewal is how long before its end Aiven renews a certificate, and life how long it lives.
	renewal = 90 * day
	life    = 820 * day
	// recovery is how long after an outage all may take to be in order again.
	recovery = 10 * time.Minute
	// stopTime is how long the operator may take to end, in real time.
	stopTime = 30 * time.Second
)

// run is the surroundings of a run.
type run struct {
	Config
	stage *stage.Stage
	sim   *aivensim.Simulator
	url   string
	works *clockwork.Clockwork
	books *ledger
	rng   *rand.Rand

	apps     []*application
	in       []string // namespaces
	operator *operator.Process
	began    time.Time // when the year begins
	plan     plan
	watched  map[time.Time][]*application // of which users go at that moment
	formers  map[string]time.Time         // by user: when the certificate ends that was renewed last
	outage   bool                         // one is under way
	printed  Counts                       // of the last line of progress
}

// Run does all of it. The error says that it could not be done; what does not hold is in the report.
func Run(ctx context.Context, c Config) (report *Report, err error) {
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	if c.Weeks < minWeeks || c.Applications < kinds {
		return nil, fmt.Errorf("plan the year: want at least %d weeks and %d applications, got %d and %d", minWeeks, kinds, c.Weeks, c.Applications)
	}
	r := &run{
		Config: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), watched: map[time.Time][]*application{}, formers: map[string]time.Time{},
	}
	if r.stage, err = stage.Open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stage.Close()) }()
	r.works = clockwork.New()
	r.works.Quick = true
	r.sim = aivensim.New(aivensim.Options{Token: token, KeySize: 2048, ECDSA: true, Seed: c.Seed, UserLimit: -1, Clock: r.works.Clock()})
	r.books = newLedger(r.sim, recheck)
	server := httptest.NewServer(r.sim)
	defer server.Close()
	r.url = server.URL
	defer func() {
		if r.operator != nil {
			if err != nil {
				err = fmt.Errorf("%w\nthe end of the operator's log:\n%s", err, stage.Tail(r.operator.Log(), 30))
			}
			r.kill() // before the namespaces go, so that nothing holds them
		}
	}()
	start := time.Now()
	err = r.live(ctx)
	counters := r.sim.Counters()
	return &Report{
		Seed: c.Seed, Weeks: c.Weeks, Applications: len(r.apps), Took: time.Since(start), Counts: r.books.Counts,
		UsersMade: counters.UsersCreated, UsersDeleted: counters.UsersDeleted, Violations: r.books.violations,
	}, err
}

// live is the whole story, in its order.
func (r *run) live(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.before(ctx); err != nil {
		return err
	}
	if err := r.draw(ctx); err != nil {
		return err
	}
	for {
		e, ok := r.plan.next()
		if !ok || e.at.After(r.at(1)) {
			break
		}
		if err := r.works.AdvanceTo(ctx, e.at); err != nil {
			return err
		}
		if err := e.do(ctx); err != nil {
			return err
		}
	}
	return r.end(ctx)
}

// prepare makes namespaces with their instances, and Aiven with its services.
func (r *run) prepare(ctx context.Context) error {
	r.sim.AddProject(pool).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	p := r.sim.AddProject(main)
	for range namespaces {
		namespace, err := r.stage.Namespace(ctx, "year-")
		if err != nil {
			return err
		}
		r.in = append(r.in, namespace)
		for name, kind := range map[string]binding.Kind{search: binding.OpenSearch, cache: binding.Valkey, store: binding.Valkey} {
			service := string(kind) + "-" + namespace + "-" + name
			p.AddService(service, aivensim.ServiceConfig{Type: aivensim.ServiceType(kind)})
			if err := r.stage.Instance(ctx, kind, namespace, service); err != nil {
				return err
			}
		}
	}
	for n := range r.Applications {
		r.apps = append(r.apps, newApplication(r.in[n%namespaces], n))
	}
	for _, p := range r.sim.Projects() {
		ca, err := certificates([]byte(p.CA()))
		if err != nil {
			return fmt.Errorf("read the CA of project %s: %w", p.Name(), err)
		}
		t := &trust{latest: ca[0]}
		if t.server, err = serverOf(p, r.works.Now()); err != nil {
			return err
		}
		r.books.trust[p.Name()] = t
	}
	return nil
}

// before lets the applications that do not rotate come into being, about two years before the year, so that Aiven renews their certificates in it.
func (r *run) before(ctx context.Context) error {
	r.began = r.works.Now().Add(life - renewal)
	if err := r.start(ctx, "--resync=8760h", "--janitor-period=8760h"); err != nil {
		return err
	}
	var steady []*application
	for _, a := range r.apps {
		if a.spec.Rotation == nil {
			steady = append(steady, a)
		}
	}
	r.Log("two years before: %d applications begin that do not rotate", len(steady))
	first, births := r.works.Now(), r.births(len(steady))
	for i, a := range steady {
		if err := r.works.AdvanceTo(ctx, first.Add(births[i])); err != nil {
			return err
		}
		if err := r.create(ctx, a); err != nil {
			return err
		}
	}
	if err := r.stop(); err != nil {
		return err
	}
	if err := r.works.AdvanceTo(ctx, r.began); err != nil {
		return err
	}
	return r.start(ctx)
}

// length is that of the simulated time.
func (r *run) length() time.Duration { return time.Duration(r.Weeks) * week }

// create makes applications, and Pods of theirs.
func (r *run) create(ctx context.Context, apps ...*application) error {
	for _, a := range apps {
		obj := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.name}, Spec: a.spec}
		if err := r.stage.Create(ctx, obj); err != nil {
			return fmt.Errorf("create application %s: %w", a, err)
		}
		for _, name := range a.secrets() {
			for _, late := range []bool{false, true} {
				r.books.pods = append(r.books.pods, &pod{app: a, secret: name, late: late})
			}
		}
	}
	return r.works.Settle(ctx)
}

// start starts an operator and waits until it has nothing to do.
func (r *run) start(ctx context.Context, args ...string) (err error) {
	r.operator, err = r.works.Start(clockwork.Operator{
		Client: r.stage, Namespaces: r.in, Token: token,
		Args: append([]string{
			"--kubeconfig=" + r.Kubeconfig, "--namespaces=" + strings.Join(r.in, ","), "--leader-election=false", "--aiven-url=" + r.url, "--aiven-timeout=3s",
			"--projects=" + pool, "--main-project=" + main, "--cluster-name=year", "--workers=10",
			"--resync=" + resync.String(), "--janitor-period=" + day.String(), "--snapshot-age=" + snapshotAge.String(),
		}, args...),
	})
	if err != nil {
		return err
	}
	return r.works.Settle(ctx)
}

// stop asks the operator to stop, as the kubelet does.
func (r *run) stop() error {
	r.works.Ended()
	p := r.operator
	r.operator = nil
	_, err := p.Stop(stopTime)
	return err
}

// kill ends the operator in the middle of what it does.
func (r *run) kill() {
	r.works.Ended()
	r.operator.Kill()
	r.operator = nil
}

// note prints a line of the timeline.
func (r *run) note(format string, args ...any) {
	since := r.works.Now().Sub(r.began)
	r.Log("day %3d %02d:%02d  %s", int(since/day)+1, int(since/time.Hour)%24, int(since/time.Minute)%60, fmt.Sprintf(format, args...))
}
