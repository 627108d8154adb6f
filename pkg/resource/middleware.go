package resource

import (
	"context"
	"slices"
)

// Operation is what a resource is asked to do.
type Operation string

// The operations: EnsureCreated and EnsureDeleted.
const (
	Create Operation = "create"
	Delete Operation = "delete"
)

// Middleware makes a resource of a resource: the same one that also does something else.
type Middleware func(Interface) Interface

// Wrap returns each of rs wrapped in all of ms, of which the first is outermost: it sees a call first and its error
// last. rs is not changed.
func Wrap(rs []Interface, ms ...Middleware) []Interface {
	wrapped := make([]Interface, len(rs))
	for i, r := range rs {
		for _, m := range slices.Backward(ms) {
			r = m(r)
		}
		wrapped[i] = r
	}
	return wrapped
}

// Call is one call of a resource, as middleware sees it.
type Call struct {
	// Resource is the resource's name.
	Resource string
	// Operation tells which of the two methods is called.
	Operation Operation

	next Interface
	obj  any
}

// Run makes the call. Middleware may run it with another context, several times, or not at all.
func (c Call) Run(ctx context.Context) error {
	if c.Operation == Delete {
		return c.next.EnsureDeleted(ctx, c.obj)
	}
	return c.next.EnsureCreated(ctx, c.obj)
}

// Around makes middleware of one function, which sees both operations.
func Around(f func(ctx context.Context, c Call) error) Middleware {
	return func(next Interface) Interface { return around{next: next, name: next.Name(), f: f} }
}

type around struct {
	next Interface
	name string
	f    func(ctx context.Context, c Call) error
}

func (a around) EnsureCreated(ctx context.Context, obj any) error {
	return a.f(ctx, Call{Resource: a.name, Operation: Create, next: a.next, obj: obj})
}

func (a around) EnsureDeleted(ctx context.Context, obj any) error {
	return a.f(ctx, Call{Resource: a.name, Operation: Delete, next: a.next, obj: obj})
}

func (a around) Name() string { return a.name }
