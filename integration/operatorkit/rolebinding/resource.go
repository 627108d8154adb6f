// Package rolebinding is a resource on top of operatorkit's pkg/resource/crud: it keeps one RoleBinding for each role of
// a tenant.
//
// It is written for operatorkit. Nothing in it knows the framework that it runs on.
package rolebinding

import (
	"reflect"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/micrologger"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// Name is the identifier of the resource.
	Name = "rolebinding"
)

// Config is what the resource needs. All of it is required.
type Config struct {
	K8sClient kubernetes.Interface
	Logger    micrologger.Logger
}

// Resource implements the rolebinding resource.
type Resource struct {
	k8sClient kubernetes.Interface
	logger    micrologger.Logger
}

// New returns the resource, for crud.NewResource. The error matches IsInvalidConfig if the config is not complete.
func New(config Config) (*Resource, error) {
	if config.K8sClient == nil {
		return nil, microerror.Maskf(invalidConfigError, "%T.K8sClient must not be empty", config)
	}
	if config.Logger == nil {
		return nil, microerror.Maskf(invalidConfigError, "%T.Logger must not be empty", config)
	}

	r := &Resource{
		k8sClient: config.K8sClient,
		logger:    config.Logger,
	}

	return r, nil
}

// Name returns the identifier of the resource.
func (r *Resource) Name() string {
	return Name
}

func findByName(roleBindings []*rbacv1.RoleBinding, name string) *rbacv1.RoleBinding {
	for _, rb := range roleBindings {
		if rb.Name == name {
			return rb
		}
	}

	return nil
}

func isModified(current, desired *rbacv1.RoleBinding) bool {
	return !reflect.DeepEqual(current.Subjects, desired.Subjects)
}

func toRoleBindings(v interface{}) ([]*rbacv1.RoleBinding, error) {
	if v == nil {
		return nil, nil
	}

	roleBindings, ok := v.([]*rbacv1.RoleBinding)
	if !ok {
		return nil, microerror.Maskf(wrongTypeError, "expected '%T', got '%T'", roleBindings, v)
	}

	return roleBindings, nil
}
