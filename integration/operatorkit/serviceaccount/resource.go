// Package serviceaccount is a simple resource: it keeps the ServiceAccount of a tenant, and holds the tenant until its
// ServiceAccount is gone.
//
// It is written for operatorkit. Nothing in it knows the framework that it runs on.
package serviceaccount

import (
	"github.com/giantswarm/microerror"
	"github.com/giantswarm/micrologger"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operatorkit/key"
)

const (
	// Name is the identifier of the resource.
	Name = "serviceaccount"
)

// Config is what the resource needs. All of it is required.
type Config struct {
	CtrlClient client.Client
	Logger     micrologger.Logger
}

// Resource implements the serviceaccount resource.
type Resource struct {
	ctrlClient client.Client
	logger     micrologger.Logger
}

// New returns the resource. The error matches IsInvalidConfig if the config is not complete.
func New(config Config) (*Resource, error) {
	if config.CtrlClient == nil {
		return nil, microerror.Maskf(invalidConfigError, "%T.CtrlClient must not be empty", config)
	}
	if config.Logger == nil {
		return nil, microerror.Maskf(invalidConfigError, "%T.Logger must not be empty", config)
	}

	r := &Resource{
		ctrlClient: config.CtrlClient,
		logger:     config.Logger,
	}

	return r, nil
}

// Name returns the identifier of the resource.
func (r *Resource) Name() string {
	return Name
}

func newServiceAccount(cm corev1.ConfigMap, pullSecret string) *corev1.ServiceAccount {
	sa := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{
			Name:      key.ServiceAccountName(cm),
			Namespace: cm.GetNamespace(),
			Labels:    key.Labels(cm),
		},
	}
	if pullSecret != "" {
		sa.ImagePullSecrets = []corev1.LocalObjectReference{{Name: pullSecret}}
	}

	return sa
}
