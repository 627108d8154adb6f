package controller

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/resource/janitor"
)

// noAiven has one service of everything, and no users.
type noAiven struct{}

func (noAiven) Service(_ context.Context, ref aiven.Ref) (*aiven.Service, error) {
	return &aiven.Service{Ref: ref, State: aiven.StateRunning, Components: []aiven.Component{{}}}, nil
}

func (noAiven) Invalidate(aiven.Ref) {}

func (noAiven) AnnounceGrant(aiven.Ref, string) {}

// An application may have been stored under any schema, and its status and Secret be edited by anybody: a pass over it plans only for users that
// can be its own, deletes it only if its time is readable and has come, and says what is wrong in texts that can be stored.
func FuzzStored(f *testing.F) {
	f.Add([]byte(`{"spec":{"kafka":{"pool":"dev","secretName":"creds"}},"status":{"bindings":[{"kind":"kafka","username":"avnadmin","state":"Deleting"}]}}`), []byte(`{}`))
	f.Add([]byte(`{"spec":{"secretName":"creds","valkey":[{"instance":"-"},{"instance":"a"},{"instance":"a"}],"expiresAt":"soon"}}`),
		[]byte(`{"valkey.aiven.nais.io/project":"main","a.valkey.aiven.nais.io/serviceUser":"cart-r-abc"}`))
	f.Add([]byte(`{"metadata":{"labels":{"aiven.nais.io/secret-generation":"x"}},"spec":{"expiresAt":"2001-01-01T00:00:00Z","openSearch":{"instance":"legacy","access":"root"}},`+
		`"status":{"synchronizedGeneration":1,"conditions":[{"type":"Ready"}],"bindings":[{},{"kind":"redis","username":"x"}]}}`), []byte(`{"keysmith.io/owner":"shop/creds cart"}`))
	f.Fuzz(func(t *testing.T, stored, annotations []byte) {
		object := &v1.AivenApplication{}
		secret := &corev1.Secret{}
		if json.Unmarshal(stored, object) != nil || json.Unmarshal(annotations, &secret.Annotations) != nil {
			t.Skip("no object")
		}
		object.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "cart", Labels: object.Labels, Annotations: object.Annotations}
		secret.Namespace, secret.Name, secret.Finalizers = "shop", "creds", []string{controller.Finalizer(SecretName)}
		janitor.Index(object)
		Instances(object)
		c := fake.NewClientBuilder().WithScheme(small()).WithIndex(&v1.AivenApplication{}, UserIndex, Users).WithIndex(&corev1.Secret{}, UserIndex, Users).WithIndex(&corev1.Pod{}, janitor.SecretIndex, janitor.Index).WithStatusSubresource(object).
			WithObjects(object, secret, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).Build()
		clk := clocktesting.NewFakePassiveClock(now)
		a := &Application{
			client: c, server: c, locator: &locator{client: c, aiven: noAiven{}}, events: events.NewFakeRecorder(1000), clock: clk,
			settings: settings, janitor: func() {}, metrics: newMetrics(prometheus.NewRegistry(), clk),
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Skip("cannot be stored")
		}
		plan, err := a.Prepare(t.Context(), object)
		expiry, unreadable := object.Spec.Expiry()
		gone := apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(object), &v1.AivenApplication{}))
		if due := unreadable == nil && expiry != nil && !now.Before(*expiry); gone != due {
			t.Errorf("deleted: %t, due: %t", gone, due)
		}
		results := []resource.Result{{Operation: resource.Create, Err: err}}
		if err == nil {
			results = nil
			ensure, remove := plans(plan)
			for _, s := range ensure {
				results = append(results, resource.Result{Scope: s, Operation: resource.Create, Err: s.Err()})
			}
			for _, s := range remove {
				results = append(results, resource.Result{Scope: s, Operation: resource.Delete, Err: s.Err()})
			}
		}
		for _, r := range results {
			set, ok := r.Scope.(*binding.Set)
			if !ok {
				continue
			}
			for _, b := range set.Bindings {
				if b.Username != "" && !b.Matches(b.Username, "shop", "cart") {
					t.Errorf("%s of %q is in a plan to %s", b.Username, set.Secret, r.Operation)
				}
			}
		}
		a.Report(object, results)
		for _, c := range object.Status.Conditions {
			if len(c.Message) > maxMessage && c.LastUpdateTime.Time.Equal(now) || c.Reason == "" && c.LastUpdateTime.Time.Equal(now) {
				t.Errorf("condition %+v", c)
			}
		}
		if _, err := json.Marshal(object.Status); err != nil {
			t.Errorf("the status cannot be stored: %v", err)
		}
	})
}

// The object of an instance is another operator's: whatever it looks like, what the cache keeps of it says the same of its state.
func FuzzStripInstance(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"aiven.io/v1alpha1","kind":"Valkey","metadata":{"name":"valkey-shop-cache","namespace":"shop"},"status":{"state":"RUNNING"}}`))
	f.Add([]byte(`{"metadata":7,"status":[{"state":{}}]}`))
	f.Add([]byte(`{"kind":null,"status":{"state":7}}`))
	f.Add([]byte(`{"apiVersion":"//","kind":"Valkey"}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		u := &unstructured.Unstructured{}
		if json.Unmarshal(stored, &u.Object) != nil {
			t.Skip("no object")
		}
		slim, err := StripInstance(u)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := slim.(*unstructured.Unstructured); !ok || state(got) != state(u) || got.GetName() != u.GetName() || got.GetKind() != u.GetKind() {
			t.Errorf("%v becomes %v", u, slim)
		}
	})
}
