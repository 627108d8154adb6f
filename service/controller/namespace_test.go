package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// unreachable is an Aiven that counts the calls it does not answer.
type unreachable struct{ calls int }

func (u *unreachable) Service(context.Context, aiven.Ref) (*aiven.Service, error) {
	u.calls++
	return nil, errors.New("unreachable")
}

func (u *unreachable) Invalidate(aiven.Ref) { u.calls++ }

func TestNothingIsMadeWhereNothingCanStay(t *testing.T) {
	gone := metav1.NewTime(time.Now())
	namespace := func(deleted *metav1.Time) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: deleted, Finalizers: []string{"kubernetes"}}}
	}
	tests := map[string]struct {
		namespace *corev1.Namespace
		edit      func(a *v1.AivenApplication)
		reason    string
		plan      bool // there is something to run
	}{
		"it waits for a namespace to go":          {namespace: namespace(&gone), reason: "NamespaceTerminating"},
		"it deletes an application that expired":  {namespace: namespace(nil), edit: func(a *v1.AivenApplication) { a.Spec.ExpiresAt = "2001-01-01T00:00:00Z" }, reason: "Expired"},
		"it takes nothing back that was not made": {namespace: namespace(nil), edit: func(a *v1.AivenApplication) { a.DeletionTimestamp = &gone }},
		"it refuses a pool without a call":        {namespace: namespace(nil), edit: func(a *v1.AivenApplication) { a.Spec.Kafka.Pool = "other" }, plan: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := runtime.NewScheme()
			if err := errors.Join(scheme.AddToScheme(s), v1.AddToScheme(s)); err != nil {
				t.Fatal(err)
			}
			object := app()
			object.Finalizers = []string{"operatorkit.giantswarm.io/test"}
			if tt.edit != nil {
				tt.edit(object)
			}
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(tt.namespace, object).Build()
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			a, _ := newApplication(clock.RealClock{})
			api := &unreachable{}
			a.client, a.server, a.janitor = c, c, func() {}
			a.locator = &locator{client: c, aiven: api}
			plan, err := a.Prepare(t.Context(), object)
			if got := binding.ReasonOf(err); got != tt.reason {
				t.Errorf("got %q (%v), want %q", got, err, tt.reason)
			}
			if some := len(plan.Ensure)+len(plan.Delete) > 0; some != tt.plan {
				t.Errorf("there is something to run: %t, want %t", some, tt.plan)
			}
			if api.calls > 0 {
				t.Errorf("Aiven was called %d times", api.calls)
			}
		})
	}
}
