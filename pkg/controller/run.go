package controller

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/cachekeycontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/finalizerskeptcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/reconciliationcanceledcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/resourcecanceledcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/updateallowedcontext"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// runScopes runs the slice for each scope of the plan, side by side, and returns what became of them in the order of
// the plan.
func (p *pass[T]) runScopes(ctx context.Context, plan Plan) []resource.Result {
	results := make([]resource.Result, 0, len(plan.Ensure)+len(plan.Delete))
	for _, scope := range plan.Ensure {
		results = append(results, resource.Result{Scope: scope, Operation: resource.Create})
	}
	for _, scope := range plan.Delete {
		results = append(results, resource.Result{Scope: scope, Operation: resource.Delete})
	}
	var wg sync.WaitGroup
	for i := range results[min(1, len(results)):] {
		wg.Go(func() { p.runScope(ctx, &results[i+1], i+1) })
	}
	if len(results) > 0 { // the first, mostly the only one, needs no goroutine
		p.runScope(ctx, &results[0], 0)
	}
	wg.Wait()
	return results
}

// runScope runs the slice for the scope that r names, the i-th of the pass, and notes in r what became of it.
func (p *pass[T]) runScope(ctx context.Context, r *resource.Result, i int) {
	ctx = cachekeycontext.NewContext(ctx, p.cfg.Name+"-"+p.labels.loop+"-"+strconv.Itoa(i))
	rs := p.cfg.Resources
	if r.Operation == resource.Delete && !p.cfg.DeleteInOrder {
		rs = p.backwards
	}
	r.Resource, r.Err = runSlice(resource.WithScope(ctx, r.Scope), rs, p.obj, r.Operation, &p.labels)
}

// runSlice calls the resources in their order until one returns an error or ctx ends. A partial error
// (resource.Partial) does not end it, but is what it returns at the end. It returns the name of the resource that the
// error came from.
//
// It opens operatorkit's signals, anew for each run because raising one is not safe for concurrent use, and turns
// those that were raised into errors that wait for the next event or resync:
//
//   - reconciliationcanceledcontext: the slice ends, the finalizer stays.
//   - finalizerskeptcontext: the finalizer stays; without meaning unless something is deleted.
//   - resourcecanceledcontext: opened for each resource, which ends itself; the slice goes on.
//   - updateallowedcontext, cachekeycontext: for the resources among themselves.
func runSlice(ctx context.Context, rs []resource.Interface, obj any, op resource.Operation, labels *logLabels) (string, error) {
	kept, cancelled, own := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ctx = finalizerskeptcontext.NewContext(ctx, kept)
	ctx = reconciliationcanceledcontext.NewContext(ctx, cancelled)
	ctx = updateallowedcontext.NewContext(ctx, make(chan struct{}))
	ownCtx := resourcecanceledcontext.NewContext(ctx, own)
	var at string
	var part error // of the last resource that failed in part
	for _, r := range rs {
		if ctx.Err() != nil {
			return r.Name(), ctx.Err()
		}
		if isClosed(own) { // by the resource before; as long as it is not, it serves the next as well
			own = make(chan struct{})
			ownCtx = resourcecanceledcontext.NewContext(ctx, own)
		}
		switch err := runResource(&callContext{Context: ownCtx, labels: labels, resource: r.Name()}, r, obj, op); {
		case err == nil:
		case resource.IsPartial(err):
			at, part = r.Name(), err
		default:
			return r.Name(), err
		}
		if isClosed(cancelled) {
			if part != nil {
				return at, part
			}
			return r.Name(), resource.RequeueAfter(0, "resource %s cancelled the reconcile", r.Name())
		}
	}
	if part == nil && op == resource.Delete && isClosed(kept) {
		return "", resource.RequeueAfter(0, "a resource asked for the finalizer to be kept")
	}
	return at, part
}

func runResource(ctx context.Context, r resource.Interface, obj any, op resource.Operation) (err error) {
	defer recovered(ctx, r.Name(), &err)
	if op == resource.Delete {
		return r.EnsureDeleted(ctx, obj)
	}
	return r.EnsureCreated(ctx, obj)
}

// recovered is deferred. It makes an error of a panic, whose stack is logged here because the error does not carry it.
func recovered(ctx context.Context, name string, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("recover from panic: %v", v)
		log.FromContext(ctx).Error(*err, "Observed a panic", "resource", name, "stacktrace", string(debug.Stack()))
	}
}
