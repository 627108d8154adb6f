package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/stage"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// burst makes all applications at once and waits until they are Ready.
func (b *bench) burst(ctx context.Context) error {
	before, err := b.sample(ctx)
	if err != nil {
		return err
	}
	times, err := b.provision(ctx, b.applications, func(ctx context.Context) error {
		return b.each(func(i int, namespace string) error { return b.create(ctx, name(i), namespace) })
	})
	if err != nil {
		return err
	}
	after, err := b.settle(ctx, before.passes+b.applications)
	if err != nil {
		return err
	}
	p := b.result("burst", times[len(times)-1], b.applications, before, after)
	p.Ready = quantilesOf(times)
	if b.floor > 0 {
		p.Floor, p.TimesFloor = seconds(b.floor), round(times[len(times)-1].Seconds()/b.floor.Seconds(), 2)
	}
	b.results = append(b.results, p)
	return nil
}

// result is what was measured of a phase.
func (b *bench) result(name string, took time.Duration, applications int, before, after sample) phase {
	b.peak = max(b.peak, peakMemory(b.operator.PID()))
	return newPhase(name, took, applications, before, after, b.peak)
}

// provision makes applications and waits until so many are Ready. It returns how long after the beginning each was.
func (b *bench) provision(ctx context.Context, n int, create func(context.Context) error) ([]time.Duration, error) {
	ctx, cancel := b.whileItRuns(ctx)
	defer cancel()
	known, err := b.known(ctx, func(*v1.AivenApplication) bool { return true })
	if err != nil {
		return nil, err
	}
	began := time.Now()
	made := make(chan error, 1)
	go func() { made <- create(ctx) }()
	times, err := b.ready(ctx, n, known, began, made)
	if err != nil {
		return nil, fmt.Errorf("wait until all applications are Ready: %w", err)
	}
	return times, nil
}

// known are the applications that there are now, of which this holds.
func (b *bench) known(ctx context.Context, holds func(*v1.AivenApplication) bool) (map[types.UID]bool, error) {
	var list v1.AivenApplicationList
	if err := b.stage.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list applications: %w", err)
	}
	out := map[types.UID]bool{}
	for i := range list.Items {
		if app := &list.Items[i]; holds(app) {
			out[app.UID] = true
		}
	}
	return out, nil
}

func name(i int) string { return fmt.Sprintf("app-%04d", i) }

func (b *bench) create(ctx context.Context, name, namespace string) error {
	spec := v1.AivenApplicationSpec{
		Kafka:      &v1.Kafka{Pool: project, SecretName: name + "-kafka"},
		OpenSearch: &v1.OpenSearch{Instance: instance, Access: v1.AccessReadWrite, SecretName: name + "-opensearch"},
		Valkey:     []v1.Valkey{{Instance: instance, Access: v1.AccessReadWrite, SecretName: name + "-valkey"}},
	}
	if b.topics {
		spec.Kafka.ACL = []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}
	}
	return b.make(ctx, name, namespace, spec)
}

func (b *bench) make(ctx context.Context, name, namespace string, spec v1.AivenApplicationSpec) error {
	app := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := b.stage.Create(ctx, app); err != nil {
		return fmt.Errorf("create application %s: %w", app.Name, err)
	}
	return nil
}

// ready returns how long after the beginning each of n applications, which were not known before, became Ready. What made receives, once, ends the
// wait if it is an error.
func (b *bench) ready(ctx context.Context, n int, seen map[types.UID]bool, began time.Time, made <-chan error) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not so after %s", patience))
	defer cancel()
	found := make(chan *v1.AivenApplication)
	failed := make(chan error, 1)
	go func() { failed <- b.watch(ctx, found) }()
	var times []time.Duration
	for len(times) < n {
		select {
		case err := <-failed:
			return nil, fmt.Errorf("%w: %d of %d are", cmp.Or(context.Cause(ctx), err), len(times), n)
		case err := <-made:
			if err != nil {
				return nil, err
			}
			b.say("%6.2fs  all applications are made", time.Since(began).Seconds())
			made = nil
		case app := <-found:
			if seen[app.UID] || !isReady(app) {
				continue
			}
			seen[app.UID] = true
			times = append(times, time.Since(began))
			if k := len(times); k*10/n > (k-1)*10/n {
				b.say("%6.2fs  %d of %d are Ready", times[k-1].Seconds(), k, n)
			}
		}
	}
	return times, nil
}

