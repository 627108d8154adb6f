package controller_test

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestFinalizers(t *testing.T) {
	deleteOnly := func(_ *bed, cfg *config) { cfg.DeleteOnly = true }
	ensure := &controller.Plan{Ensure: []any{"s"}}
	del := &controller.Plan{Delete: []any{"s"}}
	suite(func(_ *bed, cfg *config) { cfg.Finalizers = []string{"x/old"} }).Run(t, tests{
		"adds ours beside the others": {
			Object: service(finalizers("x/y")), Plan: ensure,
			Want: want{Finalizers: []string{"x/y", own}, Journal: []string{patch, "create a of s"}},
		},
		"adds none where one that we serve is there": {
			Object: service(finalizers("x/old")), Plan: ensure,
			Want: want{Finalizers: []string{"x/old"}, Journal: []string{"create a of s"}},
		},
		"removes all that we serve, and no other": {
			Object: service(finalizers("x/y", "x/old", own, "z/y")), Deleted: true, Plan: del,
			Want: want{Finalizers: []string{"x/y", "z/y"}, Journal: []string{"delete a of s", patch}},
		},
		"cleans up for one that we serve": {
			Object: service(finalizers("x/y", "x/old"), deleted), Plan: del,
			Want: want{Finalizers: []string{"x/y"}, Journal: []string{"delete a of s", patch}},
		},
		"cleans up only once": {
			Object: service(finalizers("x/y")), Deleted: true, Plan: del, Passes: 3,
			Want: want{Finalizers: []string{"x/y"}, Journal: []string{"delete a of s", patch}},
		},
		"adds none to a live object where it only deletes": {
			Object: service(), Configure: deleteOnly, Plan: ensure,
			Want: want{Finalizers: []string{}, Journal: []string{}},
		},
		"runs nothing for a live object where it only deletes": {
			Object: service(finalizers(own)), Configure: deleteOnly, Plan: &controller.Plan{Ensure: []any{"s"}, Delete: []any{"s"}},
			Want: want{Finalizers: []string{own}, Journal: []string{}},
		},
		"cleans up a deleted object where it only deletes": {
			Object: service(finalizers(own, "x/y")), Deleted: true, Configure: deleteOnly, Plan: del,
			Want: want{Finalizers: []string{"x/y"}, Journal: []string{"delete a of s", patch}},
		},
		"releases a live object where it only deletes": {
			Object: service(finalizers("x/old", "x/y")), Configure: deleteOnly, Plan: &controller.Plan{Release: true, Delete: []any{"s"}},
			Want: want{Finalizers: []string{"x/y"}, Journal: []string{patch}},
		},
		"releases a deleted object without cleaning up": {
			Object: service(finalizers(own, "x/y")), Deleted: true, Plan: &controller.Plan{Release: true, Delete: []any{"s"}},
			Want: want{Finalizers: []string{"x/y"}, Journal: []string{patch}},
		},
		"releases a live object for good": {
			Object: service(finalizers("x/y")), Plan: &controller.Plan{Release: true}, Passes: 3,
			Want: want{Finalizers: []string{"x/y"}, Journal: []string{patch, patch}}, // on, and off again
		},
	})
}

// Between our read and our write another client adds its finalizer and a label.
func TestFinalizerPatchKeepsOthers(t *testing.T) {
	adding := []call{{Verb: "patch", Times: 1, Before: patched(`{"metadata":{"finalizers":["x/y"],"labels":{"team":"a"}}}`)}}
	removing := []call{{Verb: "patch", Times: 1, Before: patched(`{"metadata":{"finalizers":["` + own + `","x/y"],"labels":{"team":"a"}}}`)}}
	suite(nil).Run(t, tests{
		"goes back to the queue when ours is added": {
			Object: service(), Calls: adding,
			Want: want{Outcome: resource.Waiting, After: resource.ConflictDelay, Finalizers: []string{"x/y"}, Check: noErrors},
		},
		"goes back to the queue when the list changes in front of ours, and does not clean up again": {
			Object: service(finalizers("x/y", own)), Deleted: true, Passes: 2,
			Calls: []call{{Verb: "patch", Times: 1, Before: patched(`{"metadata":{"finalizers":["` + own + `"]}}`)}},
			Want:  want{Gone: true, Journal: []string{"delete a", patch, patch}, Check: noErrors},
		},
		"goes back to the queue when the object is deleted just then": {
			Object: service(finalizers("x/y")), Calls: []call{{Verb: "patch", Before: remove}},
			Want: want{Outcome: resource.Waiting, After: resource.ConflictDelay, Finalizers: []string{"x/y"}, Journal: []string{patch}, Check: noErrors},
		},
		"keeps them when ours is added": {
			Object: service(), Calls: adding, Passes: 2,
			Want: want{
				Finalizers: []string{"x/y", own}, Check: noErrors,
				Objects: []client.Object{service(finalizers("x/y", own), labelled)},
			},
		},
		"keeps them when ours is removed": {
			Object: service(), Deleted: true, Calls: removing,
			Want: want{
				Finalizers: []string{"x/y"}, Check: noErrors,
				Objects: []client.Object{service(finalizers("x/y"), labelled, deleted)},
			},
		},
	})
}

// A resource may write the object itself in each pass, such as the time of its last look.
func TestFinalizerGoesThoughResourcesWriteTheObject(t *testing.T) {
	suite(func(b *bed, cfg *config) {
		cfg.Resources = []resource.Interface{step{b, "a", func(context.Context, string) error {
			return patched(`{"metadata":{"labels":{"team":"a"}}}`)(b)
		}}}
	}).Run(t, tests{"in the first pass": {Object: service(), Deleted: true, Want: want{Gone: true}}})
}

func TestFinalizerOfObjectThatIsGone(t *testing.T) {
	suite(nil).Run(t, tests{"makes nothing for it": {
		Object: service(), Calls: []call{{Verb: "patch", Before: remove}},
		Want: want{Gone: true, Journal: []string{patch}},
	}})
}
