//go:build k8srequired

// Package finalizer shows that the finalizer is all that a controller changes in an object: the finalizers of others stay, whatever they write at the
// same time, and instances of one controller, which share the objects by their selectors, share the finalizer too.
package finalizer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const (
	ours   = "operatorkit.giantswarm.io/finalizer"
	theirs = "example.com/theirs"
)

// rival is a client to which somebody else is faster once: before its next patch, after arm, another client writes the object.
type rival struct {
	client.Client
	mu    sync.Mutex
	write func()
}

func (r *rival) arm(write func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write = write
}

func (r *rival) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	r.mu.Lock()
	if r.write != nil {
		r.write()
		r.write = nil
	}
	r.mu.Unlock()
	return r.Client.Patch(ctx, obj, patch, opts...)
}

func TestConcurrentWriterLosesNothing(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	// write writes an object as another client does between our read and our write.
	write := func(name string, edit func(*corev1.Secret)) func() {
		return func() {
			s := counting.Secret(name)
			err := bed.Get(context.Background(), bed.Key(name), s)
			if err == nil {
				edit(s)
				err = bed.Update(context.Background(), s)
			}
			if err != nil {
				t.Errorf("write %s: %v", name, err)
			}
		}
	}
	r := counting.Named("counter")
	faster := &rival{}
	op := bed.Start(func(o *counting.Operator) error {
		faster.Client = o.Manager.GetClient()
		cfg := counting.Secrets("finalizer", r)
		cfg.Client = faster
		cfg.Prepare = func(_ context.Context, s *corev1.Secret) (controller.Plan, error) {
			switch {
			case s.Data["release"] != nil:
				return controller.Plan{Release: true}, nil
			case s.DeletionTimestamp != nil:
				return controller.Plan{Delete: []any{nil}}, nil
			}
			return controller.Plan{Ensure: []any{nil}}, nil
		}
		return counting.Controller(cfg)(o)
	})
	is := func(obj *corev1.Secret, team string, finalizers ...string) {
		t.Helper()
		bed.Finalizers(obj, finalizers...)
		if diff := cmp.Diff(map[string]string{"team": team}, obj.Labels); diff != "" {
			t.Errorf("labels: (-want +got)\n%s", diff)
		}
	}

	cart := counting.Secret("cart")
	faster.arm(write("cart", func(s *corev1.Secret) {
		s.Finalizers, s.Labels = []string{theirs}, map[string]string{"team": "a"}
	}))
	bed.Make(cart)
	is(cart, "a", ours, theirs)
	bed.AtLeast(1, "creations", func() int { return r.Created("cart") })

	faster.arm(write("cart", func(s *corev1.Secret) {
		s.Finalizers, s.Labels = append(s.Finalizers, "x/y"), map[string]string{"team": "b"}
	}))
	counting.Change(bed, cart, func(s *corev1.Secret) { s.Data = map[string][]byte{"release": []byte("now")} })
	is(cart, "b", theirs, "x/y")

	counting.Change(bed, cart, func(s *corev1.Secret) { s.Data = nil })
	is(cart, "b", ours, theirs, "x/y")

	// Of what is deleted, finalizers can only be taken away.
	faster.arm(write("cart", func(s *corev1.Secret) {
		s.Finalizers, s.Labels = []string{ours, "x/y"}, map[string]string{"team": "c"}
	}))
	bed.Remove(cart)
	is(cart, "c", "x/y")
	if n := r.Deleted("cart"); n < 1 {
		t.Errorf("the finalizer went after %d deletions", n)
	}
	op.Healthy()
}

