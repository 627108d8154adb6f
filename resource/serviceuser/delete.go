package serviceuser

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/log"

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
	err := users.DeleteUser(ctx, b.Ref, b.Username)
	if errors.Is(err, aiven.ErrNotFound) {
		return nil
	}
	if err == nil {
		log.FromContext(ctx).Info("user deleted", "user", b.Username, "service", b.Ref.String())
	}
	return err
}
