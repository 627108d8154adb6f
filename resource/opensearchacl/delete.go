package opensearchacl

import (
	"context"
	"errors"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// EnsureDeleted removes every rule of the user.
func (r *Resource) EnsureDeleted(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		if b.Ref.Service == "" {
			return nil
		}
		if err := r.acls.RevokeOpenSearch(ctx, b.Ref, b.Username); err != nil && !errors.Is(err, aiven.ErrNotFound) {
			return err
		}
		return nil
	}, binding.OpenSearch)
}