func TestInstancesShareByLabel(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	const name, version = "finalizer", "version"
	instances := map[string]*counting.Resource{"1": counting.Named("one"), "2": counting.Named("two"), "3": counting.Named("three")}
	operators := map[string]*counting.Operator{}
	for v, r := range instances { // each a process of its own
		cfg := counting.Secrets(name, r)
		cfg.Selector = labels.SelectorFromSet(labels.Set{version: v})
		cfg.Resync, cfg.MaxBackoff = 200*time.Millisecond, 50*time.Millisecond
		operators[v] = bed.Start(counting.Controller(cfg))
	}
	one, two := instances["1"], instances["2"]
	cart := counting.Secret("cart", func(s *corev1.Secret) { s.Labels = map[string]string{version: "1"} })
	nobodys := counting.Secret("nobodys")
	bed.Make(nobodys, cart)
	bed.AtLeast(3, "creations by 1", func() int { return one.Created("cart") })
	bed.Finalizers(cart, ours)
	if n := two.Created(); n != 0 {
		t.Errorf("%d creations by 2 of what is 1's", n)
	}

	// The object changes hands, with the finalizer that is on it.
	counting.Change(bed, cart, func(s *corev1.Secret) { s.Labels = map[string]string{version: "2"} })
	bed.AtLeast(3, "creations by 2", func() int { return two.Created("cart") })
	known := func(v string) float64 {
		return operators[v].Metric("operatorkit_controller_creation_timestamp", "name", "cart")
	}
	bed.Eventually(func(context.Context) error {
		if known("1") != 0 || known("2") == 0 {
			return errors.New("1 still knows the object, or 2 does not yet")
		}
		return nil
	})
	before, others := one.Created("cart"), two.Created("cart")
	bed.AtLeast(others+5, "creations by 2", func() int { return two.Created("cart") })
	if n := one.Created("cart") - before; n != 0 {
		t.Errorf("%d creations by 1 of what is 2's", n)
	}
	bed.Finalizers(cart, ours)

	two.Do(func(_ context.Context, op resource.Operation, _ client.Object) error {
		if op == resource.Delete {
			return resource.RequeueAfter(50*time.Millisecond, "not yet")
		}
		return nil
	})
	bed.Remove(cart)
	bed.AtLeast(3, "deletions by 2", func() int { return two.Deleted("cart") })
	bed.Finalizers(cart, ours)
	two.Do(nil)
	bed.Gone(cart)
	if n := one.Deleted() + instances["3"].Created() + instances["3"].Deleted(); n != 0 {
		t.Errorf("%d calls of the instances that had nothing to do with it", n)
	}
	bed.Finalizers(nobodys)
	for _, op := range operators {
		op.Healthy()
	}
}

func TestLabelTakenAwayEndsTheWork(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	cfg := counting.Secrets("finalizer", r)
	cfg.Selector = labels.SelectorFromSet(labels.Set{"managed": "yes"})
	cfg.Resync = 100 * time.Millisecond
	op := bed.Start(counting.Controller(cfg))
	managed := func(s *corev1.Secret) { s.Labels = map[string]string{"managed": "yes"} }
	cart, other := counting.Secret("cart", managed), counting.Secret("other", managed)
	bed.Make(cart, other)
	bed.AtLeast(2, "creations", func() int { return r.Created("cart") })
	counting.Change(bed, cart, func(s *corev1.Secret) { s.Labels = nil })
	bed.Eventually(func(context.Context) error {
		if op.Metric("operatorkit_controller_creation_timestamp", "name", "cart") != 0 {
			return errors.New("the controller still knows the object")
		}
		return nil
	})
	before, others := r.Created("cart"), r.Created("other")
	bed.Annotate(cart, "touched", "1")
	bed.AtLeast(others+10, "creations of the other", func() int { return r.Created("other") })
	if n := r.Created("cart") - before; n != 0 {
		t.Errorf("%d creations of what is not ours any more", n)
	}
	// The promise to clean up stays: the object can be given back, and is cleaned up then.
	bed.Finalizers(cart, ours)
	bed.Remove(cart)
	counting.Change(bed, cart, managed)
	bed.Gone(cart)
	if n := r.Deleted("cart"); n != 1 {
		t.Errorf("%d deletions, want 1", n)
	}
	op.Healthy()
}
