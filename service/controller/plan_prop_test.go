package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/resource/janitor"
	"github.com/keysmith-io/keysmith/resource/serviceuser"
)

// place is where a user is, for one kind of service. Names of users on it are those of application shop/cart, in any of the first few attempts.
type place struct {
	kind     binding.Kind
	instance string
	ref      aiven.Ref
	// Whose users are there; no user of a place that is another's can be the application's.
	cluster, namespace string
}

func (p place) foreign() bool { return p.cluster != "test" || p.namespace != "shop" }

var places = []place{
	{binding.Kafka, "", kafkaRef, "test", "shop"},
	{binding.OpenSearch, "logs", aiven.Ref{Project: "main", Service: "opensearch-shop-logs"}, "test", "shop"},
	{binding.OpenSearch, "legacy", aiven.Ref{Project: "main", Service: "legacy"}, "test", "shop"},
	{binding.Valkey, "cache", aiven.Ref{Project: "main", Service: "valkey-shop-cache"}, "test", "shop"},
	{binding.Valkey, "c-2", aiven.Ref{Project: "main", Service: "valkey-shop-c-2"}, "test", "shop"},
	{binding.Valkey, "cache", aiven.Ref{Project: "main", Service: "valkey-other-cache"}, "test", "other"},
	{binding.Valkey, "eu-cache", aiven.Ref{Project: "main", Service: "valkey-shop-eu-cache"}, "test", "shop-eu"},
	{binding.OpenSearch, "logs", aiven.Ref{Project: "strange", Service: "opensearch-shop-logs"}, "elsewhere", "shop"},
}

var states = []string{StatePending, StateReady, StateWaiting, StateFailed, StateRetained, StateDeleting, StateDeleted, StateRotating, StateRetiring, "", "Strange"}

// moments are times that records may hold.
var moments = rapid.SampledFrom([]*metav1.Time{nil, nil, nil, stampOf(now.Add(-3 * time.Hour)), stampOf(now.Add(-time.Minute)), stampOf(now.Add(10 * time.Minute)), stampOf(now.Add(1e5 * time.Hour))})

var rotationOf = rapid.SampledFrom([]*v1.Rotation{nil, nil, {Interval: "1h"}, {Interval: "2h", Overlap: "1m"}, {Interval: "soon"}})

// nameOf is a user name for a place: one that the operator makes, one that looks as if, or somebody else's.
func nameOf(t *rapid.T, p place) string {
	made := &binding.Binding{Kind: p.kind, Ref: p.ref, Access: v1.AccessRead}
	switch rapid.IntRange(0, 7).Draw(t, "name of") {
	case 0:
		return rapid.SampledFrom([]string{"", "avnadmin", "default", "jane\n"}).Draw(t, "name")
	case 1: // another application's
		return made.Name("test", "other", "basket", 0)
	case 2: // made by the earlier operator, or in another cluster
		return map[binding.Kind]string{binding.Kafka: made.Name("elsewhere", "shop", "cart", 0), binding.OpenSearch: "shop-r-abc", binding.Valkey: "cart-r-abc"}[p.kind]
	default:
		return made.Name(p.cluster, p.namespace, "cart", int32(rapid.IntRange(0, 2).Draw(t, "attempt")))
	}
}

