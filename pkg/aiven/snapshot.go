package aiven

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

// entry is what the client knows about one service.
type entry struct {
	latest cell[*Service] // as read
	used   time.Time      // guarded by Client.mu

	mu      sync.Mutex
	overlay overlay
	read    *Service // that shown was made of
	shown   *Service // read with the overlay applied, but for what was touched since

	document documentWriter
}

// minIdle is how long a service must have been left alone to be forgotten: longer than anything about it matters.
const minIdle = 15 * time.Minute

// entry returns the entry of a service. A new one pushes out those that nobody has asked for in a long time.
func (c *Client) entry(ref Ref) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	e, ok := c.services[ref]
	if !ok {
		for r, other := range c.services {
			if now.Sub(other.used) > max(minIdle, 3*c.maxAge) {
				delete(c.services, r)
			}
		}
		read := func() (*Service, error) { return c.readService(ref) }
		e = &entry{latest: newCell(c, ref.Project, read), overlay: newOverlay()}
		c.services[ref] = e
	}
	e.used = now
	return e
}

// show returns the service as read with what is known beside.
func (e *entry) show(read *Service) *Service {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Callers who waited for a read may arrive after those of the next.
	if e.read == nil || e.read != read && !read.ReadAt.Before(e.read.ReadAt) {
		e.read, e.shown = read, read
		e.overlay.prune(read)
		e.overlay.touchAll()
	}
	e.shown = e.overlay.apply(e.read, e.shown)
	return e.shown
}

// change records what is known beside the last read.
func (e *entry) change(record func(*overlay)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	record(&e.overlay)
}

// failed takes note of a change that failed. Where it may have taken effect all the same, or was there already, neither what was read nor what was
// written before may serve for the next decision: an entry that nobody sees is never taken back. forget drops the latter.
func (e *entry) failed(err error, forget func(*overlay)) {
	if !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrExists) {
		e.latest.invalidate()
		return
	}
	e.latest.doubt()
	e.change(forget)
}

// Service returns the snapshot of a service. It reads the service when there is no snapshot or it is too old;
// concurrent callers share one read, which no single caller's context ends. A failure is shared by those who
// waited for it, and by those who ask within the next 1.5 seconds.
//
// For two minutes an own write stays in the snapshots even if a read does not show it: a user that was created,
// with the credentials of that answer where the read has none; a user that was deleted; and so on.
func (c *Client) Service(ctx context.Context, ref Ref) (*Service, error) {
	tried := "read service " + ref.String()
	if err := checkNames(tried, ref.Project, ref.Service); err != nil {
		return nil, err
	}
	e := c.entry(ref)
	read, err := e.latest.get(ctx)
	if err != nil {
		return nil, whole(ctx, tried, err)
	}
	return e.show(read), nil
}

// whole makes a bare error, of a context that ended or of a project that is silent, into one of this package.
func whole(ctx context.Context, tried string, err error) error {
	if err == errSilent { //nolint:errorlint // the bare one is meant
		return silent(tried)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ended(ctx, tried)
	}
	return err
}

// Invalidate makes the next call of Service read anew. A service is read at most every 3 seconds, however often it
// is invalidated, but for changes whose outcome is open.
func (c *Client) Invalidate(ref Ref) { c.entry(ref).latest.invalidate() }

func (c *Client) readService(ref Ref) (*Service, error) {
	var s *Service
	cl := call{
		operation: "ServiceGet", project: ref.Project, tried: "read service " + ref.String(), read: true, secrets: true,
	}
	began := c.clock.Now()
	err := c.do(c.ctx, cl, func(ctx context.Context) error {
		s = &Service{Ref: ref, ReadAt: began}
		return c.request(ctx, http.MethodGet, path(ref.Project, "service", ref.Service), nil,
			func(d *json.Decoder) error { return decodeService(d, s) })
	})
	if err != nil {
		return nil, err
	}
	c.health.withheld(ref.Project, s.withholds(), c.clock.Now())
	if s.Type == TypeOpenSearch && s.Usable() {
		document, err := c.readDocument(c.ctx, ref)
		if err != nil {
			return nil, err
		}
		s.OpenSearchACL = document.acl()
	}
	return s, nil
}

// User reads a single user, past the snapshot, whose entry it renews. ErrNotFound: there is no such user, service
// or project. As in Service, what was created or deleted within the last two minutes counts more than a read.
func (c *Client) User(ctx context.Context, ref Ref, name string) (*User, error) {
	cl := call{
		operation: "ServiceUserGet", project: ref.Project, tried: "read user " + name + " on " + ref.String(),
		read: true, secrets: true,
	}
	if err := checkNames(cl.tried, ref.Project, ref.Service, name); err != nil {
		return nil, err
	}
	began := c.clock.Now()
	var w *wireUser
	err := c.do(ctx, cl, func(ctx context.Context) error {
		w = nil
		return c.request(ctx, http.MethodGet, path(ref.Project, "service", ref.Service, "user", name), nil,
			func(d *json.Decoder) error {
				return decodeObject(d, func(key string) (bool, error) {
					if key != "user" {
						return false, nil
					}
					return true, d.Decode(&w)
				})
			})
	})
	var read *User
	switch {
	case err == nil && (w == nil || w.Username != name):
		return nil, &Error{Tried: cl.tried, Status: http.StatusOK, Message: "the answer cannot be read"}
	case err == nil:
		read = w.user()
		c.health.withheld(ref.Project, read.Redacted, c.clock.Now())
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	e := c.entry(ref)
	e.change(func(o *overlay) {
		known, ok := o.users.known[name]
		switch {
		case !ok || !known.own() || !began.Before(known.until):
			o.users.set(name, seen(read, began))
		case known.value == nil: // deleted a moment ago
			read, err = nil, &Error{Tried: cl.tried, Message: "deleted a moment ago", kinds: []error{ErrNotFound}}
		default: // created a moment ago
			read, err = merge(read, known, began), nil
			known.value = read
			o.users.set(name, known)
		}
		if read != nil {
			read = o.corrected(read, began)
		}
	})
	if err != nil {
		return nil, err
	}
	u := *read
	return &u, nil
}

// CA returns the CA certificates of a project, PEM, one or more of them. They are cached like a service.
func (c *Client) CA(ctx context.Context, project string) (string, error) {
	tried := "read CA of " + project
	if err := checkNames(tried, project); err != nil {
		return "", err
	}
	c.mu.Lock()
	ca, ok := c.cas[project]
	if !ok {
		ca = new(newCell(c, project, func() (string, error) { return c.readCA(project) }))
		c.cas[project] = ca
	}
	c.mu.Unlock()
	pem, err := ca.get(ctx)
	if err != nil {
		return "", whole(ctx, tried, err)
	}
	return pem, nil
}

func (c *Client) readCA(project string) (string, error) {
	var bundle string
	cl := call{operation: "ProjectKmsGetCA", project: project, tried: "read CA of " + project, read: true}
	err := c.do(c.ctx, cl, func(ctx context.Context) (err error) {
		bundle, err = c.api.CA.Get(ctx, project)
		return err
	})
	if err != nil {
		return "", err
	}
	if _, err := parseBundle([]byte(bundle)); err != nil {
		return "", &Error{Tried: cl.tried, Status: http.StatusOK, Message: "the CA in the answer is not usable"}
	}
	return bundle, nil
}
