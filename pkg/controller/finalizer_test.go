package controller

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestFinalizers(t *testing.T) {
	tests := map[string]struct {
		obj            *corev1.Service
		deleteOnly     bool
		plan           Plan
		passes         int // default 1
		wantFinalizers []string
		wantCalls      []string
	}{
		"adds ours beside the others": {
			obj: service(finalizers("x/y")), plan: Plan{Ensure: []any{"s"}},
			wantFinalizers: []string{"x/y", theFinalizer},
			wantCalls:      []string{"patch", "create a of s"},
		},
		"adds none where one that we serve is there": {
			obj: service(finalizers("x/old")), plan: Plan{Ensure: []any{"s"}},
			wantFinalizers: []string{"x/old"},
			wantCalls:      []string{"create a of s"},
		},
		"removes all that we serve, and no other": {
			obj: service(finalizers("x/y", "x/old", theFinalizer, "z/y"), deleted), plan: Plan{Delete: []any{"s"}},
			wantFinalizers: []string{"x/y", "z/y"},
			wantCalls:      []string{"delete a of s", "patch"},
		},
		"cleans up for one that we serve": {
			obj: service(finalizers("x/y", "x/old"), deleted), plan: Plan{Delete: []any{"s"}},
			wantFinalizers: []string{"x/y"},
			wantCalls:      []string{"delete a of s", "patch"},
		},
		"cleans up only once": {
			obj: service(finalizers("x/y", theFinalizer), deleted), plan: Plan{Delete: []any{"s"}}, passes: 3,
			wantFinalizers: []string{"x/y"},
			wantCalls:      []string{"delete a of s", "patch"},
		},
		"adds none to a live object where it only deletes": {
			obj: service(), deleteOnly: true, plan: Plan{Ensure: []any{"s"}},
		},
		"runs nothing for a live object where it only deletes": {
			obj: service(finalizers(theFinalizer)), deleteOnly: true, plan: Plan{Ensure: []any{"s"}, Delete: []any{"s"}},
			wantFinalizers: []string{theFinalizer},
		},
		"cleans up a deleted object where it only deletes": {
			obj: service(finalizers(theFinalizer, "x/y"), deleted), deleteOnly: true, plan: Plan{Delete: []any{"s"}},
			wantFinalizers: []string{"x/y"},
			wantCalls:      []string{"delete a of s", "patch"},
		},
		"releases a live object where it only deletes": {
			obj: service(finalizers("x/old", "x/y")), deleteOnly: true, plan: Plan{Release: true, Delete: []any{"s"}},
			wantFinalizers: []string{"x/y"},
			wantCalls:      []string{"patch"},
		},
		"releases a deleted object without cleaning up": {
			obj: service(finalizers(theFinalizer, "x/y"), deleted), plan: Plan{Release: true, Delete: []any{"s"}},
			wantFinalizers: []string{"x/y"},
			wantCalls:      []string{"patch"},
		},
		"releases a live object for good": {
			obj: service(finalizers("x/y")), plan: Plan{Release: true}, passes: 3,
			wantFinalizers: []string{"x/y"},
			wantCalls:      []string{"patch", "patch"}, // on, and off again
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tc.obj, func(b *bed, cfg *Config[*corev1.Service]) {
				cfg.Prepare = planned(tc.plan)
				cfg.Resources = []resource.Interface{b.step("a", nil)}
				cfg.Finalizers = []string{"x/old"}
				cfg.DeleteOnly = tc.deleteOnly
			})
			for range max(tc.passes, 1) {
				b.mustPass(t)
			}
			if diff := cmp.Diff(tc.wantFinalizers, b.object(t).Finalizers); diff != "" {
				t.Errorf("finalizers: %s", diff)
			}
			if diff := cmp.Diff(tc.wantCalls, b.calls); diff != "" {
				t.Errorf("calls: %s", diff)
			}
		})
	}
}

