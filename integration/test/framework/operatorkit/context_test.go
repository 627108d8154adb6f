//go:build k8srequired

package operatorkit

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/operatorkit/controllercontext"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// This file is the recipe for operators that use operatorkit's InitCtx. Their resources find a value in the context, and
// many tell each other through it what they found out. None of them has to change. New ones need no context: they are
// resource.Typed[*controllercontext.Context], and resource.Scope hands them the same value.

// prepare is for controller.Config.Prepare. It calls the operator's InitCtx, which stays as it is, and makes of the value
// that this puts into the context the scope of the pass, which all resources share. In a deletion the slice runs backwards:
// what a resource then needs to know from one that stands before it in the slice, prepare has to find out.
func prepare(ctx context.Context, cm *corev1.ConfigMap) (controller.Plan, error) {
	ctx, err := controllercontext.InitCtx(ctx, cm)
	if err != nil {
		return controller.Plan{}, err
	}
	shared, err := controllercontext.FromContext(ctx)
	if err != nil {
		return controller.Plan{}, err
	}
	if cm.DeletionTimestamp != nil {
		return controller.Plan{Delete: []any{shared}}, nil
	}
	return controller.Plan{Ensure: []any{shared}}, nil
}

// inContext is the middleware that puts the scope into the context of each call, where the resources look for it. What a
// resource writes there goes back into the scope, for those that come after it.
var inContext = resource.Around(func(ctx context.Context, c resource.Call) error {
	shared, err := resource.Scope[*controllercontext.Context](ctx, nil)
	if err != nil {
		return err
	}
	ctx = controllercontext.NewContext(ctx, *shared)
	own, err := controllercontext.FromContext(ctx)
	if err != nil {
		return err
	}
	defer func() { *shared = *own }()
	return c.Run(ctx)
})

// TestInitCtx shows that resources find what InitCtx knows of their object, and what resources before them found out.
func TestInitCtx(t *testing.T) {
	t.Parallel()
	w := newTenants(t)
	slice := resource.Wrap([]resource.Interface{w.serviceAccount(), w.roleBinding()}, inContext)
	w.run(controller.Config[*corev1.ConfigMap]{Prepare: prepare, Resources: slice, Workers: 8})

	w.Make(tenant("tea", "tea-registry", "view"), tenant("coffee", "coffee-registry", "edit"))
	w.become(
		"ServiceAccount coffee pulls with coffee-registry", // from InitCtx
		"ServiceAccount tea pulls with tea-registry",
		"RoleBinding coffee-edit gives edit to coffee", // from the resource before
		"RoleBinding tea-view gives view to tea",
	)
}

// TestInitCtxAnew shows that what resources tell each other ends with the pass.
func TestInitCtxAnew(t *testing.T) {
	t.Parallel()
	w := newTenants(t)
	slice := resource.Wrap([]resource.Interface{w.serviceAccount(), w.roleBinding()}, inContext)
	w.run(controller.Config[*corev1.ConfigMap]{Prepare: prepare, Resources: slice})
	w.Make(tenant("tea", "", "view"))
	w.become("ServiceAccount tea pulls with nothing", "RoleBinding tea-view gives view to tea")

	// An account that is being deleted cannot be bound to. The resource that keeps it cancels itself and tells no name, and
	// the next one finds none and cancels itself too.
	w.hold("tea")
	w.Remove(inNamespace(w, account("tea")))
	w.AtLeast(2, "passes without an account", func() int { return len(w.log.lines(t, "tenant `tea` has no service account yet")) })
	w.release("tea")
	w.become("ServiceAccount tea pulls with nothing", "RoleBinding tea-view gives view to tea")
	if got := w.api.count(http.MethodDelete); got > 0 {
		t.Errorf("%d deletions by resources, want none", got)
	}
}
