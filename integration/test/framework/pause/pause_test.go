//go:build k8srequired

// Package pause shows that an annotation stops all work on an object, deletion included, that this can be seen, and that work goes on in the moment
// in which the annotation is gone.
package pause

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
)

// configured pauses in addition to operatorkit's two, by another value.
const configured = "example.com/stop"

// config is a controller whose resync does not come while the test runs.
func config(r *counting.Resource) controller.Config[*corev1.Secret] {
	cfg := counting.Secrets("pause", r)
	cfg.Pause = map[string]string{configured: "yes"}
	cfg.Resync = time.Hour
	return cfg
}

func annotated(name, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Annotations = map[string]string{name: value} }
}

// paused waits until the operator has looked at an object and found it paused.
func paused(op *counting.Operator, name string) { op.Logs(`"msg":"object is paused"`, "/"+name+`"`) }

func TestAnnotationPauses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ name, value string }{
		"by operatorkit's own annotation":  {"operatorkit.giantswarm.io/paused", "true"},
		"by that of Cluster API":           {"cluster.x-k8s.io/paused", "true"},
		"by one that the controller names": {configured, "yes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			r := counting.Named("counter")
			op := bed.Start(counting.Controller(config(r)))
			cart := counting.Secret("cart", annotated(test.name, test.value))
			bed.Make(cart)
			paused(op, "cart")
			bed.Annotate(cart, "touched", "1")
			// With one worker, what came before it is over when it is done.
			bed.Make(counting.Secret("next"))
			bed.AtLeast(1, "creations of the next", func() int { return r.Created("next") })
			bed.Finalizers(cart)
			if n := r.Created("cart"); n != 0 {
				t.Errorf("%d calls for a paused object", n)
			}
			bed.Annotate(cart, test.name, "")
			bed.AtLeast(1, "creations", func() int { return r.Created("cart") })
			bed.Finalizers(cart, controller.Finalizer("pause"))
			bed.Event("cart")
			op.Healthy()
		})
	}
}

func TestOtherValuesDoNotPause(t *testing.T) {
	t.Parallel()
	const own = "operatorkit.giantswarm.io/paused"
	tests := map[string]struct {
		name, value string
		mentioned   bool
	}{
		"that are written differently":           {own, "True", true},
		"that say it in another way":             {own, "1", true},
		"that are empty":                         {own, "", true},
		"that have blanks":                       {"cluster.x-k8s.io/paused", " true", true},
		"of one that the controller names":       {configured, "true", true},
		"that say no, and are not mentioned":     {own, "false", false},
		"of others' annotations, nor mention it": {"example.com/paused", "true", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			r := counting.Named("counter")
			op := bed.Start(counting.Controller(config(r)))
			cart := counting.Secret("cart", annotated(test.name, test.value))
			bed.Make(cart)
			for i := range 5 { // passes; the value is mentioned once
				before := r.Created("cart")
				bed.Annotate(cart, "touched", fmt.Sprint(i))
				bed.AtLeast(before+1, "creations", func() int { return r.Created("cart") })
			}
			var want []string
			if test.mentioned {
				right := "true"
				if test.name == configured {
					right = "yes"
				}
				want = append(want, "Warning PauseIgnored annotation "+test.name+" does not pause: its value is not "+right)
			}
			bed.Event("cart", want...)
			op.Healthy()
		})
	}
}

func TestPausedDeletionIsSeenAndGoesOn(t *testing.T) {
	t.Parallel()
	const held = "keysmith_controller_paused_deletions"
	bed := counting.New(t)
	r := counting.Named("counter")
	op := bed.Start(counting.Controller(config(r)))
	cart := counting.Secret("cart")
	bed.Make(cart)
	bed.AtLeast(1, "creations", func() int { return r.Created("cart") })
	bed.Annotate(cart, configured, "yes")
	paused(op, "cart")
	if n := op.Metric(held); n != 0 {
		t.Errorf("%v deletions are held before there is one", n)
	}

	bed.Remove(cart)
	event := "Warning DeletionPaused deletion waits for pause: remove annotation " + configured + " to let it go on"
	bed.Event("cart", event)
	bed.Annotate(cart, "touched", "1")
	bed.Make(counting.Secret("next"))
	bed.AtLeast(1, "creations of the next", func() int { return r.Created("next") })
	bed.Event("cart", event) // once
	bed.Finalizers(cart, controller.Finalizer("pause"))
	if n := r.Deleted("cart"); n != 0 {
		t.Errorf("%d deletions of a paused object", n)
	}
	if n := op.Metric(held, "controller", "pause"); n != 1 {
		t.Errorf("%v deletions are held, want 1", n)
	}

	bed.Annotate(cart, configured, "")
	bed.Gone(cart)
	if n := r.Deleted("cart"); n != 1 {
		t.Errorf("%d deletions, want 1", n)
	}
	bed.Eventually(func(context.Context) error {
		if n := op.Metric(held); n != 0 {
			return fmt.Errorf("%v deletions are held, want none", n)
		}
		return nil
	})
	op.Healthy()
}

func TestPauseStopsResync(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	cfg := config(r)
	cfg.Resync = 100 * time.Millisecond
	op := bed.Start(counting.Controller(cfg))
	cart, other := counting.Secret("cart"), counting.Secret("other")
	bed.Make(cart, other)
	bed.AtLeast(2, "creations", func() int { return r.Created("cart") })
	bed.Annotate(cart, configured, "yes")
	paused(op, "cart")
	before, others := r.Created("cart"), r.Created("other")
	bed.AtLeast(others+10, "creations of the other", func() int { return r.Created("other") })
	if n := r.Created("cart"); n != before {
		t.Errorf("%d calls for a paused object", n-before)
	}
	bed.Annotate(cart, configured, "")
	bed.AtLeast(before+2, "creations", func() int { return r.Created("cart") })
	op.Healthy()
}