func TestReleasedObjectIsWantedAgain(t *testing.T) {
	plan := Plan{Release: true}
	b := newBed(t, service(finalizers("x/y")), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Prepare = func(context.Context, *corev1.Service) (Plan, error) { return plan, nil }
		cfg.Resources = []resource.Interface{b.step("a", nil)}
	})
	b.mustPass(t)
	plan, b.calls = Plan{Ensure: []any{"s"}}, nil
	b.mustPass(t)
	plan = Plan{Delete: []any{"s"}}
	if err := b.client.Delete(t.Context(), service()); err != nil {
		t.Fatal(err)
	}
	b.mustPass(t)
	if diff := cmp.Diff([]string{"patch", "create a of s", "delete a of s", "patch"}, b.calls); diff != "" {
		t.Error(diff)
	}
}

// Between our read and our write another client adds its finalizer and a label.
func TestFinalizerPatchKeepsOthers(t *testing.T) {
	tests := map[string]struct {
		obj            *corev1.Service
		wantFinalizers []string
	}{
		"when ours is added":   {service(), []string{"x/y", theFinalizer}},
		"when ours is removed": {service(finalizers(theFinalizer), deleted), []string{"x/y"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tc.obj, func(b *bed, cfg *Config[*corev1.Service]) {
				cfg.Resources = []resource.Interface{b.step("a", nil)}
			})
			b.before = func() {
				b.update(t, func(s *corev1.Service) {
					s.Finalizers = append(s.Finalizers, "x/y")
					s.Labels = map[string]string{"team": "a"}
				})
			}
			if got := b.mustPass(t); got.RequeueAfter != resource.ConflictDelay {
				t.Errorf("a conflict goes back to the queue: got %v", got)
			}
			b.mustPass(t)
			got := b.object(t)
			if diff := cmp.Diff(tc.wantFinalizers, got.Finalizers); diff != "" {
				t.Errorf("finalizers: %s", diff)
			}
			if diff := cmp.Diff(map[string]string{"team": "a"}, got.Labels); diff != "" {
				t.Errorf("labels: %s", diff)
			}
			if n := b.metrics(t)["errors_total{test}"]; n != 0 || len(b.errorLines()) > 0 {
				t.Errorf("a conflict is no error: counted %g, logged %q", n, b.errorLines())
			}
		})
	}
}

func TestFinalizerOfObjectThatIsGone(t *testing.T) {
	b := newBed(t, service(), nil)
	b.before = func() {
		if err := b.client.Delete(t.Context(), service()); err != nil {
			t.Fatal(err)
		}
	}
	b.mustPass(t)
	if diff := cmp.Diff([]string{"patch"}, b.calls); diff != "" {
		t.Errorf("nothing is made for it: %s", diff)
	}
}

// A cache shows our own writes late. Until it does, a pass would work on what is over.
func TestStaleCache(t *testing.T) {
	tests := map[string]struct {
		later time.Duration
		uid   types.UID
		want  bool // a pass is made
	}{
		"waits for the cache":                        {time.Second, "1", false},
		"believes the cache after a while":           {time.Minute, "1", true},
		"believes it of another object of that name": {time.Second, "2", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Now())
			reader := &laggingReader{}
			passes := 0
			b := newBed(t, service(), func(_ *bed, cfg *Config[*corev1.Service]) {
				reader.Client, cfg.Client, cfg.Clock = cfg.Client, reader, clock
				cfg.Prepare = func(context.Context, *corev1.Service) (Plan, error) {
					passes++
					return Plan{}, nil
				}
			})
			before := b.object(t)
			b.mustPass(t) // puts the finalizer on

			before.UID, before.Finalizers = tc.uid, []string{theFinalizer}
			reader.stale = before
			clock.SetTime(clock.Now().Add(tc.later))
			result := b.mustPass(t)
			if made := passes == 2; made != tc.want || !made && result.RequeueAfter == 0 {
				t.Errorf("got %d passes, %v", passes, result)
			}
		})
	}
}

// laggingReader answers reads with the stale object if there is one.
type laggingReader struct {
	client.Client
	stale *corev1.Service
}

func (r *laggingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if r.stale == nil {
		return r.Client.Get(ctx, key, obj, opts...)
	}
	r.stale.DeepCopyInto(obj.(*corev1.Service))
	return nil
}
