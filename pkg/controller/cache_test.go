package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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

// An object that was released gets its finalizer again when it is wanted, and is then cleaned up as any other.
func TestReleasedObjectIsWantedAgain(t *testing.T) {
	var plan Plan
	b := newBed(t, service(finalizers("x/y")), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Prepare = func(context.Context, *corev1.Service) (Plan, error) { return plan, nil }
	})
	pass := func(p Plan, finalizers ...string) {
		plan = p
		b.mustPass(t)
		if diff := cmp.Diff(finalizers, b.object(t).Finalizers); diff != "" {
			t.Errorf("finalizers after %+v: %s", p, diff)
		}
	}
	pass(Plan{Release: true}, "x/y")
	pass(Plan{Ensure: []any{"s"}}, "x/y", theFinalizer)
	if err := b.client.Delete(t.Context(), service()); err != nil {
		t.Fatal(err)
	}
	pass(Plan{Delete: []any{"s"}}, "x/y")
	if diff := cmp.Diff([]string{"create a", "create b", "delete b", "delete a"}, b.calls); diff != "" {
		t.Errorf("calls: %s", diff)
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

func TestReadFails(t *testing.T) {
	b := newBed(t, nil, nil)
	b.mustPass(t) // gone: nothing to do
	broken := newBed(t, nil, func(_ *bed, cfg *Config[*corev1.Service]) {
		cfg.Client = brokenReader{cfg.Client}
	})
	if _, err := broken.pass(t.Context()); !errors.Is(err, errBoom) {
		t.Errorf("got %v", err)
	}
	if n := broken.metrics(t)["errors_total{test}"]; n != 1 {
		t.Errorf("errors_total: got %g", n)
	}
}

type brokenReader struct{ client.Client }

func (brokenReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errBoom
}
