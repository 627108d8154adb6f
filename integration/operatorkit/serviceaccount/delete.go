package serviceaccount

import (
	"context"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/finalizerskeptcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/resourcecanceledcontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operatorkit/key"
)

// EnsureDeleted ensures that the tenant's ServiceAccount is deleted. It keeps the finalizer until it is gone.
func (r *Resource) EnsureDeleted(ctx context.Context, obj interface{}) error {
	cm, err := key.ToConfigMap(obj)
	if err != nil {
		return microerror.Mask(err)
	}

	sa := newServiceAccount(cm, "")

	r.logger.Debugf(ctx, "deleting service account %#q", sa.Name)

	err = r.ctrlClient.Delete(ctx, sa)
	if err != nil && !apierrors.IsNotFound(err) {
		return microerror.Mask(err)
	}

	err = r.ctrlClient.Get(ctx, client.ObjectKeyFromObject(sa), sa)
	if apierrors.IsNotFound(err) {
		r.logger.Debugf(ctx, "deleted service account %#q", sa.Name)

		return nil
	} else if err != nil {
		return microerror.Mask(err)
	}

	r.logger.Debugf(ctx, "service account %#q is not gone yet", sa.Name)
	r.logger.Debugf(ctx, "keeping finalizers")
	finalizerskeptcontext.SetKept(ctx)
	r.logger.Debugf(ctx, "canceling resource")
	resourcecanceledcontext.SetCanceled(ctx)

	return nil
}
