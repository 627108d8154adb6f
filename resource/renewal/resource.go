// Package renewal acknowledges renewed certificates. About three months before the certificate of a Kafka user ends Aiven gives the user another one,
// with another key, and keeps the old one valid; once the Secret holds the new pair Aiven is told so.
package renewal

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// Name is the resource's name in logs and metrics.
const Name = "renewal"

// Users is the part of the Aiven API that this resource uses.
type Users interface {
	AcknowledgeRenewal(ctx context.Context, ref aiven.Ref, name string) error
}

// Resource acknowledges the renewals of a set's certificates. It comes after the one that publishes.
type Resource struct {
	users Users
}

// New makes the resource.
func New(users Users) *Resource { return &Resource{users: users} }

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return Name }

// EnsureDeleted does nothing: a renewal goes with its user.
func (r *Resource) EnsureDeleted(context.Context, *binding.Set) error { return nil }
