package serviceaccount

import (
	"context"
	"reflect"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/resourcecanceledcontext"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operatorkit/controllercontext"
	"github.com/keysmith-io/keysmith/integration/operatorkit/key"
)

// EnsureCreated ensures that the tenant's ServiceAccount exists and is as it should be. It tells its name to the
// resources that come after.
func (r *Resource) EnsureCreated(ctx context.Context, obj interface{}) error {
	cm, err := key.ToConfigMap(obj)
	if err != nil {
		return microerror.Mask(err)
	}
	cc, err := controllercontext.FromContext(ctx)
	if err != nil {
		return microerror.Mask(err)
	}

	desired := newServiceAccount(cm, cc.Spec.PullSecret)

	current := &corev1.ServiceAccount{}
	err = r.ctrlClient.Get(ctx, client.ObjectKeyFromObject(desired), current)
	if apierrors.IsNotFound(err) {
		r.logger.Debugf(ctx, "creating service account %#q", desired.Name)

		err := r.ctrlClient.Create(ctx, desired)
		if err != nil {
			return microerror.Mask(err)
		}

		r.logger.Debugf(ctx, "created service account %#q", desired.Name)
		cc.Status.ServiceAccount = desired.Name

		return nil
	} else if err != nil {
		return microerror.Mask(err)
	}

	// Somebody deleted it, and somebody else holds it. It is created anew when it is gone.
	if current.GetDeletionTimestamp() != nil {
		r.logger.Debugf(ctx, "service account %#q is being deleted", desired.Name)
		r.logger.Debugf(ctx, "canceling resource")
		resourcecanceledcontext.SetCanceled(ctx)

		return nil
	}

	if !reflect.DeepEqual(current.Labels, desired.Labels) || !reflect.DeepEqual(current.ImagePullSecrets, desired.ImagePullSecrets) {
		r.logger.Debugf(ctx, "updating service account %#q", desired.Name)

		current.Labels = desired.Labels
		current.ImagePullSecrets = desired.ImagePullSecrets
		err := r.ctrlClient.Update(ctx, current)
		if err != nil {
			return microerror.Mask(err)
		}

		r.logger.Debugf(ctx, "updated service account %#q", desired.Name)
	}

	cc.Status.ServiceAccount = desired.Name

	return nil
}