// statuses are what the status may record: what the operator wrote, or what anybody made of it.
func statuses(t *rapid.T) []v1.Binding {
	record := rapid.Custom(func(t *rapid.T) v1.Binding {
		p := rapid.SampledFrom(places).Draw(t, "place")
		r := v1.Binding{
			Kind: string(p.kind), Instance: p.instance, Project: p.ref.Project, Service: p.ref.Service,
			SecretName: rapid.SampledFrom([]string{"a", "b", "gone"}).Draw(t, "of Secret"), Username: nameOf(t, p),
			State: rapid.SampledFrom(states).Draw(t, "state"), Attempt: int32(rapid.IntRange(-1, 3).Draw(t, "recorded attempt")),
			IssuedAt: moments.Draw(t, "issued"), RetiresAt: moments.Draw(t, "retires"), RotationRequest: rapid.SampledFrom([]string{"", "a"}).Draw(t, "answers"),
		}
		switch rapid.IntRange(0, 9).Draw(t, "edited") {
		case 0:
			r.Kind = rapid.SampledFrom([]string{"", "redis", "kafka", "opensearch", "valkey"}).Draw(t, "kind")
		case 1:
			r.Service = rapid.SampledFrom([]string{"", "kafka", "legacy", "valkey-shop-cache"}).Draw(t, "service")
		case 2:
			r.Project = rapid.SampledFrom([]string{"", "dev", "main", "strange"}).Draw(t, "project")
		case 3:
			r.Instance = rapid.SampledFrom([]string{"", "logs", "cache"}).Draw(t, "instance")
		}
		return r
	})
	return rapid.SliceOfN(record, 0, 5).Draw(t, "status")
}

func wishes(t *rapid.T) v1.AivenApplicationSpec {
	secret := rapid.SampledFrom([]string{"a", "b"})
	spec := v1.AivenApplicationSpec{Rotation: rotationOf.Draw(t, "rotation")}
	if rapid.Bool().Draw(t, "kafka") {
		spec.Kafka = &v1.Kafka{Pool: rapid.SampledFrom([]string{"dev", "dev", "strange"}).Draw(t, "pool"), SecretName: secret.Draw(t, "kafka in")}
	}
	if rapid.Bool().Draw(t, "openSearch") {
		spec.OpenSearch = &v1.OpenSearch{Instance: rapid.SampledFrom([]string{"logs", "legacy", "absent"}).Draw(t, "search"), SecretName: secret.Draw(t, "openSearch in")}
	}
	for _, instance := range []string{"cache", "c-2"} {
		if rapid.Bool().Draw(t, instance) {
			spec.Valkey = append(spec.Valkey, v1.Valkey{Instance: instance, SecretName: secret.Draw(t, instance+" in")})
		}
	}
	return spec
}

// held is a Secret that exists: the application's, edited or not, a stranger's, or a copy.
func held(t *rapid.T, name string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Finalizers: []string{controller.Finalizer(SecretName)}, Labels: map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"},
	}}
	set := &binding.Set{}
	for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(places), 0, 3, rapid.ID).Draw(t, name+" records") {
		set.Bindings = append(set.Bindings, &binding.Binding{Kind: p.kind, Instance: p.instance, Ref: p.ref, Username: nameOf(t, p)})
	}
	for _, p := range rapid.SliceOfN(rapid.SampledFrom(places), 0, 2).Draw(t, name+" records as replaced") {
		if at := moments.Draw(t, "until"); at != nil {
			set.Outgoing = append(set.Outgoing, &binding.Binding{Kind: p.kind, Instance: p.instance, Ref: p.ref, Username: nameOf(t, p), RetiresAt: at.Time})
		}
	}
	for _, b := range set.Bindings {
		b.IssuedAt, set.Interval = timeOf(moments.Draw(t, "since")), time.Hour
	}
	s.Annotations = set.Records()
	switch rapid.IntRange(0, 5).Draw(t, name+" is") {
	case 0:
		s.Labels, s.Finalizers = nil, nil
	case 1:
		s.Annotations[key.AnnotationOwner] = key.Owner("shop", "original", "cart")
	case 2: // of the earlier operator
		s.Finalizers = []string{key.FinalizerAivenator}
	default:
		s.Annotations[key.AnnotationOwner] = key.Owner("shop", name, "cart")
	}
	return s
}

// world is an application with its cluster and its Aiven.
type world struct {
	*Application
	time  *clocktesting.FakePassiveClock
	users map[aiven.Ref]map[string]bool // true: made by the operator
	// announced are users whose rights are to be asked for soon.
	announced map[at]bool
}

