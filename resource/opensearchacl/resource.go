// Package opensearchacl gives OpenSearch users their index rights. A user without an entry in the service's ACL document is denied
// everything, so that a user is never open between its creation and its rights.
package opensearchacl

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// Name is the resource's name in logs and metrics.
const Name = "opensearchacl"

// ACLs is the part of the Aiven API that this resource uses. It changes the document that all users of a service share under one
// writer for each service.
type ACLs interface {
	Service(ctx context.Context, ref aiven.Ref) (*aiven.Service, error)
	GrantOpenSearch(ctx context.Context, ref aiven.Ref, username string, rules []aiven.OpenSearchRule) error
	RevokeOpenSearch(ctx context.Context, ref aiven.Ref, username string) error
}

// Announcer is told of grants that are to come.
type Announcer interface {
	AnnounceGrant(ref aiven.Ref, username string)
}

// Announce says that the rights of a binding's user are asked for soon: the rights of users that are made at the same time go in one write.
func Announce(to Announcer, b *binding.Binding) {
	if b.Kind == binding.OpenSearch {
		to.AnnounceGrant(b.Ref, b.Username)
	}
}

// Resource ensures the rules of OpenSearch bindings.
type Resource struct {
	acls ACLs
}

// New makes the resource.
func New(acls ACLs) *Resource { return &Resource{acls: acls} }

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return Name }
