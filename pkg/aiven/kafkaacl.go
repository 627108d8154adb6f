package aiven

import (
	"context"
	"errors"
	"time"

	goclient "github.com/aiven/aiven-go-client/v2"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// AddKafkaACL adds an entry to a Kafka service; its ID is ignored. It is no error if the same entry is there already.
func (c *Client) AddKafkaACL(ctx context.Context, ref Ref, acl KafkaACL) error {
	cl := call{
		operation: "ServiceKafkaAclAdd", project: ref.Project,
		tried: "add ACL entry of " + acl.Username + " on " + ref.String(),
	}
	if err := checkNames(cl.tried, ref.Project, ref.Service, acl.Username, acl.Topic); err != nil {
		return err
	}
	req := goclient.CreateKafkaACLRequest{Permission: acl.Permission, Topic: acl.Topic, Username: acl.Username}
	err := c.do(ctx, cl, func(ctx context.Context) error {
		added, err := c.api.KafkaACLs.Create(ctx, ref.Project, ref.Service, req)
		if err == nil {
			acl.ID = added.ID
		}
		return err
	})
	e := c.entry(ref)
	if err != nil {
		exists := errors.Is(err, ErrExists)
		e.failed(err, func(o *overlay) {
			if exists {
				o.kafka.set(unread(acl), made(&struct{}{}, c.clock.Now()))
			}
		})
		if exists {
			return nil
		}
		return err
	}
	e.change(func(o *overlay) { o.kafka.set(acl, made(&struct{}{}, c.clock.Now())) })
	return nil
}

const (
	// unreadID stands for the id of an entry that exists and that no read has shown yet.
	unreadID = "?"
	// unreadWait is how long such an entry, which cannot be deleted, is left alone.
	unreadWait = 3 * time.Second
)

// DeleteKafkaACL deletes an entry of a Kafka service, as a snapshot shows it. ErrNotFound: it is gone already, or its service or project is. An entry that reads do not show yet
// has to be waited for: its user must not go before it.
func (c *Client) DeleteKafkaACL(ctx context.Context, ref Ref, acl KafkaACL) error {
	cl := call{
		operation: "ServiceKafkaAclDelete", project: ref.Project, tried: "delete ACL entry " + acl.ID + " on " + ref.String(),
	}
	if acl.ID == unreadID {
		c.Invalidate(ref)
		return resource.RequeueAfter(unreadWait, "%w", &Error{Tried: cl.tried, Message: "reads do not show it yet"})
	}
	if err := checkNames(cl.tried, ref.Project, ref.Service, acl.ID); err != nil {
		return err
	}
	err := c.do(ctx, cl, func(ctx context.Context) error {
		return c.api.KafkaACLs.Delete(ctx, ref.Project, ref.Service, acl.ID)
	})
	e := c.entry(ref)
	if err != nil && !errors.Is(err, ErrNotFound) {
		e.failed(err, func(o *overlay) { o.kafka.drop(acl) })
		return err
	}
	e.change(func(o *overlay) { o.kafka.set(acl, made[struct{}](nil, c.clock.Now())) })
	return err
}
