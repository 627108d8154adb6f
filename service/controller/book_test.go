package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/resource/serviceuser"
)

var settings = binding.Settings{Project: "main", Pools: []string{"dev"}, Cluster: "test"}

func newApplication(clk clock.PassiveClock) (*Application, *events.FakeRecorder) {
	recorder := events.NewFakeRecorder(100)
	nobody := fake.NewClientBuilder().WithScheme(small()).WithIndex(&v1.AivenApplication{}, UserIndex, Users).WithIndex(&corev1.Secret{}, UserIndex, Users).Build()
	return &Application{
		events: recorder, clock: clk, settings: settings, metrics: newMetrics(prometheus.NewRegistry(), clk), locator: &locator{client: nobody},
	}, recorder
}

var kafkaRef = aiven.Ref{Project: "dev", Service: "kafka"}

// user is a name of application shop/cart.
func user(attempt int32) string {
	return key.Identity{Cluster: "test", Namespace: "shop", Application: "cart", Project: "dev", Service: "kafka", Attempt: attempt}.Kafka()
}

func record(username, state string, attempt int32) v1.Binding {
	return v1.Binding{Kind: "kafka", Project: "dev", Service: "kafka", SecretName: "creds", Username: username, State: state, Attempt: attempt}
}

func app(records ...v1.Binding) *v1.AivenApplication {
	return &v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Generation: 2, UID: "cart"},
		Spec:       v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "dev", SecretName: "creds"}},
		Status:     v1.AivenApplicationStatus{Bindings: records},
	}
}

// secretOf is a Secret of shop/cart that records a Kafka user.
func secretOf(username string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "creds", Annotations: map[string]string{
		key.AnnotationOwner: key.Owner("shop", "creds", "cart"), key.AnnotationKafkaUser: username, key.AnnotationKafkaPool: "dev",
	}}}
}

func TestNames(t *testing.T) {
	stranger := &aiven.Service{Ref: kafkaRef}
	stranger.AddUser(aiven.User{Name: user(0)})
	nobody := &aiven.Service{Ref: kafkaRef}
	tests := map[string]struct {
		records []v1.Binding
		secret  *corev1.Secret
		service *aiven.Service
		blocked error // of the binding

		want    string
		resumed bool
		claimed bool
		warned  bool
		left    int // records that nobody uses
	}{
		"it claims the first name":                       {service: nobody, want: user(0), claimed: true},
		"it claims another where the first is taken":     {service: stranger, want: user(1), claimed: true},
		"it goes on with a name that is recorded":        {records: []v1.Binding{record(user(3), StatePending, 3)}, service: nobody, want: user(3), resumed: true},
		"it keeps the user that a Secret holds":          {records: []v1.Binding{record(user(3), StateReady, 3)}, secret: secretOf(user(3)), service: nobody, want: user(3), resumed: true},
		"it takes the user that only a Secret records":   {secret: secretOf(user(5)), service: nobody, want: user(5), resumed: true},
		"it takes another name after a Secret is gone":   {records: []v1.Binding{record(user(3), StateReady, 3)}, service: nobody, want: user(4), claimed: true, left: 1},
		"it takes another name after one was given up":   {records: []v1.Binding{record("", StateWaiting, 7)}, service: nobody, want: user(7), claimed: true},
		"it does not use a user that is being deleted":   {records: []v1.Binding{record(user(0), StateDeleting, 0)}, service: nobody, want: user(1), claimed: true, left: 1},
		"it restores a record that a Secret contradicts": {records: []v1.Binding{record(user(3), StateReady, 3)}, secret: secretOf(user(5)), service: nobody, want: user(3), resumed: true, warned: true},
		"it ignores the administrator in a Secret":       {secret: secretOf("avnadmin"), service: nobody, want: user(0), claimed: true, warned: true},
		"it ignores the administrator in the status":     {records: []v1.Binding{record("avnadmin", StateReady, 0)}, service: nobody, want: user(0), claimed: true, warned: true},
		"it ignores a user of a project that is not its": {secret: func() *corev1.Secret {
			s := secretOf(user(1))
			s.Annotations[key.AnnotationKafkaPool] = "other"
			return s
		}(), service: nobody, want: user(0), claimed: true, warned: true},
		"it keeps a record while the service cannot be had": {records: []v1.Binding{record(user(3), StateReady, 3)}, blocked: errors.New("down"), want: user(3), resumed: true},
		"it lets go of a user whose Secret is a stranger's": {records: []v1.Binding{record(user(3), StatePending, 3)}, blocked: binding.WithReason(binding.ReasonSecretNotOwned, errors.New("taken")), left: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, recorder := newApplication(clock.RealClock{})
			object := app(tt.records...)
			sets := binding.FromApplication(object, settings)
			b := sets[0].Bindings[0]
			sets[0].Current, b.Err = tt.secret, tt.blocked
			if tt.service != nil {
				b.Ref = tt.service.Ref
			}
			var err error
			if object.Status.Bindings, err = a.trusted(t.Context(), object, nobodyElse); err != nil {
				t.Fatal(err)
			}
			k := a.open(object, sets, nobodyElse, notTaken)
			k.assign(sets[0])
			claimed := k.claim("test", object, sets, map[*binding.Binding]*aiven.Service{b: tt.service}, notTaken)
			if b.Username != tt.want || b.Resumed != tt.resumed || claimed != tt.claimed {
				t.Errorf("got %q, resumed %t, claimed %t; want %q, %t, %t", b.Username, b.Resumed, claimed, tt.want, tt.resumed, tt.claimed)
			}
			left := 0
			for i, r := range k.records {
				if !k.used[i] && r.Username != "" {
					left++
				}
			}
			if left != tt.left {
				t.Errorf("got %d records that nobody uses, want %d: %+v", left, tt.left, k.records)
			}
			if warned := len(recorder.Events) > 0; warned != tt.warned {
				t.Errorf("warned: %t, want %t", warned, tt.warned)
			}
		})
	}
}

