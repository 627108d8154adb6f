package controller

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// copy returns a copy of the object to compare the status with, or nil where this controller writes none.
func (p *pass[T]) copy() T {
	var none T
	if p.cfg.Report == nil && p.cfg.Paused == nil {
		return none
	}
	return p.obj.DeepCopyObject().(T)
}

// report writes results into the status. before is the object as it was before Prepare.
func (p *pass[T]) report(ctx context.Context, before T, results []resource.Result) {
	p.patchStatus(ctx, before, func() {
		if p.cfg.Paused != nil {
			p.cfg.Paused(p.obj, false)
		}
		if p.cfg.Report != nil {
			p.cfg.Report(p.obj, results)
		}
	})
}

// patchStatus calls change and stores the status if it differs from that of before.
func (p *pass[T]) patchStatus(ctx context.Context, before T, change func()) {
	if p.cfg.Report == nil && p.cfg.Paused == nil {
		return
	}
	if before.GetResourceVersion() != p.obj.GetResourceVersion() {
		// Prepare or a resource wrote the object: what it wrote is stored already.
		before = p.copy()
		p.rec.wrote(p.obj, p.cfg.Clock.Now())
	}
	if err := p.safely(ctx, "report", change); err != nil { // what it wrote so far is not worth storing
		p.errs = append(p.errs, err)
		return
	}
	patch, err := statusPatch(before, p.obj)
	if err == nil && patch != nil {
		err = p.patch(ctx, statusPatcher{p.cfg.Client.Status()}, types.MergePatchType, patch)
	}
	switch {
	case apierrors.IsNotFound(err): // deleted meanwhile: there is nobody to tell
	case err != nil:
		p.errs = append(p.errs, fmt.Errorf("patch status: %w", err))
	case patch != nil && p.cfg.Notify != nil:
		if err := p.safely(ctx, "notify", func() { p.cfg.Notify(before, p.obj) }); err != nil {
			p.errs = append(p.errs, err)
		}
	}
}

// safely calls f and makes an error of a panic.
func (p *pass[T]) safely(ctx context.Context, name string, f func()) (err error) {
	defer recovered(ctx, name, &err)
	f()
	return nil
}

// statusPatch returns the merge patch that makes the status of before that of after, nil if they are the same.
func statusPatch(before, after client.Object) ([]byte, error) {
	diff, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return nil, err
	}
	var patch struct {
		Status json.RawMessage `json:"status,omitempty"`
	}
	if err := json.Unmarshal(diff, &patch); err != nil || patch.Status == nil {
		return nil, err
	}
	return json.Marshal(patch)
}

type statusPatcher struct{ client.SubResourceWriter }

func (s statusPatcher) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return s.SubResourceWriter.Patch(ctx, obj, patch)
}
