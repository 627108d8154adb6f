package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// inState is an Aiven whose services are all in one state, and have addresses or not.
type inState struct {
	state     string
	addresses bool
	forgotten int // how often what is known was to be read again
}

func (s *inState) Service(_ context.Context, ref aiven.Ref) (*aiven.Service, error) {
	service := &aiven.Service{Ref: ref, State: s.state}
	if s.addresses {
		service.Components = []aiven.Component{{Component: "valkey"}}
	}
	return service, nil
}

func (s *inState) Invalidate(aiven.Ref) { s.forgotten++ }

func (*inState) AnnounceGrant(aiven.Ref, string) {}

func TestServicesThatAreWaitedFor(t *testing.T) {
	type result struct {
		Outcome resource.Outcome
		Reason  string
		Wait    time.Duration
		Anew    bool // the service is read again
	}
	done := result{Outcome: resource.Done}
	const running = aiven.StateRunning
	tests := map[string]struct {
		object string // state of the instance's object
		aiven  inState
		want   result
	}{
		"it uses a service that runs":                      {running, inState{state: running, addresses: true}, done},
		"it uses a service that rebalances":                {running, inState{state: aiven.StateRebalancing, addresses: true}, done},
		"it uses one whose object says that it rebalances": {aiven.StateRebalancing, inState{state: running, addresses: true}, done},
		"it waits for one that is rebuilt": {
			running, inState{state: aiven.StateRebuilding, addresses: true},
			result{resource.Waiting, binding.ReasonWaiting, 15 * time.Second, true},
		},
		"it waits for one in a state that it does not know": {
			running, inState{state: "DREAMING", addresses: true},
			result{resource.Waiting, binding.ReasonWaiting, 15 * time.Second, true},
		},
		"it waits for addresses": {
			running, inState{state: running},
			result{resource.Waiting, binding.ReasonWaiting, 15 * time.Second, true},
		},
		"it seldom looks at one that is powered off": {
			running, inState{state: aiven.StatePowerOff, addresses: true},
			result{resource.Waiting, binding.ReasonPoweredOff, 5 * time.Minute, true},
		},
		"it does not ask for one whose object says that it is powered off": {
			aiven.StatePowerOff, inState{state: running, addresses: true},
			result{resource.Waiting, binding.ReasonPoweredOff, 5 * time.Minute, false},
		},
		"it does not ask for one whose object says that it is rebuilt": {
			aiven.StateRebuilding, inState{state: running, addresses: true},
			result{resource.Waiting, binding.ReasonWaiting, 5 * time.Minute, false},
		},
		"it does not ask for one whose object has no state": {
			"", inState{state: running, addresses: true},
			result{resource.Waiting, binding.ReasonWaiting, 5 * time.Minute, false},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			object := Instance(binding.Valkey)
			object.SetNamespace("shop")
			object.SetName("valkey-shop-cache")
			if err := unstructured.SetNestedField(object.Object, tt.object, "status", "state"); err != nil {
				t.Fatal(err)
			}
			l := &locator{client: cluster(object), aiven: &tt.aiven}
			b := &binding.Binding{Kind: binding.Valkey, Instance: "cache", Ref: aiven.Ref{Project: "main"}}
			_, err := l.locate(t.Context(), b, "shop")
			got := result{Outcome: resource.OutcomeOf(err), Reason: binding.ReasonOf(err), Anew: tt.aiven.forgotten > 0}
			got.Wait, _ = resource.After(err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInstanceOfAKindThatTheClusterDoesNotKnow(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			gvk := obj.GetObjectKind().GroupVersionKind()
			return fmt.Errorf("get: %w", &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}})
		},
	})
	l := &locator{client: c, aiven: &inState{}}
	_, err := l.locate(t.Context(), &binding.Binding{Kind: binding.Valkey, Instance: "cache"}, "shop")
	if resource.OutcomeOf(err) != resource.Waiting || binding.ReasonOf(err) != binding.ReasonInstanceNotFound {
		t.Errorf("got %v, want to wait for an instance", err)
	}
}

func cluster(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(objects...).Build()
}
