package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/stage"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Config says what a run is like.
type Config struct {
	Seed         uint64
	Duration     time.Duration // of the faults
	Namespaces   int
	Applications int // in each namespace, at most
	// Replicas of the operator. More than one contend for a lease.
	Replicas int
	// Pause is how long a namespace rests between two operations, on average.
	Pause time.Duration
	// Patience is how long all may take to be in order once faults have ended. The longest back-off of the operator is a minute.
	Patience time.Duration
	// Binary is the operator, as operator.Build returned it, and Kubeconfig the path of the cluster's.
	Binary, Kubeconfig string
	// Logs is a folder for the operators' logs, which stay there; empty: they are dropped.
	Logs string
	// Log takes lines of progress; nil: nobody does.
	Log func(format string, args ...any)
}

const (
	// aivenTimeout is what the operator waits for an answer of the Aiven API. The least that the timeouts of a test can be is what a slow machine takes.
	aivenTimeout = 5 * time.Second
	// jane is a person, with a user on every service.
	jane = "jane"
	// cluster is the operator's name for the cluster; other is another one that shares the Aiven projects.
	cluster, other = "chaos", "other"
)

// run is the surroundings of a run.
type run struct {
	Config
	stage      *stage.Stage
	sim        *aivensim.Simulator
	gate       *gate
	history    *history
	proxy      *Proxy
	crew       *crew
	drivers    []*driver
	watchers   []*watcher
	foreigners []foreigner
}

