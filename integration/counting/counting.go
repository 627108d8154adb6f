// Package counting runs controllers of pkg/controller against a real API server, in the process of the test, with resources that count their
// calls.
//
//	bed := counting.New(t)                        // a namespace of the test's own
//	r := counting.Named("counter")
//	bed.Start(counting.Controller(counting.Secrets("test", r)))
//	bed.Make(counting.Secret("cart"))
//	bed.AtLeast(1, "creations of cart", func() int { return r.Created("cart") })
//
// A Bed lasts as long as the test. Operators can be started and stopped on it at will, several at a time too.
package counting

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Decide is what a Resource does when it is called, after the call was counted: nil succeeds. obj is nil in a periodic run.
type Decide func(ctx context.Context, op resource.Operation, obj client.Object) error

// Resource counts its calls by the name of the object. It is safe for any number of workers.
type Resource struct {
	name string

	mu     sync.Mutex
	decide Decide
	counts map[call]int
}

type call struct {
	op     resource.Operation
	object string
}

var _ resource.Interface = (*Resource)(nil)

// Named returns a resource of that name. Its calls succeed.
func Named(name string) *Resource { return &Resource{name: name, counts: map[call]int{}} }

// Do replaces what calls do from now on, those that are running excepted, and returns the resource. nil makes them succeed.
func (r *Resource) Do(decide Decide) *Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decide = decide
	return r
}

// Created returns the number of calls of EnsureCreated for the objects of these names, for all objects if there are none.
func (r *Resource) Created(names ...string) int { return r.count(resource.Create, names) }

// Deleted is as Created, for EnsureDeleted.
func (r *Resource) Deleted(names ...string) int { return r.count(resource.Delete, names) }

func (r *Resource) count(op resource.Operation, names []string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	if len(names) == 0 {
		for c, count := range r.counts {
			if c.op == op {
				n += count
			}
		}
	}
	for _, name := range names {
		n += r.counts[call{op, name}]
	}
	return n
}

// EnsureCreated counts the call and decides.
func (r *Resource) EnsureCreated(ctx context.Context, obj any) error {
	return r.call(ctx, resource.Create, obj)
}

// EnsureDeleted counts the call and decides.
func (r *Resource) EnsureDeleted(ctx context.Context, obj any) error {
	return r.call(ctx, resource.Delete, obj)
}

// Name returns the resource's name.
func (r *Resource) Name() string { return r.name }

func (r *Resource) call(ctx context.Context, op resource.Operation, in any) error {
	obj, _ := in.(client.Object)
	var name string
	if obj != nil {
		name = obj.GetName()
	}
	r.mu.Lock()
	r.counts[call{op, name}]++
	decide := r.decide
	r.mu.Unlock()
	if decide == nil {
		return nil
	}
	return decide(ctx, op, obj)
}
