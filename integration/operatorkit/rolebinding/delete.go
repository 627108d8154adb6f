package rolebinding

import (
	"context"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/operatorkit/v7/pkg/resource/crud"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplyDeleteChange deletes RoleBindings: of roles that the tenant lost, or of a tenant that is removed.
func (r *Resource) ApplyDeleteChange(ctx context.Context, obj, deleteChange interface{}) error {
	roleBindings, err := toRoleBindings(deleteChange)
	if err != nil {
		return microerror.Mask(err)
	}

	for _, rb := range roleBindings {
		r.logger.Debugf(ctx, "deleting role binding %#q", rb.Name)

		err := r.k8sClient.RbacV1().RoleBindings(rb.Namespace).Delete(ctx, rb.Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			// Fall through.
		} else if err != nil {
			return microerror.Mask(err)
		}

		r.logger.Debugf(ctx, "deleted role binding %#q", rb.Name)
	}

	return nil
}

// NewDeletePatch returns that all RoleBindings have to be deleted.
func (r *Resource) NewDeletePatch(ctx context.Context, obj, currentState, desiredState interface{}) (*crud.Patch, error) {
	current, err := toRoleBindings(currentState)
	if err != nil {
		return nil, microerror.Mask(err)
	}

	patch := crud.NewPatch()
	if len(current) > 0 {
		patch.SetDeleteChange(current)
	}

	return patch, nil
}

func newDeleteChange(current, desired []*rbacv1.RoleBinding) []*rbacv1.RoleBinding {
	var change []*rbacv1.RoleBinding
	for _, c := range current {
		if findByName(desired, c.Name) == nil {
			change = append(change, c)
		}
	}

	return change
}
