package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patchTimeout limits each patch. It counts from its beginning, and not from that of the pass.
const patchTimeout = 10 * time.Second

// hasFinalizer tells whether the object carries our finalizer, or one that we serve.
func (p *pass[T]) hasFinalizer() bool {
	return slices.ContainsFunc(p.obj.GetFinalizers(), p.isFinalizer)
}

func (c *Controller[T]) isFinalizer(name string) bool { return slices.Contains(c.finalizers, name) }

// addFinalizer tells whether the object now carries our finalizer.
func (p *pass[T]) addFinalizer(ctx context.Context) bool {
	var before any // null where there is no list
	if list := p.obj.GetFinalizers(); len(list) > 0 {
		before = list
	}
	added := p.patchFinalizers(ctx, "add", []patchOperation{
		{Op: "test", Path: "/metadata/deletionTimestamp"},
		{Op: "test", Path: "/metadata/finalizers", Value: before},
		{Op: "add", Path: "/metadata/finalizers", Value: append(slices.Clone(p.obj.GetFinalizers()), p.finalizers[0])},
	})
	if added {
		p.rec.released = false
	}
	return added
}

// isOwnMark tells whether all that an update did is to put our finalizer on a live object: the pass that did it goes on
// with the object as it is then, and needs no second one.
func (c *Controller[T]) isOwnMark(before, after client.Object) bool {
	marked := append(slices.Clone(before.GetFinalizers()), c.finalizers[0])
	if slices.Contains(before.GetFinalizers(), c.finalizers[0]) || !slices.Equal(marked, after.GetFinalizers()) ||
		after.GetDeletionTimestamp() != nil {
		return false
	}
	return apiequality.Semantic.DeepEqual(unmarked(before), unmarked(after))
}

// unmarked returns a copy of obj without finalizers, and without what each write changes.
func unmarked(obj client.Object) client.Object {
	obj = obj.DeepCopyObject().(client.Object)
	obj.SetFinalizers(nil)
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	return obj
}

// removeFinalizers tells whether the object is now without the finalizers that we serve.
func (p *pass[T]) removeFinalizers(ctx context.Context) bool {
	var ops []patchOperation
	for i, name := range slices.Backward(p.obj.GetFinalizers()) {
		if p.isFinalizer(name) {
			path := fmt.Sprintf("/metadata/finalizers/%d", i)
			ops = append(ops, patchOperation{Op: "test", Path: path, Value: name}, patchOperation{Op: "remove", Path: path})
		}
	}
	return len(ops) == 0 || p.patchFinalizers(ctx, "remove", ops)
}

// patchOperation is a step of a JSON patch (RFC 6902). A test of a nil value passes where there is nothing.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patchFinalizers changes the list, and nothing else. The lock is in the patch itself: it tests what it relies on, and
// nothing else, because others may write the object all the time, resources among them. What does not hold any more makes
// it a conflict, which goes back to the queue.
func (p *pass[T]) patchFinalizers(ctx context.Context, verb string, ops []patchOperation) bool {
	if uid := p.obj.GetUID(); uid != "" { // which only fake API servers leave empty
		ops = slices.Insert(ops, 0, patchOperation{Op: "test", Path: "/metadata/uid", Value: uid})
	}
	patch, err := json.Marshal(ops)
	if err == nil {
		err = p.patch(ctx, p.cfg.Client, types.JSONPatchType, patch)
	}
	if failsTest(err) {
		err = apierrors.NewConflict(schema.GroupResource{Resource: p.kind}, p.obj.GetName(), err)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		p.errs = append(p.errs, p.tolerate(fmt.Errorf("%s finalizer: %w", verb, err)))
	}
	return err == nil
}

// failsTest tells whether a JSON patch did not fit: the API server then names no field that is invalid.
func failsTest(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || status.Status().Details.Kind == "")
}

// patcher is a client, or a client of the status. Their options differ, so that neither has the other's method.
type patcher interface {
	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
}

// patch applies a patch. The answer becomes the object of the pass; it is read into a new one, because fields
// that the server left out would survive in the old.
func (p *pass[T]) patch(ctx context.Context, to patcher, kind types.PatchType, patch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	answer := newObject[T]()
	answer.SetNamespace(p.obj.GetNamespace())
	answer.SetName(p.obj.GetName())
	if err := to.Patch(ctx, answer, client.RawPatch(kind, patch)); err != nil {
		return err
	}
	p.obj = answer
	p.rec.wrote(answer, p.cfg.Clock.Now())
	return nil
}
