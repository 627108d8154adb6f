// Package opensearchacl gives OpenSearch users their index rights. A user without an entry in the service's ACL document is denied
// everything, so that a user is never open between its creation and its rights.
package opensearchacl

import (
	"context"

	"github.com/keysmith-io/keysmith/pkg/aiven"
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

// Resource ensures the rules of OpenSearch bindings.
type Resource struct {
	acls ACLs
}

// New makes the resource.
func New(acls ACLs) *Resource { return &Resource{acls: acls} }

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return Name }
