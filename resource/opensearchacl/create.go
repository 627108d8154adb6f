package opensearchacl

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// EnsureCreated makes the user's rules those of its access level; a lowered level replaces the old rules.
func (r *Resource) EnsureCreated(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		service, err := r.acls.Service(ctx, b.Ref)
		if err != nil {
			return err
		}
		wanted := rules(b)
		if service.OpenSearchACL.Grants(b.Username, wanted) {
			return nil
		}
		return r.acls.GrantOpenSearch(ctx, b.Ref, b.Username, wanted)
	}, binding.OpenSearch)
}

// rules are what an access level means: the same permission on the indexes that start with "_" and on all.
func rules(b *binding.Binding) []aiven.OpenSearchRule {
	return []aiven.OpenSearchRule{
		{Index: "_*", Permission: string(b.Access)},
		{Index: "*", Permission: string(b.Access)},
	}
}
