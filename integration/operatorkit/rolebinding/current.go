package rolebinding

import (
	"context"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/resourcecanceledcontext"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keysmith-io/keysmith/integration/operatorkit/controllercontext"
	"github.com/keysmith-io/keysmith/integration/operatorkit/key"
)

// GetCurrentState returns the tenant's RoleBindings as they are, a []*rbacv1.RoleBinding. It cancels the resource as long
// as there is no ServiceAccount to bind to.
func (r *Resource) GetCurrentState(ctx context.Context, obj interface{}) (interface{}, error) {
	cm, err := key.ToConfigMap(obj)
	if err != nil {
		return nil, microerror.Mask(err)
	}
	cc, err := controllercontext.FromContext(ctx)
	if err != nil {
		return nil, microerror.Mask(err)
	}

	if !key.IsDeleted(cm) && cc.Status.ServiceAccount == "" {
		r.logger.Debugf(ctx, "tenant %#q has no service account yet", cm.Name)
		r.logger.Debugf(ctx, "canceling resource")
		resourcecanceledcontext.SetCanceled(ctx)

		return nil, nil
	}

	list, err := r.k8sClient.RbacV1().RoleBindings(cm.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(key.Labels(cm)).String(),
	})
	if err != nil {
		return nil, microerror.Mask(err)
	}

	var roleBindings []*rbacv1.RoleBinding
	for i := range list.Items {
		roleBindings = append(roleBindings, &list.Items[i])
	}

	return roleBindings, nil
}
