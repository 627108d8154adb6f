package rolebinding

import (
	"context"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/operatorkit/v7/pkg/resource/crud"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplyUpdateChange updates the RoleBindings that NewUpdatePatch found to be modified.
func (r *Resource) ApplyUpdateChange(ctx context.Context, obj, updateChange interface{}) error {
	roleBindings, err := toRoleBindings(updateChange)
	if err != nil {
		return microerror.Mask(err)
	}

	for _, rb := range roleBindings {
		r.logger.Debugf(ctx, "updating role binding %#q", rb.Name)

		_, err := r.k8sClient.RbacV1().RoleBindings(rb.Namespace).Update(ctx, rb, metav1.UpdateOptions{})
		if err != nil {
			return microerror.Mask(err)
		}

		r.logger.Debugf(ctx, "updated role binding %#q", rb.Name)
	}

	return nil
}

// NewUpdatePatch returns what has to be created, updated and deleted for a tenant that exists.
func (r *Resource) NewUpdatePatch(ctx context.Context, obj, currentState, desiredState interface{}) (*crud.Patch, error) {
	current, err := toRoleBindings(currentState)
	if err != nil {
		return nil, microerror.Mask(err)
	}
	desired, err := toRoleBindings(desiredState)
	if err != nil {
		return nil, microerror.Mask(err)
	}

	patch := crud.NewPatch()
	if change := newCreateChange(current, desired); len(change) > 0 {
		patch.SetCreateChange(change)
	}
	if change := newDeleteChange(current, desired); len(change) > 0 {
		patch.SetDeleteChange(change)
	}
	if change := newUpdateChange(current, desired); len(change) > 0 {
		patch.SetUpdateChange(change)
	}

	return patch, nil
}

func newUpdateChange(current, desired []*rbacv1.RoleBinding) []*rbacv1.RoleBinding {
	var change []*rbacv1.RoleBinding
	for _, d := range desired {
		c := findByName(current, d.Name)
		if c != nil && isModified(c, d) {
			change = append(change, d)
		}
	}

	return change
}