// watch hands on each state of our applications until ctx ends. A lost watch is taken up again.
func (b *bench) watch(ctx context.Context, found chan<- *v1.AivenApplication) error {
	send := func(app *v1.AivenApplication) {
		if !slices.Contains(b.in, app.Namespace) && !slices.Contains(b.floorIn, app.Namespace) {
			return
		}
		select {
		case found <- app:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		var list v1.AivenApplicationList
		if err := b.stage.List(ctx, &list); err != nil {
			return fmt.Errorf("list applications: %w", err)
		}
		for i := range list.Items {
			send(&list.Items[i])
		}
		changes, err := b.stage.Watch(ctx, &v1.AivenApplicationList{}, &client.ListOptions{
			Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
		})
		if err != nil {
			return fmt.Errorf("watch applications: %w", err)
		}
		for change := range changes.ResultChan() {
			if app, ok := change.Object.(*v1.AivenApplication); ok {
				send(app)
			}
		}
		changes.Stop()
	}
	return context.Cause(ctx)
}

// isReady also knows the word of the earlier operator, which has no condition Ready.
func isReady(app *v1.AivenApplication) bool {
	for _, c := range app.Status.Conditions {
		if c.Type == v1.ConditionReady {
			return c.Status == corev1.ConditionTrue && app.Status.ObservedGeneration == app.Generation
		}
	}
	return app.Status.SynchronizationState == "RolloutComplete"
}

// settle waits until the operator has made so many passes and has nothing left to do, and returns what it has counted.
func (b *bench) settle(ctx context.Context, passes int) (sample, error) {
	ctx, cancel := b.whileItRuns(ctx)
	defer cancel()
	var last, s sample
	var since time.Time // when the last call was seen
	err := stage.Await(ctx, patience, func(ctx context.Context) (err error) {
		last = s
		if s, err = b.sampleOutside(ctx); err != nil {
			return err
		}
		if !s.isQuietSince(last) {
			since = time.Now()
		}
		if time.Since(since) < quiet { // events are sent in the background
			return errors.New("the operator still calls Aiven or the API server")
		}
		if s, err = b.sample(ctx); err != nil { // asking the operator costs it processor time that would be measured
			return err
		}
		if !b.foreign && (s.passes < passes || !s.idle) { // another one does not tell
			return fmt.Errorf("the operator has made %d of %d passes; it is idle: %t", s.passes, passes, s.idle)
		}
		return nil
	})
	return s, err
}

// resync has the operator look at every application while there is nothing to do.
func (b *bench) resync(ctx context.Context) error {
	before, err := b.sample(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = b.each(func(i int, namespace string) error {
		app := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i)}}
		touch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"true"}}}`))
		if err := b.stage.Patch(ctx, app, touch); err != nil {
			return fmt.Errorf("touch application %s: %w", app.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.withoutWrites(ctx, "resync", began, before)
}

// again ends the operator and starts another one. It returns what had been counted before, less what is counted by process.
func (b *bench) again(ctx context.Context, args ...string) (sample, error) {
	if err := b.stop(); err != nil {
		return sample{}, err
	}
	before, err := b.sampleOutside(ctx)
	if err != nil {
		return sample{}, err
	}
	before.cpu = 0
	return before, b.start(args...)
}

// restart ends the operator and starts another one, which looks at every application.
func (b *bench) restart(ctx context.Context) error {
	began := time.Now()
	before, err := b.again(ctx)
	if err != nil {
		return err
	}
	if b.foreign {
		after, err := b.settle(ctx, 0)
		if err == nil {
			b.results = append(b.results, b.result("restart", time.Since(began), b.applications, before, after))
		}
		return err
	}
	return b.withoutWrites(ctx, "restart", began, before)
}

const (
	// quiet is how long an operator must not have called anybody to have come to rest.
	quiet = time.Second
	// janitorPeriod is the time between two rounds where rounds are measured, janitorRounds how many of them are.
	janitorPeriod = time.Second
	janitorRounds = 20
)

// janitor measures rounds of the janitor, which find no Secret unused.
func (b *bench) janitor(ctx context.Context) error {
	if _, err := b.again(ctx, "--janitor-period="+janitorPeriod.String()); err != nil {
		return err
	}
	if err := b.atWork(ctx); err != nil {
		return err
	}
	if _, err := b.settle(ctx, b.applications); err != nil {
		return err
	}
	before, err := b.sampleOutside(ctx) // reading the operator's metrics would be measured too
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(janitorRounds * janitorPeriod):
	}
	after, err := b.sampleOutside(ctx)
	if err != nil {
		return err
	}
	p := b.result("janitor", time.Since(began), b.applications, before, after)
	p.CPUPerRound = round(p.CPU*janitorPeriod.Seconds()/time.Since(began).Seconds(), 4)
	b.results = append(b.results, p)
	b.say("%6.2fs  janitor: a round takes at most %.0f ms of processor time", p.Seconds, 1000*p.CPUPerRound)
	if _, err := b.again(ctx); err != nil { // the next phases are not to have so many rounds
		return err
	}
	_, err = b.settle(ctx, b.applications)
	return err
}

// failing measures whether a project that answers 503 holds up another one.
func (b *bench) failing(ctx context.Context) error {
	return b.slow(ctx, "failing", aivensim.Rule{Answer: aivensim.Error(http.StatusServiceUnavailable, "", "down")})
}

// hanging measures whether a project that does not answer at all holds up another one.
func (b *bench) hanging(ctx context.Context) error {
	return b.slow(ctx, "hanging", aivensim.Rule{Delay: time.Hour})
}

// bursts is how many small bursts there are. The mean of all their applications counts: one that just misses a write of OpenSearch rights takes twice
// as long.
const bursts = 10

// slow measures the same bursts of new applications alone, and while ten times as many of a project to which a rule applies have been tried and fail.
func (b *bench) slow(ctx context.Context, phase string, rule aivensim.Rule) error {
	n := max(b.applications/10, 1)
	burst := func(prefix string) (time.Duration, error) {
		var sum time.Duration
		for k := range bursts {
			times, err := b.provision(ctx, n, func(ctx context.Context) error {
				return many(ctx, n, func(i int) error {
					return b.create(ctx, fmt.Sprintf("%s-%s-%d-%s", phase, prefix, k, name(i)), b.home(i))
				})
			})
			if err != nil {
				return 0, err
			}
			for _, took := range times {
				sum += took
			}
		}
		return sum / time.Duration(bursts*n), nil
	}
	before, err := b.sample(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	alone, err := burst("alone")
	if err != nil {
		return err
	}
	rule.Project = slowProject
	if err := b.simulator.disturb(ctx, rule); err != nil {
		return err
	}
	err = many(ctx, b.applications, func(i int) error {
		app := phase + "-" + name(i)
		return b.make(ctx, app, b.home(i), v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: slowProject, SecretName: app}})
	})
	if err != nil {
		return err
	}
	if err := b.tried(ctx, phase); err != nil {
		return err
	}
	beside, err := burst("beside")
	if err != nil {
		return err
	}
	served, err := b.known(ctx, isReady)
	if err != nil {
		return err
	}
	if err := b.simulator.heal(ctx); err != nil {
		return err
	}
	running, cancel := b.whileItRuns(ctx)
	times, err := b.ready(running, b.applications, served, time.Now(), nil)
	cancel()
	if err != nil {
		return fmt.Errorf("wait until the applications of the project are Ready: %w", err)
	}
	recovered := times[len(times)-1]
	made := 2*bursts*n + b.applications
	after, err := b.settle(ctx, before.passes+made)
	if err != nil {
		return err
	}
	p := b.result(phase, time.Since(began), made, before, after)
	p.Alone, p.Beside, p.TimesAlone, p.Recovered = seconds(alone), seconds(beside), round(beside.Seconds()/alone.Seconds(), 2), seconds(recovered)
	b.results = append(b.results, p)
	b.say("%6.2fs  %s: an application is Ready after %.2f s alone, and after %.2f s beside %d in such a project, which are %.2f s after it is well",
		p.Seconds, phase, p.Alone, p.Beside, b.applications, p.Recovered)
	return nil
}

// tried waits until the operator has reported each application whose name begins so.
func (b *bench) tried(ctx context.Context, prefix string) error {
	ctx, cancel := b.whileItRuns(ctx)
	defer cancel()
	return stage.Await(ctx, patience, func(ctx context.Context) error {
		for _, namespace := range b.in {
			var list v1.AivenApplicationList
			if err := b.stage.List(ctx, &list, client.InNamespace(namespace)); err != nil {
				return err
			}
			for i := range list.Items {
				if app := &list.Items[i]; strings.HasPrefix(app.Name, prefix+"-") && app.Status.ObservedGeneration != app.Generation {
					return fmt.Errorf("%s/%s has not been tried", app.Namespace, app.Name)
				}
			}
		}
		return nil
	})
}

// namespace deletes one namespace with all that is in it, and waits until it is gone.
func (b *bench) namespace(ctx context.Context) error {
	name := b.in[len(b.in)-1]
	return b.remove(ctx, "namespace", max(b.applications/len(b.in), 1), func() error {
		return b.stage.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}, func(ctx context.Context) error {
		err := b.stage.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, fmt.Errorf("namespace %s is still there", name))
	})
}

// deletion deletes all applications and Secrets, and waits until they are gone.
func (b *bench) deletion(ctx context.Context) error {
	lists := []client.ObjectList{&v1.AivenApplicationList{}, &corev1.SecretList{}}
	managed := client.MatchingLabels{key.LabelType: key.TypeAivenator}
	return b.remove(ctx, "deletion", b.applications, func() error {
		return many(ctx, len(b.in), func(i int) error {
			if err := b.stage.DeleteAllOf(ctx, &v1.AivenApplication{}, client.InNamespace(b.in[i])); err != nil {
				return fmt.Errorf("delete applications: %w", err)
			}
			if err := b.stage.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(b.in[i]), managed); err != nil {
				return fmt.Errorf("delete Secrets: %w", err)
			}
			return nil
		})
	}, func(ctx context.Context) error {
		left := 0
		for _, namespace := range b.in {
			for i, list := range lists {
				options := []client.ListOption{client.InNamespace(namespace)}
				if i == 1 {
					options = append(options, managed)
				}
				if err := b.stage.List(ctx, list, options...); err != nil {
					return fmt.Errorf("list what is left: %w", err)
				}
				left += meta.LenList(list)
			}
		}
		if left > 0 {
			return fmt.Errorf("%d applications and Secrets are left", left)
		}
		return nil
	})
}

// remove measures a deletion: how long it takes until what it is about is gone.
func (b *bench) remove(ctx context.Context, name string, applications int, begin func() error, gone func(context.Context) error) error {
	before, err := b.sample(ctx)
	if err != nil {
		return err
	}
	running, cancel := b.whileItRuns(ctx)
	defer cancel()
	began := time.Now()
	if err := begin(); err != nil {
		return err
	}
	if err := stage.Await(running, patience, gone); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := b.settle(ctx, before.passes)
	if err != nil {
		return err
	}
	b.results = append(b.results, b.result(name, took, applications, before, after))
	b.say("%6.2fs  %s: all is gone", took.Seconds(), name)
	return nil
}

// withoutWrites waits until every application has been looked at, and checks that this wrote nothing.
func (b *bench) withoutWrites(ctx context.Context, name string, began time.Time, before sample) error {
	versions, err := b.versions(ctx)
	if err != nil {
		return err
	}
	after, err := b.settle(ctx, before.passes+b.applications)
	if err != nil {
		return err
	}
	p := b.result(name, time.Since(began), b.applications, before, after)
	b.results = append(b.results, p)
	now, err := b.versions(ctx)
	if err != nil {
		return err
	}
	if p.Kubernetes.Writes != 0 || p.Aiven.Writes != 0 || !maps.Equal(versions, now) {
		return fmt.Errorf("%s: expected no write, found %d to Kubernetes and %d to Aiven; Secrets and applications untouched: %t",
			name, p.Kubernetes.Writes, p.Aiven.Writes, maps.Equal(versions, now))
	}
	b.say("%6.2fs  %s: the operator has looked at all %d applications and has written nothing; %d Secrets and applications are untouched",
		p.Seconds, name, b.applications, len(now))
	return nil
}

// versions are the resourceVersions of all applications and Secrets, by UID.
func (b *bench) versions(ctx context.Context) (map[types.UID]string, error) {
	out := map[types.UID]string{}
	for _, namespace := range b.in {
		for _, list := range []client.ObjectList{&v1.AivenApplicationList{}, &corev1.SecretList{}} {
			if err := b.stage.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return nil, fmt.Errorf("list what the operator could have written: %w", err)
			}
			err := meta.EachListItem(list, func(item runtime.Object) error {
				obj, err := meta.Accessor(item)
				if err == nil {
					out[obj.GetUID()] = obj.GetResourceVersion()
				}
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("list what the operator could have written: %w", err)
			}
		}
	}
	return out, nil
}
