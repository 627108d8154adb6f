// Package serviceuser makes the users of Kafka and OpenSearch services and takes them away again. What it needs to know of creating
// users without losing one serves valkeyuser too.
package serviceuser

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/aiven"
)

// Name is the resource's name in logs and metrics.
const Name = "serviceuser"

// Users is the part of the Aiven API that this resource uses.
type Users interface {
	Service(ctx context.Context, ref aiven.Ref) (*aiven.Service, error)
	User(ctx context.Context, ref aiven.Ref, name string) (*aiven.User, error)
	CreateUser(ctx context.Context, ref aiven.Ref, name string, access *aiven.AccessControl) (*aiven.User, error)
	DeleteUser(ctx context.Context, ref aiven.Ref, name string) error
}

// Resource ensures the users of Kafka and OpenSearch bindings.
type Resource struct {
	users Users
}

// New makes the resource.
func New(users Users) *Resource { return &Resource{users: users} }

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return Name }
