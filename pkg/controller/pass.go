package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/giantswarm/microerror"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// reconcile makes a pass over the object that req names, as the cache shows it.
func (c *Controller[T]) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	loop, numbered := c.queued.LoadAndDelete(req)
	if req == pulse {
		c.heart.tick()
		return reconcile.Result{}, nil
	}
	c.observeChange(req.NamespacedName)
	obj := newObject[T]()
	err := c.cfg.Client.Get(ctx, req.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		c.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		c.cfg.Metrics.failed(c.cfg.Name)
		return reconcile.Result{}, microerror.Mask(explain(fmt.Errorf("read %s: %w", c.kind, err)))
	}
	if c.recordOf(obj).newerThan(obj, c.cfg.Clock.Now()) {
		return reconcile.Result{RequeueAfter: staleDelay}, nil
	}
	if !numbered {
		return c.Reconcile(ctx, obj)
	}
	return c.pass(ctx, obj, loop.(string))
}

// Reconcile makes one pass over obj, which it may change. It is controller-runtime's ObjectReconciler: an error goes
// back to the queue, unless it is terminal.
func (c *Controller[T]) Reconcile(ctx context.Context, obj T) (reconcile.Result, error) {
	loop := c.newLoop()
	return c.pass(log.IntoContext(ctx, log.FromContext(ctx).WithValues("loop", loop)), obj, loop)
}

// pass makes one pass over obj. Its logger has the number of the loop already.
func (c *Controller[T]) pass(ctx context.Context, obj T, loop string) (reconcile.Result, error) {
	if !c.isOurs(obj) {
		c.forget(client.ObjectKeyFromObject(obj))
		return reconcile.Result{}, nil
	}
	if isClosed(c.cfg.Stopping) {
		return reconcile.Result{}, nil
	}
	start := c.cfg.Clock.Now()
	defer c.heart.begin()()
	ctx, cancel := outlive(ctx, c.cfg.Stopping, c.cfg.Grace)
	defer cancel()

	what := "update"
	if obj.GetDeletionTimestamp() != nil {
		what = "delete"
	}
	c.cfg.Metrics.saw(c.cfg.Name, c.kind, obj)

	p := &pass[T]{
		Controller: c,
		obj:        obj,
		rec:        c.recordOf(obj),
		labels:     logLabels{controller: c.cfg.Name, loop: loop, event: what, object: obj},
	}
	p.run(ctx)
	if ctx.Err() != nil {
		log.FromContext(ctx).V(1).Info("reconcile was interrupted")
		return reconcile.Result{}, nil
	}
	c.cfg.Metrics.seconds.WithLabelValues(what).Observe(c.cfg.Clock.Since(start).Seconds())
	return p.end(ctx)
}

// pass is one pass over one object.
type pass[T client.Object] struct {
	*Controller[T]
	obj    T // as the API server answered last
	rec    *record
	labels logLabels

	errs   []error       // of all its parts
	next   time.Duration // from the plan
	resync bool

	conflict bool // the pass met one
	repeated bool // and is repeated at once
}

// run does the work. It leaves the errors of all parts in p.errs.
func (p *pass[T]) run(ctx context.Context) {
	live := p.obj.GetDeletionTimestamp() == nil
	ours := p.hasFinalizer()
	if !ours && (!live || p.cfg.DeleteOnly) {
		return
	}
	if p.pause(ctx) {
		return
	}
	if !live && p.rec.cleaned { // but another client changed the list of finalizers just then
		p.rec.released = p.removeFinalizers(ctx)
		return
	}
	// An object that was released is prepared before it gets a finalizer again, else the two would never end.
	if live && !ours && !p.rec.released && !p.addFinalizer(ctx) {
		return
	}

	work, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	before := p.copy()
	plan, err := p.prepare(work, live)
	p.next = plan.RequeueAfter
	switch {
	case err == nil && plan.Release:
		p.rec.released = p.removeFinalizers(ctx)
		return
	case live && p.cfg.DeleteOnly:
		p.errs = append(p.errs, p.tolerate(err))
		return
	case err == nil && !p.hasFinalizer() && !p.addFinalizer(ctx):
		return
	}
	p.resync = true

	results := []resource.Result{{Operation: operation(live), Err: err}}
	if err == nil {
		results = p.runScopes(work, plan)
	}
	done := p.collect(work, results)
	if ctx.Err() != nil || p.repeated {
		return
	}
	p.report(ctx, before, results)
	if !live && done {
		p.rec.cleaned = true
		p.rec.released = p.removeFinalizers(ctx)
		p.resync = false
	}
}

