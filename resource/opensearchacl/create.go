package opensearchacl

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// EnsureCreated makes the user's rules those of its access level; a lowered level replaces the old rules.
func (r *Resource) EnsureCreated(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		if b.IsOutgoing() && b.User == nil {
			return nil
		}
		service, err := r.acls.Service(ctx, b.Ref)
		if err != nil {
			return err
		}
		wanted := rules(b)
		if service.OpenSearchACL.Grants(b.Username, wanted) {
			return nil
		}
		if err := r.acls.GrantOpenSearch(ctx, b.Ref, b.Username, wanted); err != nil {
			return err
		}
		b.Rights = append(b.Rights, "access is "+string(b.Access))
		log.FromContext(ctx).Info("rights changed", "user", b.Username, "service", b.Ref.String(), "access", b.Access)
		return nil
	}, binding.OpenSearch)
}

// rules are what an access level means: the same permission on the indexes that start with "_" and on all.
func rules(b *binding.Binding) []aiven.OpenSearchRule {
	return []aiven.OpenSearchRule{
		{Index: "_*", Permission: string(b.Access)},
		{Index: "*", Permission: string(b.Access)},
	}
}
