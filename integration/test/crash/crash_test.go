//go:build k8srequired

// Package crash shows that an operator may end at any moment. It is killed at each of its calls to Aiven and to Kubernetes, before the call is sent
// and after it took effect, while an application is made, changed, rotated and deleted and while Secrets that it still wants are made anew. The operator that
// follows finishes the work: nothing is left behind at Aiven, and no credentials in use are lost.
package crash

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/integration/crash"
	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.RunLight(m) }

// lanes is how many operators are killed side by side. Each mostly waits.
const lanes = 12

// Kafka and a cache have Secrets of their own; the other three services share one.
var first = wanted{
	topics: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}, {Topic: "events-*", Access: v1.AccessReadWrite}},
	uses: []use{
		{binding.Kafka, "", "kafka", ""},
		{binding.OpenSearch, "logs", "shared", v1.AccessRead},
		{binding.Valkey, "cache", "cache", v1.AccessRead},
		{binding.Valkey, "sessions", "shared", v1.AccessReadWrite},
		{binding.Valkey, "queue", "shared", v1.AccessWrite},
	},
}

// One topic's rights change, one topic goes, another comes; rights on two services change; a service moves to another Secret, and one is dropped.
var second = wanted{
	topics: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessWrite}, {Topic: "audit", Access: v1.AccessRead}},
	uses: []use{
		{binding.Kafka, "", "kafka", ""},
		{binding.OpenSearch, "logs", "shared", v1.AccessReadWrite},
		{binding.Valkey, "cache", "moved", v1.AccessRead},
		{binding.Valkey, "queue", "shared", v1.AccessAdmin},
	},
}

// scenario is a piece of work at whose calls the operator is killed.
type scenario struct {
	from   *wanted // what is there before; nil: nothing
	begin  func(*round)
	to     *wanted  // what is to be there afterwards; nil: nothing
	kept   []string // services whose credentials stay as they are
	others []string // services whose credentials become others
	old    bool     // the credentials of before work on, beside those in the Secrets
	again  bool     // what was taken back may be made again, which the simulator cannot tell from a blind repetition
}

var scenarios = map[string]scenario{
	"create": {
		begin: func(r *round) { r.Apply(r.app, first.spec(r)) },
		to:    &first,
	},
	"change": {
		from:   &first,
		begin:  func(r *round) { r.Change(r.app, func(a *v1.AivenApplication) { a.Spec = second.spec(r) }) },
		to:     &second,
		kept:   []string{"kafka", "logs", "queue"},
		others: []string{"cache"},
	},
	// Secrets are deleted that the application still wants.
	"make-anew": {
		from: &first,
		begin: func(r *round) {
			for _, name := range first.secrets(r) {
				r.Remove(r.Secret(name))
			}
		},
		to:     &first,
		others: []string{"kafka", "logs", "cache", "sessions", "queue"},
		again:  true,
	},
	// All users are replaced. Those of before work for the overlap, which is longer than the test.
	"rotate": {
		from: &first,
		begin: func(r *round) {
			r.Change(r.app, func(a *v1.AivenApplication) { a.Annotations = map[string]string{key.AnnotationRotate: "now"} })
		},
		to:     &first,
		others: []string{"kafka", "logs", "cache", "sessions", "queue"},
		old:    true,
	},
	"delete": {
		from:  &first,
		begin: func(r *round) { r.Remove(r.App(r.app)) },
	},
}

// point is where the operator is killed in a scenario.
type point struct {
	scenario string
	crash.Point
}

var odd = regexp.MustCompile(`[^A-Za-z0-9]+`)

func (p point) name() string {
	return fmt.Sprintf("%s-%s-%s-%d%s", p.scenario, p.Moment, p.Call.Method, p.Call.Nth, odd.ReplaceAllString(p.Call.Path, "-"))
}

