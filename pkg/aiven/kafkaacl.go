package aiven

import (
	"context"
	"errors"

	goclient "github.com/aiven/aiven-go-client/v2"
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
		e.failed(err, func(overlay) {})
		if errors.Is(err, ErrExists) {
			return nil
		}
		return err
	}
	e.change(func(o overlay) { o.kafka[acl.ID] = made(&acl, c.clock.Now()) })
	return nil
}

// DeleteKafkaACL deletes an entry of a Kafka service. ErrNotFound: it is gone already, or its service or project is.
func (c *Client) DeleteKafkaACL(ctx context.Context, ref Ref, id string) error {
	cl := call{
		operation: "ServiceKafkaAclDelete", project: ref.Project, tried: "delete ACL entry " + id + " on " + ref.String(),
	}
	if err := checkNames(cl.tried, ref.Project, ref.Service, id); err != nil {
		return err
	}
	err := c.do(ctx, cl, func(ctx context.Context) error {
		return c.api.KafkaACLs.Delete(ctx, ref.Project, ref.Service, id)
	})
	e := c.entry(ref)
	if err != nil && !errors.Is(err, ErrNotFound) {
		e.failed(err, func(o overlay) { delete(o.kafka, id) })
		return err
	}
	e.change(func(o overlay) { o.kafka[id] = made[KafkaACL](nil, c.clock.Now()) })
	return err
}
