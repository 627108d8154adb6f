package controller

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// The form of a Kafka user's name is fixed and holds a checksum of 32 bits, for which a name can be found within seconds: all but the suffix of
// this application's users is that of foo/abc's. Its Secret may record one of those; it does not get it, and does not take it back.
func TestACheckSumThatIsMadeToFitOpensNothing(t *testing.T) {
	victim := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: "foo", Name: "abc"}}
	username := key.Identity{Cluster: "test", Namespace: "foo", Application: "abc", Project: "dev", Service: "kafka"}.Kafka()
	victim.Status.Bindings = []v1.Binding{{Kind: "kafka", Project: "dev", Service: "kafka", SecretName: "creds", Username: username, State: StateReady}}
	thief := &v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: "teamfoo", Name: "abc---------------------------ajbv9nd"},
		Spec:       v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "dev", SecretName: "creds"}},
	}
	if !key.IsKafkaUser(username, thief.Namespace, thief.Name) {
		t.Fatalf("the checksum does not fit: this shows nothing")
	}
	s := secretOf(username)
	s.Namespace, s.Labels = thief.Namespace, map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: thief.Name}
	s.Annotations[key.AnnotationOwner] = key.Owner(thief.Namespace, s.Name, thief.Name)
	c := fake.NewClientBuilder().WithScheme(small()).WithStatusSubresource(thief).
		WithObjects(victim, thief, s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: thief.Namespace}}).Build()
	clk := clocktesting.NewFakePassiveClock(now)
	a := &Application{
		client: c, server: c, locator: &locator{client: c, aiven: noAiven{}}, events: events.NewFakeRecorder(100), clock: clk,
		settings: settings, janitor: func() {}, metrics: newMetrics(prometheus.NewRegistry(), clk),
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(thief), thief); err != nil {
		t.Fatal(err)
	}
	plan, err := a.Prepare(t.Context(), thief)
	if err != nil {
		t.Fatal(err)
	}
	s.DeletionTimestamp = new(metav1.NewTime(now))
	deletion, err := (&Secret{client: c, locator: a.locator, events: a.events, settings: settings, incomplete: prometheus.NewCounter(prometheus.CounterOpts{})}).Prepare(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for what, sets := range map[string][]any{"published": plan.Ensure, "taken back": plan.Delete, "taken back with its Secret": deletion.Delete} {
		for _, set := range sets {
			for _, b := range set.(*binding.Set).Bindings {
				if b.Username == username {
					t.Errorf("%s is %s", username, what)
				}
			}
		}
	}
}
