package controller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/controller/controllertest"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// unreachable is an Aiven that notes the calls it does not answer.
type unreachable struct{ bed *controllertest.Bed }

func (u unreachable) Service(context.Context, aiven.Ref) (*aiven.Service, error) {
	u.bed.Note("call Aiven")
	return nil, errors.New("unreachable")
}

func (u unreachable) Invalidate(aiven.Ref) { u.bed.Note("call Aiven") }

func (unreachable) AnnounceGrant(aiven.Ref, string) {}

// step stands for the slice: it notes that there is something to run, which ends as the set says.
type step struct{ bed *controllertest.Bed }

func (s step) EnsureCreated(_ context.Context, set *binding.Set) error {
	s.bed.Note("create")
	return set.Err()
}

func (s step) EnsureDeleted(_ context.Context, set *binding.Set) error {
	s.bed.Note("delete")
	return set.Err()
}

func (step) Name() string { return "step" }

func TestNothingIsMadeWhereNothingCanStay(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	leaving := namespace.DeepCopy()
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.Now()), []string{"kubernetes"}
	expired := app()
	expired.Spec.ExpiresAt = "2001-01-01T00:00:00Z"
	strange := app()
	strange.Spec.Kafka.Pool = "other"
	const patch, patchStatus = "patch AivenApplication shop/cart", "patch status AivenApplication shop/cart"

	controllertest.Suite[*v1.AivenApplication]{
		Scheme: s,
		Config: func(b *controllertest.Bed) controller.Config[*v1.AivenApplication] {
			a := &Application{
				client: b.Client, server: b.Client, locator: &locator{client: b.Client, aiven: unreachable{b}},
				events: b.Recorder, clock: b.Clock, settings: settings, janitor: func() {}, metrics: newMetrics(b.Registry, b.Clock),
			}
			return controller.Config[*v1.AivenApplication]{
				Prepare: a.Prepare, Report: a.Report, Resources: []resource.Interface{resource.Adapt(step{b}, resource.Scope[*binding.Set])},
			}
		},
		Status: func(a *v1.AivenApplication) any { // why it is not ready
			if ready := condition(a, v1.ConditionReady); ready != nil {
				return ready.Reason
			}
			return ""
		},
	}.Run(t, map[string]controllertest.Case[*v1.AivenApplication]{
		"it waits for a namespace to go": {
			Object: app(), Given: []client.Object{leaving},
			Want: controllertest.Want{
				Outcome: resource.Waiting, After: leavingWait, Status: reasonNamespace, Journal: []string{patch, patchStatus},
			},
		},
		"it deletes an application that expired": {
			Object: expired, Given: []client.Object{namespace},
			Want: controllertest.Want{
				Outcome: resource.Waiting, After: leavingWait, Status: reasonExpired,
				Journal: []string{patch, "delete AivenApplication shop/cart", patchStatus},
			},
		},
		"it lets an application go that expired": {
			Object: expired, Given: []client.Object{namespace}, Passes: 2,
			Want: controllertest.Want{Gone: true},
		},
		"it takes nothing back that was not made": {
			Object: app(), Given: []client.Object{namespace}, Deleted: true,
			Want: controllertest.Want{Gone: true, Journal: []string{patch}},
		},
		"it refuses a pool without a call": {
			Object: strange, Given: []client.Object{namespace},
			Want: controllertest.Want{
				Outcome: resource.Terminal, Error: "pool", Status: binding.ReasonPoolNotAllowed,
				Journal: []string{patch, "create", patchStatus},
			},
		},
	})
}