func TestTwoInstancesOfOneServiceGetTwoNames(t *testing.T) {
	a, _ := newApplication(clock.RealClock{})
	object := app()
	object.Spec = v1.AivenApplicationSpec{Valkey: []v1.Valkey{{Instance: "cache", SecretName: "a"}, {Instance: "valkey-shop-cache", SecretName: "b"}}}
	sets := binding.FromApplication(object, settings)
	services := map[*binding.Binding]*aiven.Service{}
	for _, set := range sets {
		set.Bindings[0].Ref.Service = "valkey-shop-cache"
		services[set.Bindings[0]] = &aiven.Service{}
	}
	a.open(object, sets, nobodyElse, notTaken).claim("test", object, sets, services, notTaken)
	if one, two := sets[0].Bindings[0].Username, sets[1].Bindings[0].Username; one == two {
		t.Errorf("both are %q", one)
	}
}

func nobodyElse() []string { return nil }

func notTaken(*binding.Binding) bool { return false }

func TestMayOwn(t *testing.T) {
	at := func(project, service, username string) *binding.Binding {
		return &binding.Binding{Kind: binding.Valkey, Ref: aiven.Ref{Project: project, Service: service}, Username: username}
	}
	made := key.Identity{Cluster: "test", Namespace: "shop", Application: "cart", Project: "main", Service: "legacy"}.Valkey("read")
	tests := map[string]struct {
		b    *binding.Binding
		want bool
	}{
		"it owns a user of its namespace's service":                         {at("main", "valkey-shop-cache", "cart-r-abc"), true},
		"it owns a user whose name was made for the service":                {at("main", "legacy", made), true},
		"it does not own one of a namespace whose name begins like its own": {at("main", "valkey-shop-eu-cache", "cart-r-abc"), false},
		"it owns one that only looks like another namespace's":              {at("main", "valkey-shop-european", "cart-r-abc"), true},
		"it does not own one on another service":                            {at("main", "valkey-other-cache", "cart-r-abc"), false},
		"it does not own one in another project":                            {at("other", "valkey-shop-cache", "cart-r-abc"), false},
		"it does not own one of another application":                        {at("main", "valkey-shop-cache", "basket-r-abc"), false},
		"it does not own one whose service is not known":                    {at("main", "", "cart-r-abc"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := mayOwn(tt.b, "shop", "cart", settings, func() []string { return []string{"shop", "shop-eu", "shopping", "default"} }); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// result is what became of an application's one set.
func result(state func(b *binding.Binding), err error) resource.Result {
	b := &binding.Binding{Kind: binding.Kafka, Ref: kafkaRef, Username: user(3), Attempt: 3}
	if state != nil {
		state(b)
	}
	return resource.Result{Scope: &binding.Set{Secret: "creds", Bindings: []*binding.Binding{b}}, Operation: resource.Create, Err: err}
}

func TestReport(t *testing.T) {
	aivenDown := &aiven.Error{Tried: "read service dev/kafka", Status: 503, Message: "Service Unavailable"}
	tests := map[string]struct {
		before v1.Binding
		result resource.Result

		ready      corev1.ConditionStatus
		reason     string
		state      string
		conditions []v1.ConditionType
		username   string
	}{
		"it is ready when the Secret is published": {
			before: record(user(3), StatePending, 3), result: result(func(b *binding.Binding) { b.Published = true }, nil),
			ready: "True", reason: "Synchronized", state: StateReady, username: user(3),
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady},
		},
		"it stays pending until a Secret holds the user": {
			before: record(user(3), StatePending, 3), result: result(nil, aivenDown),
			ready: "False", reason: "AivenFailure", state: StatePending, username: user(3),
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady, v1.ConditionAivenFailure},
		},
		"it says that Aiven fails": {
			before: record(user(3), StateReady, 3), result: result(func(b *binding.Binding) { b.Err = aivenDown }, aivenDown),
			ready: "False", reason: "AivenFailure", state: StateFailed, username: user(3),
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady, v1.ConditionAivenFailure},
		},
		"it says that the cluster fails": {
			before: record(user(3), StateReady, 3), result: result(nil, errors.New("patch Secret creds: forbidden")),
			ready: "False", reason: "LocalFailure", state: StateFailed, username: user(3),
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady, v1.ConditionLocalFailure},
		},
		"it does not call waiting a failure": {
			before: record(user(3), StateReady, 3), result: result(nil, binding.Waiting(binding.ReasonWaiting, time.Minute, "service kafka is REBUILDING")),
			ready: "False", reason: "WaitingForService", state: StateWaiting, username: user(3),
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady},
		},
		"it calls nothing ready of which no Secret was written": {
			before: record(user(3), StateReady, 3), result: result(nil, nil),
			ready: "False", reason: "LocalFailure", state: StateFailed, username: user(3),
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady, v1.ConditionLocalFailure},
		},
		"it does not do so either where all that failed is the next rotation": {
			before: record(user(3), StateReady, 3), result: result(nil, binding.Aside(aivenDown)),
			ready: "False", reason: "LocalFailure", state: StateFailed, username: user(3),
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady, v1.ConditionLocalFailure},
		},
		"it gives up a name that is taken": {
			before: record(user(3), StatePending, 3),
			result: func() resource.Result {
				err := binding.Waiting(binding.ReasonNameTaken, time.Second, "find a name: %w", serviceuser.ErrTaken)
				return result(func(b *binding.Binding) { b.Err = err }, err)
			}(),
			ready: "False", reason: "UserNameTaken", state: StateWaiting,
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady},
		},
		"it names the worst of several": {
			before: record(user(3), StateReady, 3),
			result: result(nil, errors.Join(binding.Waiting(binding.ReasonWaiting, time.Minute, "wait"),
				binding.WithReason(binding.ReasonPoolNotAllowed, reconcile.TerminalError(errors.New("no"))))),
			ready: "False", reason: "PoolNotAllowed", state: StateFailed, username: user(3),
			conditions: []v1.ConditionType{v1.ConditionSucceeded, v1.ConditionReady, v1.ConditionLocalFailure},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(now)
			a, _ := newApplication(clk)
			object := app(tt.before)
			a.Report(object, []resource.Result{tt.result})
			got := condition(object, v1.ConditionReady)
			if got.Status != tt.ready || got.Reason != tt.reason {
				t.Errorf("ready: got %s %s, want %s %s", got.Status, got.Reason, tt.ready, tt.reason)
			}
			b := object.Status.Bindings[0]
			if b.State != tt.state || b.Username != tt.username {
				t.Errorf("binding: got %s %q, want %s %q", b.State, b.Username, tt.state, tt.username)
			}
			var types []v1.ConditionType
			for _, c := range object.Status.Conditions {
				types = append(types, c.Type)
			}
			if diff := cmp.Diff(tt.conditions, types); diff != "" {
				t.Errorf("conditions (-want +got)\n%s", diff)
			}
			if object.Status.ObservedGeneration != 2 {
				t.Errorf("observed generation: got %d, want 2", object.Status.ObservedGeneration)
			}
			// The same again changes nothing, the times included.
			before := object.Status.DeepCopy()
			clk.SetTime(now.Add(time.Hour))
			a.Report(object, []resource.Result{tt.result})
			if tt.username != "" {
				if diff := cmp.Diff(before, &object.Status); diff != "" {
					t.Errorf("a second report (-first +second)\n%s", diff)
				}
			}
		})
	}
}

