// Package key reads the ConfigMaps that describe tenants.
//
// It is written for operatorkit. Nothing in it knows the framework that it runs on.
package key

import (
	"strings"

	"github.com/giantswarm/microerror"
	corev1 "k8s.io/api/core/v1"
)

const (
	// LabelConfig marks the ConfigMaps that describe tenants, with the value "true". It is the operator's selector.
	LabelConfig = "tenant-operator.example.com/config"
	// LabelManagedBy marks what the operator made. Its value is ManagedBy.
	LabelManagedBy = "tenant-operator.example.com/managed-by"
	// LabelTenant names the tenant that something was made for.
	LabelTenant = "tenant-operator.example.com/tenant"

	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "tenant-operator"
)

// IsDeleted tells whether the tenant is to be removed.
func IsDeleted(cm corev1.ConfigMap) bool {
	return cm.GetDeletionTimestamp() != nil
}

// Labels returns the labels of everything that is made for the tenant.
func Labels(cm corev1.ConfigMap) map[string]string {
	return map[string]string{
		LabelManagedBy: ManagedBy,
		LabelTenant:    cm.GetName(),
	}
}

// PullSecret returns the name of the Secret that the tenant's images are pulled with, which may be empty.
func PullSecret(cm corev1.ConfigMap) string {
	return cm.Data["pullSecret"]
}

// RoleBindingName returns the name of the tenant's RoleBinding to a cluster role.
func RoleBindingName(cm corev1.ConfigMap, role string) string {
	return cm.GetName() + "-" + role
}

// Roles returns the names of the cluster roles that the tenant has.
func Roles(cm corev1.ConfigMap) []string {
	return strings.Fields(cm.Data["roles"])
}

// ServiceAccountName returns the name of the tenant's ServiceAccount.
func ServiceAccountName(cm corev1.ConfigMap) string {
	return cm.GetName()
}

// ToConfigMap casts a reconciled object. What it returns is a copy. The error matches IsWrongType if the object is
// something else than a *corev1.ConfigMap.
func ToConfigMap(obj interface{}) (corev1.ConfigMap, error) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return corev1.ConfigMap{}, microerror.Maskf(wrongTypeError, "expected '%T', got '%T'", &corev1.ConfigMap{}, obj)
	}

	return *cm.DeepCopy(), nil
}
