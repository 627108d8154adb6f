// Package controllercontext carries through the context what the resources of one reconciliation share. The operator's
// InitCtx puts it there.
//
// It is written for operatorkit. Nothing in it knows the framework that it runs on.
package controllercontext

import (
	"context"

	"github.com/giantswarm/microerror"
)

type contextKey string

const controllerKey contextKey = "controller"

// Context is what the resources of one reconciliation share.
type Context struct {
	Spec   ContextSpec
	Status ContextStatus
}

// ContextSpec is known before the first resource runs.
type ContextSpec struct {
	// PullSecret names the Secret that images are pulled with. Empty if there is none.
	PullSecret string
}

// ContextStatus is filled by resources, for those that come after them.
type ContextStatus struct {
	// ServiceAccount names the tenant's ServiceAccount. Empty as long as it does not exist.
	ServiceAccount string
}

// NewContext returns a context that carries c.
func NewContext(ctx context.Context, c Context) context.Context {
	return context.WithValue(ctx, controllerKey, &c)
}

// FromContext returns what ctx carries, for reading and for writing. The error matches IsNotFound if that is nothing.
func FromContext(ctx context.Context) (*Context, error) {
	c, ok := ctx.Value(controllerKey).(*Context)
	if !ok {
		return nil, microerror.Maskf(notFoundError, "context carries no %T", c)
	}

	return c, nil
}