// small has the few types that are needed: the fake client goes through all of them at each write.
var small = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Secret{}, &corev1.SecretList{}, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	if err := v1.AddToScheme(s); err != nil {
		panic(err)
	}
	for _, gvk := range InstanceKinds {
		s.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
	}
	return s
})

func newPropWorld(t *rapid.T) *world {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-eu"}}}
	w := &world{users: map[aiven.Ref]map[string]bool{}, announced: map[at]bool{}}
	for _, p := range places {
		w.users[p.ref] = map[string]bool{"avnadmin": false}
		for range rapid.IntRange(0, 2).Draw(t, "users") {
			if user := nameOf(t, p); user != "" {
				w.users[p.ref][user] = false
			}
		}
		if p.kind != binding.Kafka && !p.foreign() {
			obj := Instance(p.kind)
			obj.SetNamespace("shop")
			obj.SetName(p.ref.Service)
			_ = unstructured.SetNestedField(obj.Object, rapid.SampledFrom([]string{"RUNNING", "RUNNING", "REBUILDING"}).Draw(t, "is"), "status", "state")
			objects = append(objects, obj)
		}
	}
	object := app(statuses(t)...)
	object.Spec = wishes(t)
	object.Annotations = map[string]string{key.AnnotationRotate: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "rotate")}
	for _, secret := range []string{"a", "b", "gone"} {
		if rapid.Bool().Draw(t, secret+" exists") {
			objects = append(objects, held(t, secret))
		}
	}
	c := fake.NewClientBuilder().WithScheme(small()).WithIndex(&v1.AivenApplication{}, UserIndex, Users).WithIndex(&corev1.Secret{}, UserIndex, Users).WithIndex(&corev1.Pod{}, janitor.SecretIndex, janitor.Index).WithStatusSubresource(object).WithObjects(append(objects, object)...).Build()
	clk := clocktesting.NewFakePassiveClock(now)
	w.time = clk
	w.Application = &Application{
		client: c, server: c, locator: &locator{client: c, aiven: w}, events: events.NewFakeRecorder(1000), clock: clk,
		settings: settings, janitor: func() {}, metrics: newMetrics(prometheus.NewRegistry(), clk),
	}
	return w
}

func (w *world) Service(_ context.Context, ref aiven.Ref) (*aiven.Service, error) {
	users, ok := w.users[ref]
	if !ok {
		return nil, aiven.ErrNotFound
	}
	s := &aiven.Service{Ref: ref, State: aiven.StateRunning, Components: []aiven.Component{{}}}
	for name := range users {
		s.AddUser(aiven.User{Name: name})
	}
	return s, nil
}

func (w *world) Invalidate(aiven.Ref) {}

func (w *world) AnnounceGrant(ref aiven.Ref, username string) { w.announced[at{ref, username}] = true }

// at is a user where it is.
type at struct {
	aiven.Ref
	username string
}

func (u at) String() string { return u.Ref.String() + "/" + u.username }

