// Package kafkaacl gives Kafka users their topic rights: the entries that name the user literally are exactly those asked
// for. Patterns and other users' entries are other people's.
package kafkaacl

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/aiven"
)

// Name is the resource's name in logs and metrics.
const Name = "kafkaacl"

// ACLs is the part of the Aiven API that this resource uses.
type ACLs interface {
	Service(ctx context.Context, ref aiven.Ref) (*aiven.Service, error)
	AddKafkaACL(ctx context.Context, ref aiven.Ref, entry aiven.KafkaACL) error
	DeleteKafkaACL(ctx context.Context, ref aiven.Ref, entry aiven.KafkaACL) error
}

// Resource ensures the ACL entries of Kafka bindings.
type Resource struct {
	acls ACLs
}

// New makes the resource.
func New(acls ACLs) *Resource { return &Resource{acls: acls} }

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return Name }
