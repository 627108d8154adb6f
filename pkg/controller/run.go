package controller

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"

	"github.com/giantswarm/micrologger/loggermeta"
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
	for i := range results {
		wg.Go(func() {
			r := &results[i]
			ctx := cachekeycontext.NewContext(ctx, fmt.Sprintf("%s-%s-%d", p.cfg.Name, p.labels["loop"], i))
			r.Resource, r.Err = runSlice(resource.WithScope(ctx, r.Scope), p.cfg.Resources, p.obj, r.Operation, p.labels)
		})
	}
	wg.Wait()
	return results
}

// runSlice calls the resources in order, backwards to delete, until one returns an error or ctx ends. A partial error
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
//
// labels go to the log lines of resources that were written for operatorkit.
func runSlice(ctx context.Context, rs []resource.Interface, obj any, op resource.Operation, labels map[string]string) (string, error) {
	ctx = finalizerskeptcontext.NewContext(ctx, make(chan struct{}))
	ctx = reconciliationcanceledcontext.NewContext(ctx, make(chan struct{}))
	ctx = updateallowedcontext.NewContext(ctx, make(chan struct{}))
	var at string
	var part error // of the last resource that failed in part
	for i, r := range rs {
		if op == resource.Delete {
			r = rs[len(rs)-1-i]
		}
		if ctx.Err() != nil {
			return r.Name(), ctx.Err()
		}
		switch err := runResource(ctx, r, obj, op, labels); {
		case resource.IsPartial(err):
			at, part = r.Name(), err
		case err != nil:
			return r.Name(), err
		}
		if reconciliationcanceledcontext.IsCanceled(ctx) {
			if part != nil {
				return at, part
			}
			return r.Name(), resource.RequeueAfter(0, "resource %s cancelled the reconcile", r.Name())
		}
	}
	if part == nil && op == resource.Delete && finalizerskeptcontext.IsKept(ctx) {
		return "", resource.RequeueAfter(0, "a resource asked for the finalizer to be kept")
	}
	return at, part
}

func runResource(ctx context.Context, r resource.Interface, obj any, op resource.Operation, labels map[string]string) error {
	meta := loggermeta.New()
	maps.Copy(meta.KeyVals, labels)
	meta.KeyVals["resource"] = r.Name()
	ctx = loggermeta.NewContext(ctx, meta)
	ctx = resourcecanceledcontext.NewContext(ctx, make(chan struct{}))
	return guard(ctx, r.Name(), func() error {
		if op == resource.Delete {
			return r.EnsureDeleted(ctx, obj)
		}
		return r.EnsureCreated(ctx, obj)
	})
}

// guard calls f and makes an error of a panic. The stack is logged here, because the error does not carry it.
func guard(ctx context.Context, name string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("recover from panic: %v", v)
			log.FromContext(ctx).Error(err, "Observed a panic", "resource", name, "stacktrace", string(debug.Stack()))
		}
	}()
	return f()
}
