package rolebinding

import (
	"context"

	"github.com/giantswarm/microerror"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplyCreateChange creates the RoleBindings that NewUpdatePatch found to be missing.
func (r *Resource) ApplyCreateChange(ctx context.Context, obj, createChange interface{}) error {
	roleBindings, err := toRoleBindings(createChange)
	if err != nil {
		return microerror.Mask(err)
	}

	for _, rb := range roleBindings {
		r.logger.Debugf(ctx, "creating role binding %#q", rb.Name)

		_, err := r.k8sClient.RbacV1().RoleBindings(rb.Namespace).Create(ctx, rb, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			// Fall through.
		} else if err != nil {
			return microerror.Mask(err)
		}

		r.logger.Debugf(ctx, "created role binding %#q", rb.Name)
	}

	return nil
}

func newCreateChange(current, desired []*rbacv1.RoleBinding) []*rbacv1.RoleBinding {
	var change []*rbacv1.RoleBinding
	for _, d := range desired {
		if findByName(current, d.Name) == nil {
			change = append(change, d)
		}
	}

	return change
}
