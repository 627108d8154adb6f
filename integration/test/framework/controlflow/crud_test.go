//go:build k8srequired

package controlflow

import (
	"context"
	"testing"

	"github.com/giantswarm/micrologger/microloggertest"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/resourcecanceledcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/resource/crud"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// steps is a resource in operatorkit's steps, of which cancelling the resource ends those that follow. What is applied is counted.
type steps struct {
	cancel  bool
	applied *counting.Resource
}

func (s *steps) GetCurrentState(ctx context.Context, _ any) (any, error) {
	if s.cancel {
		resourcecanceledcontext.SetCanceled(ctx)
	}
	return nil, nil
}

func (s *steps) GetDesiredState(context.Context, any) (any, error) { return "there", nil }

func (s *steps) NewUpdatePatch(_ context.Context, _, _, desired any) (*crud.Patch, error) {
	p := crud.NewPatch()
	p.SetCreateChange(desired)
	return p, nil
}

func (s *steps) NewDeletePatch(_ context.Context, _, _, desired any) (*crud.Patch, error) {
	p := crud.NewPatch()
	p.SetDeleteChange(desired)
	return p, nil
}

func (s *steps) ApplyCreateChange(ctx context.Context, obj, _ any) error {
	return s.applied.EnsureCreated(ctx, obj)
}

func (s *steps) ApplyDeleteChange(ctx context.Context, obj, _ any) error {
	return s.applied.EnsureDeleted(ctx, obj)
}

func (s *steps) ApplyUpdateChange(context.Context, any, any) error { return nil }

func (s *steps) Name() string { return s.applied.Name() }

func TestCancelledResourceEndsItself(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	var slice []resource.Interface
	ends, runs := counting.Named("ends"), counting.Named("runs")
	for _, s := range []*steps{{cancel: true, applied: ends}, {applied: runs}} {
		r, err := crud.NewResource(crud.ResourceConfig{CRUD: s, Logger: microloggertest.New()})
		if err != nil {
			t.Fatal(err)
		}
		slice = append(slice, r)
	}
	before, after := counting.Named("before"), counting.Named("after")
	op := bed.Start(counting.Controller(counting.Secrets("steps", before, slice[0], slice[1], after)))
	cart := counting.Secret("cart")
	bed.Make(cart)
	bed.AtLeast(1, "creations", func() int { return after.Created("cart") })
	bed.Remove(cart)
	bed.Gone(cart)
	if n := ends.Created() + ends.Deleted(); n != 0 {
		t.Errorf("the cancelled resource applied %d changes", n)
	}
	for _, r := range []*counting.Resource{before, runs, after} {
		if r.Created("cart") != after.Created("cart") || r.Deleted("cart") != 1 {
			t.Errorf("%s created %d and deleted %d times, want %d and 1", r.Name(), r.Created("cart"), r.Deleted("cart"), after.Created("cart"))
		}
	}
	op.Healthy()
}