func (w *world) get(t *rapid.T) *v1.AivenApplication {
	object := app()
	if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// recorded are the users that the application's status and its Secrets record, in the places that are known. Where they contradict each other,
// the status counts more.
func (w *world) recorded(t *rapid.T, contradictions bool) map[at]bool {
	object, out := w.get(t), map[at]bool{}
	for _, r := range object.Status.Bindings {
		if !slices.ContainsFunc(places, func(p place) bool {
			return p.ref == aiven.Ref{Project: r.Project, Service: r.Service} && string(p.kind) == r.Kind
		}) {
			continue
		}
		out[at{aiven.Ref{Project: r.Project, Service: r.Service}, r.Username}] = true
	}
	var list corev1.SecretList
	if err := w.client.List(context.Background(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if !isOurs(&list.Items[i].ObjectMeta, object) {
			continue
		}
		for _, b := range binding.FromSecret(&list.Items[i]) {
			if !contradictions && slices.ContainsFunc(object.Status.Bindings, func(r v1.Binding) bool {
				return r.SecretName == list.Items[i].Name && r.Kind == string(b.Kind) && (r.Username != b.Username || r.Project != b.Ref.Project)
			}) {
				continue
			}
			w.locator.complete(context.Background(), b)
			out[at{b.Ref, b.Username}] = true
		}
	}
	return out
}

func plans(p controller.Plan) (ensure, remove []*binding.Set) {
	for _, s := range p.Ensure {
		ensure = append(ensure, s.(*binding.Set))
	}
	for _, s := range p.Delete {
		remove = append(remove, s.(*binding.Set))
	}
	return ensure, remove
}

// every is every user that a set is about.
func every(s *binding.Set) []*binding.Binding {
	all := slices.Concat(s.Bindings, s.Outgoing)
	for _, b := range s.Bindings {
		if b.Successor != nil {
			all = append(all, b.Successor)
		}
	}
	return all
}

// told is a plan in words, so that two can be compared.
func told(p controller.Plan) []string {
	var out []string
	ensure, remove := plans(p)
	for operation, sets := range map[string][]*binding.Set{"ensure": ensure, "delete": remove} {
		for _, s := range sets {
			for _, b := range every(s) {
				out = append(out, fmt.Sprint(operation, " ", s.Secret, ": ", b.Kind, " ", at{b.Ref, b.Username}, " ", binding.ReasonOf(b.Err)))
			}
		}
	}
	slices.Sort(out)
	return out
}

// check holds a plan against what may be planned.
func (w *world) check(t *rapid.T, before *v1.AivenApplication, plan controller.Plan) {
	ensure, remove := plans(plan)
	seen := map[at]string{}
	for i, s := range slices.Concat(ensure, remove) {
		if s.Namespace != "shop" || s.Application != "cart" {
			t.Errorf("a set is %s/%s's", s.Namespace, s.Application)
		}
		for _, b := range s.Bindings {
			if b.Successor != nil && slices.ContainsFunc(before.Status.Bindings, func(r v1.Binding) bool {
				return r.RetiresAt != nil && r.State == StateRetiring && r.SecretName == s.Secret && r.Kind == string(b.Kind) && r.Service == b.Ref.Service && w.known(r)
			}) {
				t.Errorf("%s is to be replaced while a user that it replaced is there", b.Username)
			}
		}
		for _, b := range every(s) {
			if b.Username == "" || b.Ref.Service == "" {
				continue
			}
			user := at{b.Ref, b.Username}
			if other, ok := seen[user]; ok {
				t.Errorf("%s is in two sets, of %q and %q: %v", user, other, s.Secret, before.Status.Bindings)
			}
			seen[user] = s.Secret
			if !b.Matches(b.Username, "shop", "cart") || slices.ContainsFunc(places, func(p place) bool { return p.foreign() && p.ref == b.Ref }) {
				t.Errorf("%s cannot be a user of the application", user)
			}
			if i >= len(ensure) && !slices.ContainsFunc(before.Status.Bindings, func(r v1.Binding) bool {
				return r.SecretName == s.Secret && r.Username == b.Username
			}) && !w.inSecret(t, s.Secret, b.Username) {
				t.Errorf("nothing records %s for %q, of which it is to be deleted", user, s.Secret)
			}
		}
	}
}

func (w *world) inSecret(t *rapid.T, secret, username string) bool {
	s := &corev1.Secret{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: secret}, s); err != nil {
		return false
	}
	return slices.ContainsFunc(binding.FromSecret(s), func(b *binding.Binding) bool { return b.Username == username })
}

// run does what the slice would do, or fails on the way.
func (w *world) run(t *rapid.T, plan controller.Plan, fails func(string) bool) []resource.Result {
	var results []resource.Result
	down := errors.New("down")
	ensure, remove := plans(plan)
	for _, s := range ensure {
		for _, b := range slices.Concat(s.Alive(), s.Successors()) {
			if b.Err != nil {
				continue
			}
			_, exists := w.users[b.Ref][b.Username]
			switch {
			case exists && !b.Resumed:
				b.Err = binding.Waiting(binding.ReasonNameTaken, 1, "%w", serviceuser.ErrTaken)
			case !exists && fails("creation"):
				b.Err = down
			default:
				if !exists {
					w.users[b.Ref][b.Username] = true
					if told := w.announced[at{b.Ref, b.Username}]; told != (b.Kind == binding.OpenSearch) {
						t.Errorf("the rights of the %s user %s: announced: %t", b.Kind, b.Username, told)
					}
				}
				if fails("answer") {
					b.Err = down
				}
			}
		}
		err := s.Err()
		if len(s.Alive()) > 0 {
			if fails("publication") {
				err = errors.Join(err, down)
			} else {
				if next := s.Successors(); len(next) > 0 && !slices.ContainsFunc(next, func(b *binding.Binding) bool { return b.Err != nil }) {
					*s = *s.Rotated(w.time.Now())
				}
				w.publish(t, s)
				err = s.Err()
			}
		}
		results = append(results, resource.Result{Scope: s, Operation: resource.Create, Err: err})
	}
	for _, s := range remove {
		var errs []error
		for _, b := range s.Bindings {
			if b.Err == nil && fails("deletion") {
				b.Err = down
			}
			if b.Err == nil {
				delete(w.users[b.Ref], b.Username)
			}
			errs = append(errs, b.Err)
		}
		results = append(results, resource.Result{Scope: s, Operation: resource.Delete, Err: errors.Join(errs...)})
	}
	return results
}

func (w *world) publish(t *rapid.T, set *binding.Set) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Secret}}
	write := w.client.Create
	if set.Current != nil {
		s = set.Current.DeepCopy()
		write = func(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
			return w.client.Update(ctx, o)
		}
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	maps.DeleteFunc(s.Annotations, func(name, _ string) bool { return binding.IsRecord(name) })
	maps.Copy(s.Annotations, set.Annotations)
	maps.Copy(s.Annotations, set.Records())
	s.Labels, s.Finalizers = maps.Clone(set.Labels), []string{controller.Finalizer(SecretName)}
	if err := write(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	for _, b := range set.Alive() {
		b.Published = true
	}
}

// pass is one pass of the controller over the application.
func (w *world) pass(t *rapid.T, fails func(string) bool) {
	before, recorded := w.get(t), w.recorded(t, false)
	foreign := w.foreign()
	object := before.DeepCopy()
	plan, err := w.Prepare(context.Background(), object)
	if err != nil {
		t.Fatal(err)
	}
	w.check(t, before, plan)
	if fails("process") { // the same plan is made again
		again, err := w.Prepare(context.Background(), w.get(t))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(told(plan), told(again)); diff != "" {
			t.Errorf("after a crash (-before +after)\n%s", diff)
		}
		return
	}
	w.Report(object, w.run(t, plan, fails))
	if err := w.client.Status().Update(context.Background(), object); err != nil {
		t.Fatal(err)
	}

	after := w.recorded(t, true)
	for ref, users := range w.users {
		for username, ours := range users {
			user := at{ref, username}
			if may := w.mayBeOurs(user); (ours || may && recorded[user]) && !after[user] {
				t.Errorf("%s exists, and is forgotten", user)
			}
		}
	}
	if diff := cmp.Diff(foreign, w.foreign()); diff != "" {
		t.Errorf("users of others (-before +after)\n%s", diff)
	}
}

// known tells whether the operator believes a record.
func (w *world) known(r v1.Binding) bool {
	return r.Username != "" && mayHold(fromRecord(r), "shop", "cart", settings, func() []string { return []string{"shop", "shop-eu"} })
}

// mayBeOurs tells whether a user can be the application's: in a place of its own, by a name that fits; where the name of the service says nothing of
// the namespace, by one that the operator made.
func (w *world) mayBeOurs(u at) bool {
	return slices.ContainsFunc(places, func(p place) bool {
		b := &binding.Binding{Kind: p.kind, Ref: p.ref, Access: v1.AccessRead}
		return p.ref == u.Ref && !p.foreign() && b.Matches(u.username, "shop", "cart") && (p.instance != "legacy" || u.username != "shop-r-abc")
	})
}

// foreign are the users that nobody may touch.
func (w *world) foreign() []string {
	var out []string
	for ref, users := range w.users {
		for username := range users {
			if u := (at{ref, username}); !w.mayBeOurs(u) {
				out = append(out, u.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

// From any spec, any status and any Secrets, edited by hand or not, and whatever fails: no user is in two sets; each set is about one Secret;
// nobody else's user is touched; what is recorded and exists stays recorded until it is gone; what was made is never forgotten; after
// a crash the plan is the same. Once nothing fails any more, a few passes lead to a state that stays.
func TestPlansForgetNothingAndConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newPropWorld(t)
		for range rapid.IntRange(0, 4).Draw(t, "passes with failures") {
			w.pass(t, func(what string) bool { return rapid.IntRange(0, 3).Draw(t, what+" fails") == 0 })
			switch rapid.IntRange(0, 4).Draw(t, "meanwhile") {
			case 0:
				object := w.get(t)
				object.Spec, object.Generation = wishes(t), object.Generation+1
				if err := w.client.Update(context.Background(), object); err != nil {
					t.Fatal(err)
				}
			case 2:
				w.time.SetTime(w.time.Now().Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "minutes")) * time.Minute))
			case 1: // it is deleted, its users are taken back, and it goes
				w.revoke(t, rapid.SampledFrom([]string{"a", "b", "gone"}).Draw(t, "deleted Secret"))
			}
		}
		var before *v1.AivenApplication
		for passes := 1; ; passes++ {
			users := fmt.Sprint(w.users)
			before = w.get(t)
			w.pass(t, func(string) bool { return false })
			diff := cmp.Diff(before.Status, w.get(t).Status)
			if diff == "" && users == fmt.Sprint(w.users) {
				break
			}
			if passes == 8 {
				t.Fatalf("it does not come to rest (-before +after)\n%s", diff)
			}
		}
		for _, r := range before.Status.Bindings {
			switch {
			case slices.Contains([]string{StateReady, StateRetained, StateDeleted, StateRetiring}, r.State):
			case slices.Contains([]string{binding.ReasonPoolNotAllowed, binding.ReasonInstanceNotFound, binding.ReasonWaiting, binding.ReasonSecretNotOwned}, r.Reason):
			default:
				t.Errorf("it rests with %+v", r)
			}
		}
	})
}

// revoke is what becomes of a Secret that is deleted.
func (w *world) revoke(t *rapid.T, name string) {
	ctx := context.Background()
	s := &corev1.Secret{}
	err := w.client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: name}, s)
	if apierrors.IsNotFound(err) {
		return
	}
	deleted := s.DeepCopy()
	deleted.DeletionTimestamp = new(metav1.NewTime(now))
	foreign := w.foreign()
	c := &Secret{client: w.client, locator: w.locator, events: w.events, settings: settings, incomplete: prometheus.NewCounter(prometheus.CounterOpts{})}
	plan, err := c.Prepare(ctx, deleted)
	if err != nil {
		t.Fatal(err)
	}
	w.check(t, w.get(t), plan)
	w.run(t, plan, func(string) bool { return false })
	if diff := cmp.Diff(foreign, w.foreign()); diff != "" {
		t.Errorf("users of others after Secret %s is gone (-before +after)\n%s", name, diff)
	}
	s.Finalizers = nil
	if err := errors.Join(w.client.Update(ctx, s), client.IgnoreNotFound(w.client.Delete(ctx, s))); err != nil {
		t.Fatal(err)
	}
}