// Run does all of it. The error says that it could not be done; what does not hold is in the report.
func Run(ctx context.Context, c Config) (report *Report, err error) {
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	r := &run{Config: c, history: newHistory()}
	if r.stage, err = stage.Open(ctx); err != nil {
		return nil, err
	}
	if err := coordinationv1.AddToScheme(r.stage.Scheme()); err != nil {
		return nil, fmt.Errorf("prepare the client: %w", err)
	}
	defer func() { err = errors.Join(err, r.stage.Close()) }()
	dir, err := os.MkdirTemp("", "keysmith-chaos-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kubeconfig, proxy, err := throughProxy(c.Kubeconfig, dir)
	if err != nil {
		return nil, err
	}
	r.proxy = proxy
	defer func() { err = errors.Join(err, proxy.Close()) }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	server := httptest.NewServer(r.gate)
	defer server.Close()
	if err := r.enlist(ctx, server.URL, kubeconfig); err != nil {
		return nil, err
	}
	defer r.crew.finish(false) // before the namespaces go, so that nothing holds them
	return r.chaos(ctx)
}

// prepare makes namespaces, and Aiven with its services and with those who were there before.
func (r *run) prepare(ctx context.Context) error {
	r.sim = aivensim.New(aivensim.Options{Token: "unused", KeySize: 2048, ECDSA: true, Seed: r.Seed, UserLimit: -1})
	r.gate = newGate(r.sim)
	main := r.sim.AddProject(Main)
	for _, pool := range append([]string{ForbiddenPool}, Pools...) {
		name := "kafka"
		if pool != Pools[0] {
			name = pool + "-kafka"
		}
		r.sim.AddProject(pool).AddService(name, aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	}
	for i := range r.Namespaces {
		namespace, err := r.stage.Namespace(ctx, "chaos-")
		if err != nil {
			return err
		}
		main.AddService("opensearch-"+namespace+"-"+OpenSearchInstance, aivensim.ServiceConfig{Type: aivensim.OpenSearch})
		for _, instance := range ValkeyInstances {
			main.AddService("valkey-"+namespace+"-"+instance, aivensim.ServiceConfig{Type: aivensim.Valkey})
		}
		stream := uint64(i)
		d := newDriver(r.stage, r.history, namespace, NewModel(r.Seed, stream, r.Applications), rand.New(rand.NewPCG(r.Seed, 1000+stream)))
		if err := d.instances(ctx); err != nil {
			return err
		}
		r.drivers = append(r.drivers, d)
		r.watchers = append(r.watchers, newWatcher(d, r.sim))
	}
	r.settle()
	return nil
}

// settle lets foreigners settle at Aiven: a person on each service, and users of another cluster that look like ours.
func (r *run) settle() {
	for _, p := range r.sim.Projects() {
		for _, s := range p.Services() {
			r.foreigner(s, jane)
			for _, d := range r.drivers {
				for i := range r.Applications {
					id := key.Identity{Cluster: other, Namespace: d.namespace, Application: "app-" + strconv.Itoa(i), Project: p.Name(), Service: s.Name()}
					switch {
					case s.Type() == aivensim.Kafka:
						r.foreigner(s, id.Kafka())
					case !strings.Contains(s.Name(), d.namespace):
					case s.Type() == aivensim.OpenSearch && i == 0:
						r.foreigner(s, id.OpenSearch("read"))
					case s.Type() == aivensim.Valkey:
						r.foreigner(s, id.Valkey("read"))
					}
				}
			}
		}
	}
}

func (r *run) foreigner(s *aivensim.Service, name string) {
	f := foreigner{service: s}
	u := aivensim.User{Username: name}
	switch s.Type() {
	case aivensim.Kafka:
		for _, e := range []aivensim.KafkaACL{
			{Username: name, Topic: "theirs-*", Permission: "read"},
			{Username: name[:len(name)-3] + "*", Topic: "of-all", Permission: "write"},
		} {
			f.kafka = append(f.kafka, s.AddKafkaACL(e))
		}
	case aivensim.OpenSearch:
		f.search = append(f.search, entry(name, "theirs-*", "readwrite"))
		s.AddOpenSearchACL(f.search[0])
	case aivensim.Valkey:
		u.AccessControl = aivensim.AccessControl{Categories: []string{"+@read"}, Keys: []string{"theirs:*"}}
	}
	f.user = s.AddUser(u)
	r.foreigners = append(r.foreigners, f)
}

// enlist makes the operator's replicas; none runs yet.
func (r *run) enlist(ctx context.Context, url, kubeconfig string) error {
	where, err := r.stage.Namespace(ctx, "chaos-lease-") // the others come and go
	if err != nil {
		return err
	}
	var in []string
	for _, d := range r.drivers {
		in = append(in, d.namespace)
	}
	r.crew = &crew{
		history: r.history, gate: r.gate, stage: r.stage, elected: r.Replicas > 1, where: where,
		options: operator.Options{Binary: r.Binary, Kubeconfig: kubeconfig, Args: []string{
			"--namespaces=" + strings.Join(in, ","), "--leader-election=" + strconv.FormatBool(r.Replicas > 1), "--leader-election-namespace=" + where,
			"--aiven-url=" + url, "--aiven-timeout=" + aivenTimeout.String(), "--projects=" + strings.Join(Pools, ","), "--main-project=" + Main,
			"--cluster-name=" + cluster, "--workers=10", "--resync=10s", "--snapshot-age=5s",
			"--janitor-grace=1s", "--janitor-period=2s", "--log-level=debug",
		}},
	}
	for i := range r.Replicas {
		name := string(rune('A' + i))
		token := fmt.Sprintf("avnT_chaos_%d_%s", r.Seed, name)
		r.sim.SetToken(token, aivensim.Token{})
		r.crew.replicas = append(r.crew.replicas, &replica{name: name, token: token})
		if r.Logs == "" {
			continue
		}
		f, err := os.Create(filepath.Join(r.Logs, "operator-"+name+".log"))
		if err != nil {
			return fmt.Errorf("keep the operator's log: %w", err)
		}
		r.crew.replicas[i].log = f
	}
	return nil
}

// chaos is the run itself: faults, calm, and the end of everything.
func (r *run) chaos(ctx context.Context) (*Report, error) {
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stop()
	for _, w := range r.watchers {
		watchers.Go(func() { w.run(watching) })
	}
	watchers.Go(func() {
		for rest(watching, time.Second) {
			r.history.follow(r.sim)
		}
	})

	for _, replica := range r.crew.replicas {
		r.crew.resume(replica)
	}
	began := time.Now()
	stuck, err := r.rage(ctx)
	if err != nil {
		return nil, err
	}
	report := &Report{Seed: r.Seed, Duration: time.Since(began), Counts: r.counts()}
	r.Log("the faults are over after %s and %d operations: now all has to come in order", report.Duration.Round(time.Second), report.Total("operation"))
	calmed := time.Now()
	violations := append(r.await(ctx), stuck...)
	report.Settled = time.Since(calmed)
	if len(violations) == 0 {
		violations = r.outlive(ctx)
	}
	r.Log("%d violations %s after the last fault", len(violations), report.Settled.Round(time.Second))
	if len(violations) == 0 && ctx.Err() == nil {
		for _, d := range r.drivers {
			if err := d.leave(ctx); err != nil {
				return nil, err
			}
			d.model.clear()
			d.history.note(d.namespace, "", "the end: the namespace is deleted")
		}
		violations = r.await(ctx)
		r.Log("%d violations after everything was deleted", len(violations))
	}
	r.crew.finish(true)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.conclude(report, append(violations, r.happened()...))
	return report, nil
}

func (r *run) counts() map[string]map[string]int {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	out := map[string]map[string]int{}
	for id, n := range r.history.counts {
		table, kind, _ := strings.Cut(id, "/")
		if out[table] == nil {
			out[table] = map[string]int{}
		}
		out[table][kind] = n
	}
	return out
}

// rage is the time of the faults. When it is over every operation has been done, and no fault is left. It returns what could not be done for
// something that hangs.
func (r *run) rage(ctx context.Context) ([]Violation, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	until, end := context.WithTimeout(ctx, r.Duration)
	defer end()
	faults := func(stream uint64, list []fault, pause, most time.Duration) func() {
		rng := rand.New(rand.NewPCG(r.Seed, 2000+stream))
		return func() { inject(until, r.history, rng, list, pause, most) }
	}
	ours := func(s *aivensim.Service, name string) bool {
		return !(&state{foreigners: r.foreigners}).isForeign(s, name)
	}
	var disorder sync.WaitGroup
	disorder.Go(faults(0, aivenFaults(r.sim), 500*time.Millisecond, 6*time.Second))
	disorder.Go(faults(1, meddling(r.sim, ours), 2*time.Second, 4*time.Second))
	disorder.Go(faults(2, clusterFaults(until, r.crew, r.proxy), 5*time.Second, 4*time.Second))
	stuck := make([][]Violation, len(r.drivers))
	var work sync.WaitGroup
	for i, d := range r.drivers {
		work.Go(func() {
			if err := d.run(ctx, until, r.Pause); err != nil {
				stuck[i] = []Violation{r.stuck(d.namespace, err)}
			}
		})
	}
	disorder.Wait()
	calm(r.sim)
	r.proxy.Refuse(false)
	for _, replica := range r.crew.replicas {
		r.crew.resume(replica)
	}
	patience := time.AfterFunc(r.Patience, cancel)
	work.Wait()
	if !patience.Stop() {
		return slices.Concat(stuck...), nil
	}
	for _, d := range r.drivers {
		if !d.model.Exists {
			continue
		}
		if err := errors.Join(d.instances(ctx), d.resume(ctx)); err != nil {
			return nil, err
		}
	}
	return slices.Concat(stuck...), nil
}

// stuck is what stands in the way of an operation.
func (r *run) stuck(namespace string, err error) Violation {
	v := Violation{Invariant: NothingHung, Namespace: namespace, Text: err.Error()}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // that of the operation has ended
	defer cancel()
	is, err := r.look(ctx, namespace)
	if err != nil {
		return v
	}
	for i := range is.secrets {
		if s := &is.secrets[i]; !s.DeletionTimestamp.IsZero() {
			v.Text += fmt.Sprintf("; Secret %s is held by %q", s.Name, s.Finalizers)
			v.Objects = append(v.Objects, s.Name)
		}
	}
	for i := range is.applications {
		if a := &is.applications[i]; !a.DeletionTimestamp.IsZero() {
			v.Text += fmt.Sprintf("; application %s is held by %q: %s", a.Name, a.Finalizers, describe(a))
			v.Objects = append(v.Objects, a.Name)
		}
	}
	return v
}

// await waits until nothing is violated, and returns what still is when patience is over.
func (r *run) await(ctx context.Context) []Violation { return r.awaits(ctx, (*state).check) }

func (r *run) awaits(ctx context.Context, check func(*state) []Violation) []Violation {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	slow := time.Now().Add(r.Patience / 3)
	var last []Violation
	for {
		s, err := r.state(ctx)
		if err == nil {
			if last = check(s); len(last) == 0 {
				return nil
			}
		}
		if !slow.IsZero() && time.Now().After(slow) {
			slow = time.Time{}
			for _, v := range last {
				r.Log("not so yet: %s", v)
			}
		}
		if !rest(ctx, time.Second) {
			return last
		}
	}
}

// short is an overlap that a run can wait for: the shortest that an application can ask for, to the second.
const short = time.Minute + 2*time.Second

// outlive asks all applications for new users, waits until those before have gone that are to go within the time of a short overlap, and returns what
// does not hold then.
func (r *run) outlive(ctx context.Context) []Violation {
	wish := "after the faults"
	for _, d := range r.drivers {
		for _, name := range slices.Sorted(maps.Keys(d.model.Applications)) {
			if err := d.rotate(ctx, name, wish); err != nil {
				return []Violation{{Invariant: Ready, Namespace: d.namespace, Objects: []string{name}, Text: err.Error()}}
			}
		}
	}
	if violations := r.awaits(ctx, func(s *state) []Violation { return append(s.check(), s.checkAnswers(wish)...) }); len(violations) > 0 {
		return violations
	}
	now, last := time.Now(), time.Time{}
	for _, d := range r.drivers {
		if at := d.ledger.due(now, now.Add(short)); at.After(last) {
			last = at
		}
	}
	if last.IsZero() || !rest(ctx, time.Until(last)) {
		return nil
	}
	return r.await(ctx)
}

// state gathers what there is.
func (r *run) state(ctx context.Context) (*state, error) {
	s := &state{
		now: time.Now(), sim: r.sim, foreigners: r.foreigners,
		models: map[string]*Model{}, seen: map[string]seen{}, strangers: map[string]stamp{}, excused: map[string]bool{},
	}
	r.history.follow(r.sim)
	_, restarts := r.crew.found()
	s.forgotten = r.history.forgotten(restarts)
	for _, d := range r.drivers {
		s.models[d.namespace] = d.model
		d.mu.Lock()
		maps.Copy(s.excused, d.excused)
		if d.model.Exists {
			maps.Copy(s.excused, d.hidden)
		}
		for name, is := range d.strangers {
			s.strangers[d.namespace+"/"+name] = is
		}
		d.mu.Unlock()
		is, err := r.look(ctx, d.namespace)
		if err != nil {
			return nil, err
		}
		s.seen[d.namespace] = is
	}
	return s, nil
}

// look reads what a namespace holds.
func (r *run) look(ctx context.Context, namespace string) (seen, error) {
	out := seen{uses: map[string][]string{}}
	err := r.stage.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if err != nil && !apierrors.IsNotFound(err) {
		return out, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	out.exists = err == nil
	var apps v1.AivenApplicationList
	var secrets corev1.SecretList
	for _, list := range []client.ObjectList{&apps, &secrets} {
		if err := r.stage.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return out, fmt.Errorf("list what is in namespace %s: %w", namespace, err)
		}
	}
	out.applications, out.secrets = apps.Items, secrets.Items
	all, err := workloads(ctx, r.stage, namespace)
	if err != nil {
		return out, err
	}
	for _, w := range all {
		for _, name := range w.secrets {
			out.uses[name] = append(out.uses[name], w.by)
		}
	}
	return out, nil
}

// happened is what was violated on the way.
func (r *run) happened() []Violation {
	r.history.follow(r.sim)
	out, restarts := r.crew.found()
	for _, w := range r.watchers {
		w.mu.Lock()
		out = append(out, w.violations...)
		w.mu.Unlock()
		out = append(out, w.ledger.broken(w.namespace, r.history.changes(), w.isExcused)...)
	}
	for _, e := range r.history.lost() {
		lost := slices.DeleteFunc(slices.Clone(e.LostUpdates), isSecond)
		if len(lost) > 0 && !r.history.excuses(e.Time, restarts) {
			out = append(out, Violation{Invariant: NoLoss, Text: fmt.Sprintf("%s of token %s at %s lost %q", e.Service, e.Token, e.Time.Format(time.TimeOnly), lost)})
		}
	}
	early, blind := r.gate.found()
	for _, text := range blind {
		out = append(out, Violation{Invariant: NotBlind, Text: text})
	}
	for _, text := range early {
		out = append(out, Violation{Invariant: Patient, Text: text})
	}
	return out
}

// conclude completes the report.
func (r *run) conclude(report *Report, violations []Violation) {
	report.Counts = r.counts()
	c := r.sim.Counters()
	deletions, replaced, over := 0, 0, 0
	for _, w := range r.watchers {
		deletions += w.deletions
		all, passed := w.ledger.kept(time.Now())
		replaced, over = replaced+all, over+passed
	}
	report.Counts["simulator"] = map[string]int{
		"requests": c.Total(), "users created": c.UsersCreated, "users deleted": c.UsersDeleted, "commits whose answer was lost": c.CommitsLost,
		"ACL documents written": c.OpenSearchPuts, "rules lost to the second writer and others": c.LostUpdates, "POSTs repeated": c.Repeats,
	}
	for kind, n := range c.Faults {
		report.Counts["simulator"]["requests with "+kind] = n
	}
	report.Counts["Secret"] = map[string]int{"deletions seen": deletions, "users replaced": replaced, "users replaced whose time came": over}
	for _, v := range violations {
		report.Violations = append(report.Violations, v)
		text := ""
		if v.Namespace != "" || len(v.Users) > 0 {
			text = r.history.about(v)
		}
		report.Histories = append(report.Histories, text)
	}
}
