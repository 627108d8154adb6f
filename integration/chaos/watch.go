package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// settling is how long something must have referred to a Secret before its deletion, to say that it was in use. Nobody can know of what comes between
// the last look and the deletion.
const settling = 5 * time.Second

// deletion is the end of a Secret of ours, as it is first seen.
type deletion struct {
	name, owner string
	at          time.Time // the deletion time stamp, to the second
	byTest      bool      // the driver deleted it, or the namespace
	uses        []use     // at that moment
}

// use is something that refers to a Secret.
type use struct {
	by    string
	since time.Time
	going bool // it is being deleted itself
}

// check tells what a deletion took credentials from.
func (d deletion) check() []string {
	var out []string
	for _, u := range d.uses {
		if !d.byTest && !u.going && u.since.Add(settling).Before(d.at) {
			out = append(out, u.by)
		}
	}
	return out
}

// watcher notes what becomes of the applications and Secrets of a namespace.
type watcher struct {
	*driver
	sim        *aivensim.Simulator
	mu         sync.Mutex
	violations []Violation
	seen       map[types.UID]bool // Secrets whose deletion has been looked at
	deletions  int
	states     map[string]string            // of applications, as noted last
	last       map[types.UID]*corev1.Secret // as they were seen last, of those that are ours
}

func newWatcher(d *driver, sim *aivensim.Simulator) *watcher {
	return &watcher{driver: d, sim: sim, seen: map[types.UID]bool{}, states: map[string]string{}, last: map[types.UID]*corev1.Secret{}}
}

// run watches until ctx ends. Watches end at times, and begin anew.
func (w *watcher) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { w.watch(ctx, &corev1.SecretList{}, w.secret) })
	wg.Go(func() { w.watch(ctx, &v1.AivenApplicationList{}, w.application) })
	wg.Wait()
}

func (w *watcher) watch(ctx context.Context, list client.ObjectList, handle func(context.Context, watch.Event)) {
	for ctx.Err() == nil {
		events, err := w.stage.Watch(ctx, list, client.InNamespace(w.namespace))
		if err != nil {
			rest(ctx, 200*time.Millisecond)
			continue
		}
		for e := range events.ResultChan() {
			handle(ctx, e)
		}
	}
}

