package controller

import (
	"context"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/resource/janitor"
)

// The form of a Kafka user's name is fixed and holds a checksum of 32 bits, for which a name can be found within seconds: all but the suffix of
// the thief's users is that of the victim's.
var (
	victimKey = client.ObjectKey{Namespace: "foo", Name: "abc"}
	thiefKey  = client.ObjectKey{Namespace: "teamfoo", Name: "abc---------------------------ajbv9nd"}
	stolen    = key.Identity{Cluster: "test", Namespace: "foo", Application: "abc", Project: "dev", Service: "kafka"}.Kafka()
)

// one has a Kafka service with one user.
type one struct{ aiven.User }

func (o one) Service(_ context.Context, ref aiven.Ref) (*aiven.Service, error) {
	s := &aiven.Service{Ref: ref, State: aiven.StateRunning, Components: []aiven.Component{{}}}
	s.AddUser(o.User)
	return s, nil
}

func (one) Invalidate(aiven.Ref) {}

func (one) AnnounceGrant(aiven.Ref, string) {}

// party is an application with what its status records and the password that its Secret holds.
type party struct {
	state    string // of the record in its status; "": there is none
	password string // in its Secret; "": there is no Secret
}

func TestACheckSumThatIsMadeToFitOpensNothing(t *testing.T) {
	tests := map[string]struct {
		victim, thief party
		victims       bool // the user is the victim's; otherwise nobody can tell, and nobody touches it
	}{
		"recorded by the Secret":                          {victim: party{StateReady, "present"}, thief: party{"", "other"}, victims: true},
		"recorded by the status":                          {victim: party{StateReady, "present"}, thief: party{StateReady, "other"}, victims: true},
		"recorded by the status, without a Secret":        {victim: party{StateReady, "present"}, thief: party{StatePending, ""}, victims: true},
		"recorded as one that is to go":                   {victim: party{StateReady, "present"}, thief: party{StateDeleting, ""}, victims: true},
		"recorded while the victim has no Secret yet":     {victim: party{StatePending, ""}, thief: party{StatePending, "other"}},
		"recorded while the victim's Secret holds others": {victim: party{StateReady, "edited"}, thief: party{StateReady, "other"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			secrets := map[client.ObjectKey]*corev1.Secret{}
			for at, p := range map[client.ObjectKey]party{victimKey: tt.victim, thiefKey: tt.thief} {
				object := &v1.AivenApplication{
					ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name},
					Spec:       v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "dev", SecretName: "creds"}},
				}
				if p.state != "" {
					object.Status.Bindings = []v1.Binding{record(stolen, p.state, 0)}
				}
				objects = append(objects, object, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.Namespace}})
				if p.password != "" {
					s := secretOf(stolen)
					s.Namespace, s.Labels = at.Namespace, map[string]string{key.LabelType: key.TypeAivenator}
					s.Annotations[key.AnnotationOwner] = key.Owner(at.Namespace, s.Name, at.Name)
					s.Data = map[string][]byte{key.KafkaSchemaRegistryPassword: []byte(p.password)}
					secrets[at], objects = s, append(objects, s)
				}
			}
			c := fake.NewClientBuilder().WithScheme(small()).WithIndex(&v1.AivenApplication{}, UserIndex, Users).WithIndex(&corev1.Secret{}, UserIndex, Users).WithIndex(&corev1.Pod{}, janitor.SecretIndex, janitor.Index).
				WithStatusSubresource(&v1.AivenApplication{}).WithObjects(objects...).Build()
			clk := clocktesting.NewFakePassiveClock(now)
			where := &locator{client: c, aiven: one{aiven.User{Name: stolen, Password: "present"}}}
			recorder := events.NewFakeRecorder(100)
			a := &Application{
				client: c, server: c, locator: where, events: recorder, clock: clk,
				settings: settings, janitor: func() {}, metrics: newMetrics(prometheus.NewRegistry(), clk),
			}
			deletion := &Secret{client: c, locator: where, events: recorder, settings: settings, incomplete: prometheus.NewCounter(prometheus.CounterOpts{})}
			// planned tells whether a pass over an application or over its deleted Secret does anything with the user. The passes see the same state.
			planned := func(at client.ObjectKey) (published, deleted bool) {
				object := &v1.AivenApplication{}
				if err := c.Get(t.Context(), at, object); err != nil {
					t.Fatal(err)
				}
				var doomed controller.Plan
				if s := secrets[at]; s != nil {
					s.DeletionTimestamp = new(metav1.NewTime(now))
					var err error
					if doomed, err = deletion.Prepare(t.Context(), s); err != nil {
						t.Fatal(err)
					}
				}
				before := object.DeepCopy()
				plan, err := a.Prepare(t.Context(), object)
				if err != nil {
					t.Fatal(err)
				}
				object.Status, object.ResourceVersion = before.Status, ""
				if err := c.Status().Patch(t.Context(), object, client.Merge); err != nil {
					t.Fatal(err)
				}
				return holdsUser(plan.Ensure), holdsUser(plan.Delete) || holdsUser(doomed.Delete)
			}
			if published, deleted := planned(thiefKey); published || deleted {
				t.Errorf("the thief's user is published: %t, or taken back: %t", published, deleted)
			}
			published, deleted := planned(victimKey)
			if published != tt.victims || deleted != tt.victims {
				t.Errorf("the victim's user is published: %t, and goes with its Secret: %t; want both %t", published, deleted, tt.victims)
			}
			if len(recorder.Events) == 0 {
				t.Error("nobody was told")
			}
		})
	}
}

// holdsUser tells whether a plan has the victim's user.
func holdsUser(sets []any) bool {
	return slices.ContainsFunc(sets, func(set any) bool {
		return slices.ContainsFunc(set.(*binding.Set).Bindings, func(b *binding.Binding) bool { return b.Username == stolen })
	})
}
