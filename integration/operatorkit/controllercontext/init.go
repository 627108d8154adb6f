package controllercontext

import (
	"context"

	"github.com/giantswarm/microerror"

	"github.com/keysmith-io/keysmith/integration/operatorkit/key"
)

// InitCtx is for operatorkit's controller.Config.InitCtx: it returns a context that carries what is known of a tenant before
// the first resource runs.
func InitCtx(ctx context.Context, obj interface{}) (context.Context, error) {
	cm, err := key.ToConfigMap(obj)
	if err != nil {
		return nil, microerror.Mask(err)
	}

	c := Context{
		Spec: ContextSpec{
			PullSecret: key.PullSecret(cm),
		},
	}

	return NewContext(ctx, c), nil
}
