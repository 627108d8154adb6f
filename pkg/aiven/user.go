package aiven

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	goclient "github.com/aiven/aiven-go-client/v2"
)

// builtIn holds the names of users that come with a service, or that OpenSearch reserves.
var builtIn = map[string]bool{
	"avnadmin": true, "default": true, "metrics_user_datadog": true, "osd_internal_user": true,
	"replication_user": true, "os-sec-admin": true,
}

// checkUser refuses a user that is none of ours whatever the API would say.
func (c *Client) checkUser(e *entry, tried string, ref Ref, name string) error {
	if err := checkNames(tried, ref.Project, ref.Service, name); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	primary := false
	if e.read != nil {
		u, ok := e.read.User(name)
		primary = ok && u.Type == "primary"
	}
	if builtIn[name] || primary {
		return invalid(tried, "a built-in user is never touched")
	}
	return nil
}

// CreateUser creates a user, with access control if ac is not nil (Valkey). The call is never repeated.
// ErrExists: there is a user of that name already. ErrOutcomeUnknown: the user may have been created.
// The credentials of the result can be unknown yet.
func (c *Client) CreateUser(ctx context.Context, ref Ref, name string, ac *AccessControl) (*User, error) {
	cl := call{operation: "ServiceUserCreate", project: ref.Project, tried: "create user " + name + " on " + ref.String()}
	e := c.entry(ref)
	if err := c.checkUser(e, cl.tried, ref, name); err != nil {
		return nil, err
	}
	req := goclient.CreateServiceUserRequest{Username: name}
	if ac != nil {
		req.AccessControl = wireAccess(*ac)
	}
	var answer *goclient.ServiceUser
	err := c.do(ctx, cl, func(ctx context.Context) (err error) {
		answer, err = c.api.ServiceUsers.Create(ctx, ref.Project, ref.Service, req)
		return err
	})
	if err == nil && (answer == nil || answer.Username != name) {
		err = &Error{
			Tried: cl.tried, Status: http.StatusOK, Message: "the answer cannot be read", kinds: []error{ErrOutcomeUnknown},
		}
	}
	if err != nil {
		e.latest.invalidate()
		if errors.Is(err, ErrExists) || errors.Is(err, ErrOutcomeUnknown) {
			e.change(func(o *overlay) { o.users.drop(name) }) // that we deleted it is no longer the last word
		}
		return nil, err
	}
	c.metrics.created.WithLabelValues(ref.Project).Inc()
	u := wireUser{ServiceUser: *answer}.user()
	if ac != nil {
		u.AccessControl = *ac
	}
	now := c.clock.Now()
	e.change(func(o *overlay) {
		stored := *u
		o.users.set(name, made(&stored, now))
		o.access.drop(name)
		if ac != nil {
			given := *ac
			o.access.set(name, made(&given, now))
		}
	})
	return u, nil
}

// SetAccessControl replaces the rights of a Valkey user as a whole. ErrNotFound: there is no such user, service or
// project.
func (c *Client) SetAccessControl(ctx context.Context, ref Ref, name string, ac AccessControl) error {
	cl := call{
		operation: "ServiceUserCredentialsModify", project: ref.Project,
		tried: "set access control of user " + name + " on " + ref.String(),
	}
	e := c.entry(ref)
	if err := c.checkUser(e, cl.tried, ref, name); err != nil {
		return err
	}
	operation := goclient.UpdateOperationSetAccessControl
	req := goclient.ModifyServiceUserRequest{Operation: &operation, AccessControl: wireAccess(ac)}
	if err := c.modifyUser(ctx, cl, ref, name, req); err != nil {
		e.failed(err, func(o *overlay) { o.access.drop(name) })
		return err
	}
	c.metrics.updated.WithLabelValues(ref.Project).Inc()
	e.change(func(o *overlay) { o.access.set(name, made(&ac, c.clock.Now())) })
	return nil
}

// AcknowledgeRenewal tells Aiven that the certificate which a renewal replaced is no longer needed, which ends its notices. That certificate works to
// its end all the same. To repeat it does no harm. ErrNotFound: there is no such user, service or project.
//
// For two minutes no snapshot shows a renewal of the user.
func (c *Client) AcknowledgeRenewal(ctx context.Context, ref Ref, name string) error {
	cl := call{
		operation: "ServiceUserCredentialsModify", project: ref.Project,
		tried: "acknowledge the renewed certificate of user " + name + " on " + ref.String(),
	}
	e := c.entry(ref)
	if err := c.checkUser(e, cl.tried, ref, name); err != nil {
		return err
	}
	operation := "acknowledge-renewal" // aiven-go-client has no name for it
	if err := c.modifyUser(ctx, cl, ref, name, goclient.ModifyServiceUserRequest{Operation: &operation}); err != nil {
		e.failed(err, func(o *overlay) { o.renewed.drop(name) })
		return err
	}
	e.change(func(o *overlay) { o.renewed.set(name, made(&struct{}{}, c.clock.Now())) })
	return nil
}

// modifyUser is not done by aiven-go-client, which wants to find the user in the answer: that is the whole service, and may lag.
func (c *Client) modifyUser(ctx context.Context, cl call, ref Ref, name string, req goclient.ModifyServiceUserRequest) error {
	return c.do(ctx, cl, func(ctx context.Context) error {
		return c.request(ctx, http.MethodPut, path(ref.Project, "service", ref.Service, "user", name), req, skipAnswer)
	})
}

// skipAnswer reads an answer of which only the errors matter.
func skipAnswer(d *json.Decoder) error {
	return decodeObject(d, func(string) (bool, error) { return false, nil })
}

// DeleteUser deletes a user. ErrNotFound: it is gone already, or its service or project is. Built-in users are never
// deleted: for them the error is terminal, and nothing is called. ACL entries of the user stay.
func (c *Client) DeleteUser(ctx context.Context, ref Ref, name string) error {
	cl := call{operation: "ServiceUserDelete", project: ref.Project, tried: "delete user " + name + " on " + ref.String()}
	e := c.entry(ref)
	if err := c.checkUser(e, cl.tried, ref, name); err != nil {
		return err
	}
	err := c.do(ctx, cl, func(ctx context.Context) error {
		return c.api.ServiceUsers.Delete(ctx, ref.Project, ref.Service, name)
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		e.latest.invalidate()
		return err
	}
	if err == nil {
		c.metrics.deleted.WithLabelValues(ref.Project).Inc()
	}
	e.change(func(o *overlay) {
		o.users.set(name, made[User](nil, c.clock.Now()))
		o.access.drop(name)
	})
	return err
}