func (w *watcher) application(_ context.Context, e watch.Event) {
	app, ok := e.Object.(*v1.AivenApplication)
	if !ok {
		return
	}
	text := describe(app)
	switch {
	case e.Type == watch.Deleted:
		text = "is gone; " + text
	case !app.DeletionTimestamp.IsZero():
		text = "is being deleted; " + text
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.states[app.Name] != text {
		w.states[app.Name] = text
		w.history.note(w.namespace, app.Name, "(generation %d) %s", app.Generation, text)
		for _, what := range twice(app) {
			w.violations = append(w.violations, Violation{Invariant: OneRotation, at: time.Now(), Namespace: w.namespace, Objects: []string{app.Name},
				Text: fmt.Sprintf("application %s: %s: %s", app.Name, what, text)})
		}
	}
}

// rotation looks at what a write of a Secret of ours made of its users, where the write itself was seen.
func (w *watcher) rotation(s *corev1.Secret, written bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.last[s.UID]
	w.last[s.UID] = s
	if before == nil || !written {
		w.ledger.add(ownerOf(s), s, now)
		return
	}
	violate := func(i Invariant, users []string, format string, args ...any) {
		w.violations = append(w.violations, Violation{Invariant: i, at: now, Namespace: w.namespace, Objects: []string{s.Name, ownerOf(s)}, Users: users,
			Text: fmt.Sprintf("Secret %s: ", s.Name) + fmt.Sprintf(format, args...)})
	}
	if keys := halves(before, s, w.ledger.has); len(keys) > 0 {
		violate(OneWrite, usersOf(s), "users were replaced, but not %q", keys)
	}
	for _, o := range dropped(before, s) {
		if w.isThere(o) && !w.isExcused(o.User) {
			violate(Overlap, []string{o.User}, "user %s was replaced without an overlap", o.User)
		}
	}
	w.ledger.add(ownerOf(s), s, now)
}

// isThere tells whether a user that was replaced still exists at Aiven.
func (w *watcher) isThere(o outgoing) bool {
	return slices.ContainsFunc(w.sim.Project(o.Project).Services(), func(s *aivensim.Service) bool {
		_, ok := s.User(o.User)
		return ok && s.Type() == o.Kind
	})
}

// isExcused tells whether somebody has taken from the operator what it needs to let a user work for an overlap.
func (w *watcher) isExcused(user string) bool {
	w.driver.mu.Lock()
	defer w.driver.mu.Unlock()
	return w.excused[user] || w.disowned[user] || w.hidden[user]
}

func (w *watcher) secret(ctx context.Context, e watch.Event) {
	s, ok := e.Object.(*corev1.Secret)
	if !ok {
		return
	}
	w.mu.Lock()
	known := w.seen[s.UID]
	going := e.Type == watch.Deleted || !s.DeletionTimestamp.IsZero()
	w.seen[s.UID] = known || going
	w.mu.Unlock()
	users := usersOf(s)
	if !going && ownerOf(s) != "" {
		w.rotation(s, e.Type == watch.Modified)
	}
	if going {
		at := time.Now()
		if s.DeletionTimestamp != nil {
			at = s.DeletionTimestamp.Time
		}
		w.ledger.release(at, func(p *promise) bool { return p.uid == s.UID })
	}
	switch {
	case e.Type == watch.Added && !going:
		w.history.note(w.namespace, s.Name, "appears with users %q", users)
	case e.Type == watch.Modified && !going:
		w.history.note(w.namespace, s.Name, "changes; its users are %q", users)
	case e.Type == watch.Deleted:
		w.history.note(w.namespace, s.Name, "is gone")
	}
	if e.Type == watch.Deleted && s.DeletionTimestamp == nil {
		w.wentAtOnce(s, users)
	}
	if !going || known || ownerOf(s) == "" {
		return
	}
	d := deletion{name: s.Name, owner: ownerOf(s), at: time.Now().Add(-time.Second)}
	if s.DeletionTimestamp != nil {
		d.at = s.DeletionTimestamp.Time
	}
	d.byTest = w.byTest(s)
	var err error
	if d.uses, err = w.uses(ctx, s.Name, d.owner); err != nil {
		return // the run is over
	}
	w.history.note(w.namespace, s.Name, "is being deleted, by the test: %t; uses: %v", d.byTest, d.uses)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deletions++
	if harmed := d.check(); len(harmed) > 0 {
		w.violations = append(w.violations, Violation{Invariant: InUse, at: time.Now(), Namespace: w.namespace, Objects: []string{s.Name, d.owner}, Users: users,
			Text: fmt.Sprintf("Secret %s of %s, deleted at %s, was used by %s", s.Name, d.owner, d.at.UTC().Format(time.TimeOnly), strings.Join(harmed, ", "))})
	}
}

// wentAtOnce excuses the users of a Secret that went before the operator could give it back the finalizers that the driver had taken away.
func (w *watcher) wentAtOnce(s *corev1.Secret, users []string) {
	w.driver.mu.Lock()
	defer w.driver.mu.Unlock()
	for _, u := range users {
		w.excused[u] = w.excused[u] || w.bare[s.UID]
	}
}

// byTest tells whether the driver deleted a Secret, itself or with the namespace.
func (w *watcher) byTest(s *corev1.Secret) bool {
	w.driver.mu.Lock()
	defer w.driver.mu.Unlock()
	at, ok := w.removed[s.Name]
	return w.leaving || ok && at.After(s.CreationTimestamp.Time)
}

// uses are what refers to a Secret now: workloads, and the application that it belongs to.
func (w *watcher) uses(ctx context.Context, secret, owner string) ([]use, error) {
	var out []use
	all, err := workloads(ctx, w.stage, w.namespace)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.fixed && slices.Contains(l.secrets, secret) {
			out = append(out, l.use)
		}
	}
	app := &v1.AivenApplication{}
	err = w.stage.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: owner}, app)
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(bindings(w.namespace, app.Spec), func(b demand.Bound) bool { return b.Secret == secret }) {
		w.driver.mu.Lock()
		since := w.asked[owner]
		w.driver.mu.Unlock()
		out = append(out, use{"AivenApplication/" + owner, since, !app.DeletionTimestamp.IsZero()})
	}
	return out, nil
}

// workload is something with Pods.
type workload struct {
	use
	secrets []string
	fixed   bool // it has referred to them ever since
}

// workloads are what may refer to Secrets in a namespace, as a driver makes them.
func workloads(ctx context.Context, c client.Reader, namespace string) ([]workload, error) {
	var out []workload
	add := func(kind string, fixed bool, o client.Object, spec *corev1.PodSpec) {
		out = append(out, workload{use{kind + "/" + o.GetName(), o.GetCreationTimestamp().Time, o.GetDeletionTimestamp() != nil}, refersTo(spec), fixed})
	}
	var (
		pods        corev1.PodList
		sets        appsv1.ReplicaSetList
		deployments appsv1.DeploymentList
	)
	for _, list := range []client.ObjectList{&pods, &sets, &deployments} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list what refers to Secrets: %w", err)
		}
	}
	for i := range pods.Items {
		add("Pod", true, &pods.Items[i], &pods.Items[i].Spec)
	}
	for i := range sets.Items {
		add("ReplicaSet", true, &sets.Items[i], &sets.Items[i].Spec.Template.Spec)
	}
	for i := range deployments.Items {
		add("Deployment", false, &deployments.Items[i], &deployments.Items[i].Spec.Template.Spec)
	}
	return out, nil
}