func TestEndsAtAnyCall(t *testing.T) {
	points := findPoints(t)
	next := make(chan point, len(points))
	all := map[string]int{}
	for _, p := range points {
		next <- p
		all[p.scenario]++
	}
	close(next)
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		missed = map[string]int{}
	)
	for range lanes {
		wg.Go(func() {
			s := newStage(t, 2*len(points))
			for p := range next {
				reached, ran := false, false
				ok := t.Run(p.name(), func(t *testing.T) {
					defer s.Use(t)()
					ran = true
					reached = s.newRound(t).run(scenarios[p.scenario], p.Point)
					if !reached { // what an operator has asked before, it does not ask again
						s.Kill()
						s.start()
						reached = s.newRound(t).run(scenarios[p.scenario], p.Point)
					}
				})
				switch {
				case !ok:
					s = newStage(t, 2*len(points)) // nobody knows what is left on this one
				case ran && !reached:
					mu.Lock()
					missed[p.scenario]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	// Which calls are made depends a little on which of two passes is faster.
	for name, n := range missed {
		t.Logf("%s: %d of %d points were not reached", name, n, all[name])
		if 5*n > all[name] {
			t.Errorf("%s: too many points were not reached", name)
		}
	}
}

// findPoints runs all scenarios without a crash, and returns the points at which there may be one.
func findPoints(t *testing.T) []point {
	t.Helper()
	var points []point
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1)
			s.newRound(t).run(scenarios[name], crash.Point{})
			calls := s.gate.Calls()
			if len(calls) == 0 {
				t.Error("the operator makes no calls")
			}
			for _, c := range calls {
				points = append(points, point{name, crash.Point{Call: c, Moment: crash.Before}}, point{name, crash.Point{Call: c, Moment: crash.After}})
			}
			t.Logf("%d points", 2*len(calls))
		})
	}
	return points
}

// outgoing are the credentials that work beside those in the Secrets.
func (sc scenario) outgoing(before map[string]string) map[string]string {
	if sc.old {
		return before
	}
	return nil
}

// run runs a scenario, kills the operator at a point, starts another one and waits until all is as it should be. It tells whether the point was
// reached. At the end nothing is left of the application.
func (r *round) run(sc scenario, p crash.Point) (reached bool) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("stopped %s; calls since the scenario began:\n%s", p, r.gate.Journal())
			r.t.Logf("the log of the last operator:\n%s", r.Operator.Log())
		}
	}()
	var before map[string]string
	if sc.from != nil {
		r.Apply(r.app, sc.from.spec(r))
		r.Eventually(func(ctx context.Context) (err error) {
			if err = r.idle(); err == nil {
				before, err = r.holds(ctx, sc.from, nil)
			}
			return err
		})
	}
	r.Eventually(func(context.Context) error { return r.idle() })
	done := func(ctx context.Context) error {
		if sc.to == nil {
			return r.nothing(ctx)
		}
		after, err := r.holds(ctx, sc.to, sc.outgoing(before))
		for _, service := range sc.others {
			if err == nil && after[service] == before[service] {
				err = fmt.Errorf("the credentials of %s are still those of before", service)
			}
		}
		return err
	}
	reach := r.gate.StopAt(p, r.Namespace, "{namespace}", r.suffix(), "")
	sc.begin(r)
	finished := func(ctx context.Context) error {
		if err := r.idle(); err != nil {
			return err
		}
		return done(ctx)
	}
	r.Eventually(func(ctx context.Context) error {
		select {
		case <-reach:
			return nil
		default:
			return finished(ctx)
		}
	})
	if reached = !r.gate.Disarm(); reached {
		r.Kill()
		r.gate.Open()
		r.start()
		r.Eventually(finished)
	}
	if sc.to != nil {
		after, err := r.holds(r.t.Context(), sc.to, sc.outgoing(before))
		if err != nil {
			r.t.Fatal(err)
		}
		for _, service := range sc.kept {
			if diff := cmp.Diff(before[service], after[service]); diff != "" {
				r.t.Errorf("credentials of %s, which nobody asked to change (-before +after):\n%s", service, diff)
			}
		}
	}
	r.innocent(sc.again)
	if p != (crash.Point{}) && sc.to != nil {
		// What is recorded of the users is enough to take them back.
		r.Remove(r.App(r.app))
		r.Eventually(r.nothing)
	}
	return reached
}
