package rolebinding

import (
	"context"

	"github.com/giantswarm/microerror"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/operatorkit/controllercontext"
	"github.com/keysmith-io/keysmith/integration/operatorkit/key"
)

// GetDesiredState returns the tenant's RoleBindings as they should be, a []*rbacv1.RoleBinding.
func (r *Resource) GetDesiredState(ctx context.Context, obj interface{}) (interface{}, error) {
	cm, err := key.ToConfigMap(obj)
	if err != nil {
		return nil, microerror.Mask(err)
	}
	cc, err := controllercontext.FromContext(ctx)
	if err != nil {
		return nil, microerror.Mask(err)
	}

	var roleBindings []*rbacv1.RoleBinding
	for _, role := range key.Roles(cm) {
		roleBindings = append(roleBindings, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{
				Name:      key.RoleBindingName(cm, role),
				Namespace: cm.Namespace,
				Labels:    key.Labels(cm),
			},
			RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName,
				Kind:     "ClusterRole",
				Name:     role,
			},
			Subjects: []rbacv1.Subject{
				{
					Kind:      rbacv1.ServiceAccountKind,
					Name:      cc.Status.ServiceAccount,
					Namespace: cm.Namespace,
				},
			},
		})
	}

	return roleBindings, nil
}
