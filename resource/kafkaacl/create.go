package kafkaacl

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// EnsureCreated makes the user's entries those of the application. Without a list in the application nothing is touched.
func (r *Resource) EnsureCreated(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		if !b.OwnACL || b.IsOutgoing() && b.User == nil {
			return nil
		}
		service, err := r.acls.Service(ctx, b.Ref)
		if err != nil {
			return err
		}
		missing, extra := diff(b, service.KafkaACLOf(b.Username))
		// First add, then delete: a changed right never leaves the topic without any.
		for _, entry := range missing {
			if err := r.acls.AddKafkaACL(ctx, b.Ref, entry); err != nil {
				return err
			}
			b.Rights = append(b.Rights, fmt.Sprintf("%s on topic %s granted", entry.Permission, entry.Topic))
			log.FromContext(ctx).Info("right granted", "user", b.Username, "service", b.Ref.String(), "topic", entry.Topic, "permission", entry.Permission)
		}
		return r.remove(ctx, b, extra)
	}, binding.Kafka)
}

// diff compares what the binding asks for with the entries of its user, which are all that current may hold.
func diff(b *binding.Binding, current []aiven.KafkaACL) (missing, extra []aiven.KafkaACL) {
	wanted := map[aiven.KafkaACL]bool{} // true once it is found
	for _, a := range b.ACL {
		wanted[aiven.KafkaACL{Username: b.Username, Topic: a.Topic, Permission: string(a.Access.OrDefault())}] = false
	}
	for _, entry := range current {
		want := entry
		want.ID = ""
		if found, ok := wanted[want]; !ok || found {
			extra = append(extra, entry)
			continue
		}
		wanted[want] = true
	}
	for _, a := range b.ACL {
		entry := aiven.KafkaACL{Username: b.Username, Topic: a.Topic, Permission: string(a.Access.OrDefault())}
		if !wanted[entry] {
			missing = append(missing, entry)
			wanted[entry] = true
		}
	}
	return missing, extra
}