func (p *pass[T]) prepare(ctx context.Context, live bool) (plan Plan, err error) {
	switch {
	case p.cfg.Prepare != nil:
		defer recovered(ctx, "prepare", &err)
		return p.cfg.Prepare(ctx, p.obj)
	case live:
		return Plan{Ensure: []any{nil}}, nil
	default:
		return Plan{Delete: []any{nil}}, nil
	}
}

// collect takes the errors of the results, and tells whether there are none. ctx is that of the runs.
func (p *pass[T]) collect(ctx context.Context, results []resource.Result) bool {
	done := true
	for i := range results {
		r := &results[i]
		if r.Err == nil {
			continue
		}
		done = false
		r.Err = p.tolerate(r.Err)
		if ctx.Err() != nil && errors.Is(r.Err, ctx.Err()) {
			r.Err = fmt.Errorf("reconcile within %s: %w", p.cfg.Timeout, r.Err)
		}
		if r.Resource == "" {
			p.errs = append(p.errs, r.Err)
			continue
		}
		p.errs = append(p.errs, fmt.Errorf("resource %s: %w", r.Resource, r.Err))
	}
	return done
}

func operation(live bool) resource.Operation {
	if live {
		return resource.Create
	}
	return resource.Delete
}

// maxConflicts is how many passes in a row may meet a conflict before it is taken for a failure. Some are normal
// where others write the same objects; a conflict that does not go away is a defect that must be seen.
const maxConflicts = 10

// tolerate returns err, but not as a conflict if there were too many.
func (p *pass[T]) tolerate(err error) error {
	if !apierrors.IsConflict(err) || resource.OutcomeOf(err) != resource.Waiting {
		return err
	}
	p.conflict = true
	if p.rec.conflicts < maxConflicts {
		p.repeated = true
		return err
	}
	return errors.New("give up after too many conflicts: " + err.Error())
}

// end turns the errors of the pass into what the queue understands. Each is logged once: by controller-runtime if it
// is returned, else here.
func (p *pass[T]) end(ctx context.Context) (reconcile.Result, error) {
	if p.conflict {
		p.rec.conflicts++
	} else {
		p.rec.conflicts = 0
	}
	var failures, waits []error
	for _, err := range p.errs {
		switch resource.OutcomeOf(err) {
		case resource.Done:
		case resource.Waiting:
			waits = append(waits, err)
		case resource.Terminal, resource.Failed:
			failures = append(failures, explain(err))
		}
	}
	p.warn(failures)
	wait, _ := resource.After(join(p.errs))
	next := earliest(wait, p.next)
	if err := join(waits); err != nil {
		log.FromContext(ctx).V(1).Info("object waits", "for", err.Error(), "next", next.String())
	}

	failure := join(failures)
	if failure == nil {
		p.cfg.Metrics.succeeded(p.cfg.Name, p.cfg.Clock.Now())
		return p.again(next), nil
	}
	p.cfg.Metrics.failed(p.cfg.Name)
	if resource.OutcomeOf(failure) == resource.Failed {
		if next > 0 {
			p.queue.within(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p.obj)}, next)
		}
		return reconcile.Result{Priority: new(handler.LowPriority)}, microerror.Mask(retryable(failure))
	}
	again := p.again(next)
	if again.RequeueAfter == 0 {
		return reconcile.Result{}, microerror.Mask(failure)
	}
	// controller-runtime would log and count it, but never come back.
	log.FromContext(ctx).Error(microerror.Mask(failure), "Reconciler error")
	return again, nil
}

// again is when an object's next pass is: after a time that somebody waits for, zero if nobody does, or at the resync. Resyncs, and objects that failed,
// let others go first: there may be thousands of them, and nobody waits for them in particular.
func (p *pass[T]) again(next time.Duration) reconcile.Result {
	resync := p.resyncAfter()
	if next > 0 && (resync == 0 || next <= resync) {
		return reconcile.Result{RequeueAfter: next}
	}
	if resync == 0 {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: resync, Priority: new(handler.LowPriority)}
}

func (p *pass[T]) resyncAfter() time.Duration {
	if !p.resync {
		return 0
	}
	return jitter(p.cfg.Resync)
}

// join returns errs as one error, and a single one as it is.
func join(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// retryable hides that some part of a failure is terminal: controller-runtime would take all of it for terminal, and
// never try the other parts again.
func retryable(err error) error {
	if errors.Is(err, reconcile.TerminalError(nil)) {
		return struct{ error }{err}
	}
	return err
}
