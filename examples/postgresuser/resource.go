// Package postgresuser is what a new kind of service takes, shown for PostgreSQL. It is an example, and no part of the operator: each file
// holds what would go into one package of the operator.
package postgresuser

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/resource/serviceuser"
)

// Resource ensures the users of PostgreSQL bindings.
type Resource struct{ users serviceuser.Users }

// New makes the resource.
func New(users serviceuser.Users) *Resource { return &Resource{users: users} }

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return "postgresuser" }

// EnsureCreated makes the users exist, and hands their credentials on in Binding.User.
func (r *Resource) EnsureCreated(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, r.Name(), func(ctx context.Context, b *binding.Binding) error {
		return serviceuser.Ensure(ctx, r.users, b, nil)
	}, Kind)
}

// EnsureDeleted makes the users gone.
func (r *Resource) EnsureDeleted(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, r.Name(), func(ctx context.Context, b *binding.Binding) error {
		return serviceuser.Delete(ctx, r.users, b)
	}, Kind)
}
