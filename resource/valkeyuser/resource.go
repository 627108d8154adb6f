// Package valkeyuser makes the users of Valkey services, whose rights are part of the user, and takes them away again.
package valkeyuser

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/resource/serviceuser"
)

// Name is the resource's name in logs and metrics.
const Name = "valkeyuser"

// Users is the part of the Aiven API that this resource uses.
type Users interface {
	serviceuser.Users
	SetAccessControl(ctx context.Context, ref aiven.Ref, name string, access aiven.AccessControl) error
}

// Resource ensures the users of Valkey bindings.
type Resource struct {
	users Users
}

// New makes the resource.
func New(users Users) *Resource { return &Resource{users: users} }

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return Name }

// EnsureDeleted makes the users gone, and their rights with them.
func (r *Resource) EnsureDeleted(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		return serviceuser.Delete(ctx, r.users, b)
	}, binding.Valkey)
}
