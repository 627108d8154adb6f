package kafkaacl

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// EnsureDeleted removes every entry that names the user literally.
func (r *Resource) EnsureDeleted(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		if b.Ref.Service == "" {
			return nil
		}
		service, err := r.acls.Service(ctx, b.Ref)
		if errors.Is(err, aiven.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		gone := *b
		gone.ACL = nil
		_, entries := diff(&gone, service.KafkaACLOf(b.Username))
		return r.remove(ctx, b, entries)
	}, binding.Kafka)
}

func (r *Resource) remove(ctx context.Context, b *binding.Binding, entries []aiven.KafkaACL) error {
	for _, entry := range entries {
		if err := r.acls.DeleteKafkaACL(ctx, b.Ref, entry); err != nil && !errors.Is(err, aiven.ErrNotFound) {
			return err
		}
		b.Rights = append(b.Rights, fmt.Sprintf("%s on topic %s revoked", entry.Permission, entry.Topic))
		log.FromContext(ctx).Info("right revoked", "user", b.Username, "service", b.Ref.String(), "topic", entry.Topic, "permission", entry.Permission)
	}
	return nil
}
