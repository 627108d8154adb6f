package valkeyuser

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/resource/serviceuser"
)

// EnsureCreated makes the users exist with exactly the rights of their access level.
func (r *Resource) EnsureCreated(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		wanted := rights(b)
		if err := serviceuser.Ensure(ctx, r.users, b, &wanted); err != nil {
			return err
		}
		if b.User == nil || b.User.AccessControl.Equal(wanted) { // an outgoing user may be gone
			return nil
		}
		if err := r.users.SetAccessControl(ctx, b.Ref, b.Username, wanted); err != nil {
			return err
		}
		b.Rights = append(b.Rights, "access is "+string(b.Access))
		log.FromContext(ctx).Info("rights changed", "user", b.Username, "service", b.Ref.String(), "access", b.Access)
		return nil
	}, binding.Valkey)
}

// rights are what an access level means in Valkey's ACL language.
func rights(b *binding.Binding) aiven.AccessControl {
	categories := []string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction"}
	switch b.Access {
	case v1.AccessAdmin:
		categories = append(categories, "+@admin", "+@write", "+@read")
	case v1.AccessReadWrite:
		categories = append(categories, "+@write", "+@read")
	case v1.AccessWrite:
		categories = append(categories, "+@write")
	default:
		categories = append(categories, "+@read")
	}
	return aiven.AccessControl{
		Categories: categories,
		Commands:   []string{"+info", "+cluster|slots"},
		Keys:       []string{"*"},
		Channels:   []string{"*"},
	}
}