func TestFailureAndSuccessReplaceEachOther(t *testing.T) {
	a, _ := newApplication(clocktesting.NewFakePassiveClock(now))
	object := app(record(user(3), StateReady, 3))
	published := func(b *binding.Binding) { b.Published = true }
	down := &aiven.Error{Tried: "read service dev/kafka", Status: 503}
	for _, step := range []struct {
		result resource.Result
		want   map[v1.ConditionType]corev1.ConditionStatus
	}{
		{result(nil, down), map[v1.ConditionType]corev1.ConditionStatus{"Ready": "False", "Succeeded": "False", "AivenFailure": "True"}},
		{result(nil, errors.New("local")), map[v1.ConditionType]corev1.ConditionStatus{"Ready": "False", "Succeeded": "False", "LocalFailure": "True"}},
		{result(published, nil), map[v1.ConditionType]corev1.ConditionStatus{"Ready": "True", "Succeeded": "True"}},
		{result(nil, down), map[v1.ConditionType]corev1.ConditionStatus{"Ready": "False", "Succeeded": "False", "AivenFailure": "True"}},
	} {
		a.Report(object, []resource.Result{step.result})
		got := map[v1.ConditionType]corev1.ConditionStatus{}
		for _, c := range object.Status.Conditions {
			got[c.Type] = c.Status
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestRecordsOutliveWhatFails(t *testing.T) {
	a, _ := newApplication(clocktesting.NewFakePassiveClock(now))
	retained := record(user(1), StateRetained, 1)
	retained.SecretName = "old"
	gone := &binding.Set{Secret: "gone", Bindings: []*binding.Binding{{Kind: binding.Kafka, Ref: kafkaRef, Username: user(2), Attempt: 2}}}
	object := app(record(user(3), StateReady, 3), retained)
	published := result(func(b *binding.Binding) { b.Published = true }, nil)
	names := func() string {
		var out []string
		for _, r := range object.Status.Bindings {
			out = append(out, r.Username+" "+r.State)
		}
		return strings.Join(out, ", ")
	}
	a.Report(object, []resource.Result{published, {Scope: gone, Operation: resource.Delete, Err: errors.New("down")}})
	if want := user(3) + " Ready, " + user(1) + " Retained, " + user(2) + " Deleting"; names() != want {
		t.Errorf("got %s, want %s", names(), want)
	}
	a.Report(object, []resource.Result{published, {Scope: gone, Operation: resource.Delete}})
	if want := user(3) + " Ready, " + user(1) + " Retained"; names() != want {
		t.Errorf("got %s, want %s", names(), want)
	}
	// A pass that could not even be prepared forgets nothing.
	a.Report(object, []resource.Result{{Operation: resource.Create, Err: errors.New("down")}})
	if want := user(3) + " Ready, " + user(1) + " Retained"; names() != want {
		t.Errorf("got %s, want %s", names(), want)
	}
}

func TestMessageIsOneShortLine(t *testing.T) {
	got := message(errors.Join(errors.New("first\n  line"), errors.New(strings.Repeat("ø", 600))))
	if strings.Contains(got, "\n") || len(got) > maxMessage || !strings.HasPrefix(got, "first; line; ø") {
		t.Errorf("got %d bytes: %q", len(got), got)
	}
}
