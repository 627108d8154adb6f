package serviceuser

import (
	"context"
	"errors"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// EnsureDeleted makes the users gone.
func (r *Resource) EnsureDeleted(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		return Delete(ctx, r.users, b)
	}, binding.Kafka, binding.OpenSearch)
}

// Delete makes the user of a binding gone. It is gone too when its service or project is.
func Delete(ctx context.Context, users interface {
	DeleteUser(ctx context.Context, ref aiven.Ref, name string) error
}, b *binding.Binding) error {
	if b.Ref.Service == "" {
		return nil // there is no such service any more
	}
	if err := users.DeleteUser(ctx, b.Ref, b.Username); err != nil && !errors.Is(err, aiven.ErrNotFound) {
		return err
	}
	return nil
}
