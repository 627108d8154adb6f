package controller

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestEventsTellWhatWasDone(t *testing.T) {
	bound := func(edits ...func(*binding.Binding)) *binding.Binding {
		b := &binding.Binding{Kind: binding.Kafka, Ref: kafkaRef, Username: "u", Published: true}
		for _, edit := range edits {
			edit(b)
		}
		return b
	}
	rights := func(b *binding.Binding) { b.Rights = []string{"write on topic a granted", "read on topic a revoked"} }
	unpublished := func(b *binding.Binding) { b.Username, b.Published = "v", false }
	current := &corev1.Secret{}
	tests := map[string]struct {
		set  binding.Set
		op   resource.Operation
		err  error
		want []string
	}{
		"it is silent about a pass that does nothing": {set: binding.Set{Current: current, Bindings: []*binding.Binding{bound()}}, op: resource.Create},
		"it names the users of a new Secret, not their rights": {
			set: binding.Set{Written: "all of it", Bindings: []*binding.Binding{bound(rights), bound(unpublished)}}, op: resource.Create,
			want: []string{"Normal SecretCreated Secret creds was made for user u of dev/kafka"},
		},
		"it says what was restored": {
			set: binding.Set{Written: "KAFKA_CA, keys of others removed: 1", Current: current, Bindings: []*binding.Binding{bound()}}, op: resource.Create,
			want: []string{"Normal SecretUpdated Secret creds was brought up to date: KAFKA_CA, keys of others removed: 1"},
		},
		"it says which rights changed": {
			set: binding.Set{Current: current, Bindings: []*binding.Binding{bound(rights)}}, op: resource.Create,
			want: []string{"Normal AccessChanged Rights of user u of dev/kafka: write on topic a granted, read on topic a revoked"},
		},
		"it says who was deleted": {
			set: binding.Set{Bindings: []*binding.Binding{bound()}}, op: resource.Delete,
			want: []string{"Normal UserDeleted User u of dev/kafka was deleted"},
		},
		"it does not say so too early": {
			set: binding.Set{Bindings: []*binding.Binding{bound()}}, op: resource.Delete, err: errors.New("not yet"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, recorder := newApplication(clocktesting.NewFakePassiveClock(now))
			tt.set.Secret = "creds"
			a.tell(app(), []resource.Result{{Scope: &tt.set, Operation: tt.op, Err: tt.err}})
			if diff := cmp.Diff(tt.want, sent(recorder.Events)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPassTellsEachThingOnce(t *testing.T) {
	a, recorder := newApplication(clocktesting.NewFakePassiveClock(now))
	made := func(secret, user string) resource.Result {
		b := &binding.Binding{Kind: binding.Kafka, Ref: kafkaRef, Username: user, Published: true}
		return resource.Result{Scope: &binding.Set{Secret: secret, Written: "all of it", Bindings: []*binding.Binding{b}}, Operation: resource.Create}
	}
	gone := &binding.Set{Bindings: []*binding.Binding{{Ref: kafkaRef, Username: "x"}, {Ref: kafkaRef, Username: "y"}}}
	a.tell(app(), []resource.Result{made("one", "u"), made("two", "v"), {Scope: gone, Operation: resource.Delete}})
	want := []string{
		"Normal SecretCreated Secret one was made for user u of dev/kafka; Secret two was made for user v of dev/kafka",
		"Normal UserDeleted User x of dev/kafka was deleted; User y of dev/kafka was deleted",
	}
	if diff := cmp.Diff(want, sent(recorder.Events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestWhichOutcomesAreToldOf(t *testing.T) {
	is := func(status corev1.ConditionStatus, reason string) *v1.AivenApplication {
		a := app()
		a.Status.Conditions = []v1.Condition{{Type: v1.ConditionReady, Status: status, Reason: reason, Message: "text"}}
		return a
	}
	tests := map[string]struct {
		before, after *v1.AivenApplication
		want          []string
	}{
		"it leaves a first success to the events of the Secrets": {before: app(), after: is("True", reasonSynchronized)},
		"it tells of a first failure":                            {before: app(), after: is("False", reasonBusy), want: []string{"Normal AivenBusy text"}},
		"it tells of a success after a failure": {
			before: is("False", reasonBusy), after: is("True", reasonSynchronized), want: []string{"Normal Synchronized text"},
		},
		"it tells of another reason":  {before: is("False", reasonBusy), after: is("False", reasonThrottled), want: []string{"Normal AivenThrottled text"}},
		"it is silent about the same": {before: is("True", reasonSynchronized), after: is("True", reasonSynchronized)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, recorder := newApplication(clocktesting.NewFakePassiveClock(now))
			a.Notify(tt.before, tt.after)
			if diff := cmp.Diff(tt.want, sent(recorder.Events)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnApplicationThatGoesTellsWhatStays(t *testing.T) {
	a, recorder := newApplication(clocktesting.NewFakePassiveClock(now))
	gone := app(record("u", StateRetained, 0), record("v", StateDeleting, 1))
	gone.DeletionTimestamp = new(metav1.Now())
	a.Report(gone, nil)
	want := []string{"Normal Deleted Secrets stay, with their users, until no workload refers to them: creds"}
	if diff := cmp.Diff(want, sent(recorder.Events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The column Message of kubectl get -o wide.
func TestSummary(t *testing.T) {
	valkey := func(instance, secret string) v1.Binding {
		return v1.Binding{Kind: "valkey", Instance: instance, SecretName: secret, State: StateReady}
	}
	tests := map[string]struct {
		records []v1.Binding
		want    string
	}{
		"it says that nothing is asked for": {want: "Nothing is asked for"},
		"it names the services of each Secret": {
			records: []v1.Binding{record("u", StateReady, 0), valkey("a", "creds"), valkey("b", "other")},
			want:    "Up to date: creds (kafka, valkey a), other (valkey b)",
		},
		"it leaves out what is on its way out": {
			records: []v1.Binding{record("u", StateReady, 0), record("v", StateRetained, 1)}, want: "Up to date: creds (kafka)",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := summary(tt.records); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func sent(events <-chan string) (out []string) {
	for {
		select {
		case e := <-events:
			out = append(out, e)
		default:
			return out
		}
	}
}
