// Package resource is the contract between a controller and the steps it runs.
//
// A step is a resource: it has a name, makes something so (EnsureCreated) and undoes it (EnsureDeleted). The
// contract is operatorkit's own, so that every resource written for operatorkit runs here, and those written here
// run there. What this package adds:
//
//   - Typed resources, which take what they work on instead of an untyped object: Typed, Adapt, Object, Scope.
//   - Outcomes: a resource returns one error, and the error says what happens next: OutcomeOf, RequeueAfter.
//   - Middleware, functions from resource to resource: Wrap, Around.
//
// A typed resource that works on ConfigMaps and waits for a key:
//
//	func (r *Resource) EnsureCreated(ctx context.Context, cm *corev1.ConfigMap) error {
//		if cm.Data["host"] == "" {
//			return resource.RequeueAfter(10*time.Second, "ConfigMap %s names no host yet", cm.Name)
//		}
//		...
//	}
//
//	var r resource.Interface = resource.Adapt(&Resource{}, resource.Object[*corev1.ConfigMap])
package resource

import (
	"context"
	"fmt"

	operatorkit "github.com/giantswarm/operatorkit/v7/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Interface is operatorkit's resource contract. Both methods are idempotent, and may run for several objects at
// the same time: a resource holds no state of a reconcile.
type Interface = operatorkit.Interface

// Typed is the same contract without the cast: T is what the resource works on, the object itself or a scope.
type Typed[T any] interface {
	// EnsureCreated reaches the wanted state. Its error decides what happens next, see OutcomeOf.
	EnsureCreated(ctx context.Context, in T) error
	// EnsureDeleted undoes EnsureCreated. What is gone already is no error.
	EnsureDeleted(ctx context.Context, in T) error
	// Name names the resource in logs and metrics.
	Name() string
}

// Source finds what a typed resource works on: in the object that is reconciled, or in the context.
type Source[T any] func(ctx context.Context, obj any) (T, error)

// Adapt makes a resource of a typed one. An error of from is returned as it is, and the resource does not run.
func Adapt[T any](r Typed[T], from Source[T]) Interface {
	return adapted[T]{typed: r, from: from}
}

type adapted[T any] struct {
	typed Typed[T]
	from  Source[T]
}

func (a adapted[T]) EnsureCreated(ctx context.Context, obj any) error {
	in, err := a.from(ctx, obj)
	if err != nil {
		return err
	}
	return a.typed.EnsureCreated(ctx, in)
}

func (a adapted[T]) EnsureDeleted(ctx context.Context, obj any) error {
	in, err := a.from(ctx, obj)
	if err != nil {
		return err
	}
	return a.typed.EnsureDeleted(ctx, in)
}

func (a adapted[T]) Name() string { return a.typed.Name() }

// Object is the Source of resources that work on the object itself. It fails where the object is of another type.
func Object[T client.Object](_ context.Context, obj any) (T, error) {
	in, ok := obj.(T)
	if !ok {
		return in, fmt.Errorf("read object: got %T, want %T", obj, in)
	}
	return in, nil
}

type scopeKey struct{}

// WithScope returns a context that carries s, the state which the resources of one run share. It replaces a scope
// that ctx carries already.
func WithScope[T any](ctx context.Context, s T) context.Context {
	return context.WithValue(ctx, scopeKey{}, any(s))
}

// Scope is the Source of resources that work on the shared state which WithScope stored. It fails where there is
// none, or one of another type.
func Scope[T any](ctx context.Context, _ any) (T, error) {
	value := ctx.Value(scopeKey{})
	s, ok := value.(T)
	if !ok {
		return s, fmt.Errorf("read scope: got %T, want %T", value, s)
	}
	return s, nil
}
