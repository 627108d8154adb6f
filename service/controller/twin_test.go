package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// The earlier operator gave the users of an application one name on all Valkey services: that one of them is recorded says nothing of the other.
func TestUsersOfOneNameOnTwoServicesAreTwo(t *testing.T) {
	const username = "cart-r-abc"
	valkey := func(instance, secret string) v1.Binding {
		return v1.Binding{
			Kind: "valkey", Instance: instance, Project: settings.Project, Service: "valkey-shop-" + instance, SecretName: secret,
			Username: username, State: StateReady,
		}
	}
	tests := map[string]struct {
		records []v1.Binding
		want    []string // services whose user goes with Secret "creds", which records one on instance b
	}{
		"the other one is in another Secret": {[]v1.Binding{valkey("a", "other")}, []string{"valkey-shop-b"}},
		"the other one is in this Secret":    {[]v1.Binding{valkey("a", "creds")}, []string{"valkey-shop-a", "valkey-shop-b"}},
		"it is in another Secret":            {[]v1.Binding{valkey("b", "other")}, nil}, // this one is a copy
		"it is in this Secret":               {[]v1.Binding{valkey("b", "creds")}, []string{"valkey-shop-b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			object := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Status: v1.AivenApplicationStatus{Bindings: tt.records}}
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "creds", DeletionTimestamp: new(metav1.NewTime(now)), Finalizers: []string{key.FinalizerAivenator},
				Labels: map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"},
				Annotations: map[string]string{
					key.ValkeyUser("b"): username, key.ValkeyService("b"): "valkey-shop-b", key.AnnotationValkeyProject: settings.Project,
				},
			}}
			c := fake.NewClientBuilder().WithScheme(small()).WithIndex(&v1.AivenApplication{}, UserIndex, Users).WithIndex(&corev1.Secret{}, UserIndex, Users).WithObjects(object, s).Build()
			deletion := &Secret{
				client: c, locator: &locator{client: c, aiven: noAiven{}}, events: events.NewFakeRecorder(10), settings: settings,
				incomplete: prometheus.NewCounter(prometheus.CounterOpts{}),
			}
			plan, err := deletion.Prepare(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range plan.Delete[0].(*binding.Set).Bindings {
				got = append(got, b.Ref.Service)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("services (-want +got):\n%s", diff)
			}
		})
	}
}
