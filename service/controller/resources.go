// Package controller holds what is particular to keysmith's two controllers: the slice of resources, and for each kind of object how
// it becomes a plan and how outcomes become its status.
package controller

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/resource/kafkaacl"
	"github.com/keysmith-io/keysmith/resource/opensearchacl"
	"github.com/keysmith-io/keysmith/resource/renewal"
	"github.com/keysmith-io/keysmith/resource/secret"
	"github.com/keysmith-io/keysmith/resource/serviceuser"
	"github.com/keysmith-io/keysmith/resource/valkeyuser"
)

// Names of the controllers; each names a finalizer.
const (
	ApplicationName = "keysmith-application"
	SecretName      = "keysmith-secret"
)

// Services is the part of the Aiven API that the slice uses, and the controllers themselves.
type Services interface {
	Aiven
	serviceuser.Users
	kafkaacl.ACLs
	opensearchacl.ACLs
	valkeyuser.Users
	secret.Services
	renewal.Users
}

// Resources is the ordered slice: the order in which credentials are made, and backwards the one in which they are taken back.
func Resources(client Services, publish *secret.Resource) []resource.Interface {
	set := resource.Scope[*binding.Set]
	return []resource.Interface{
		resource.Adapt(serviceuser.New(client), set),
		resource.Adapt(kafkaacl.New(client), set),
		resource.Adapt(opensearchacl.New(client), set),
		resource.Adapt(valkeyuser.New(client), set),
		resource.Adapt(publish, set),
		resource.Adapt(renewal.New(client), set),
	}
}

// Aiven is the part of the Aiven API that the controllers use themselves.
type Aiven interface {
	Service(ctx context.Context, ref aiven.Ref) (*aiven.Service, error)
	Invalidate(ref aiven.Ref)
	opensearchacl.Announcer
}
