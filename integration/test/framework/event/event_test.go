//go:build k8srequired

// Package event shows which errors become events on the object: those that are a microerror with Kind and Desc, once for each time they appear.
package event

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/giantswarm/microerror"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// fail makes all calls fail.
func fail(err error) counting.Decide {
	return func(context.Context, resource.Operation, client.Object) error { return err }
}

func TestMicroerrorBecomesOneEvent(t *testing.T) {
	t.Parallel()
	full := &microerror.Error{Kind: "NoPower", Desc: "somebody pulled the plug"}
	tests := map[string]struct {
		err  error
		want []string
	}{
		"sends one with Kind and Desc":       {err: full, want: []string{"Warning NoPower somebody pulled the plug"}},
		"sends one that was masked":          {err: microerror.Mask(full), want: []string{"Warning NoPower somebody pulled the plug"}},
		"sends one that was wrapped":         {err: fmt.Errorf("create: %w", full), want: []string{"Warning NoPower somebody pulled the plug"}},
		"sends none without Desc":            {err: microerror.Mask(&microerror.Error{Kind: "NoPower"})},
		"sends none without Kind":            {err: microerror.Mask(&microerror.Error{Desc: "somebody pulled the plug"})},
		"sends none for an error of another": {err: errors.New("no power")},
		"sends none for one that waits":      {err: resource.RequeueAfter(50*time.Millisecond, "wait: %w", full)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			r := counting.Named("failing").Do(fail(test.err))
			cfg := counting.Secrets("event", r)
			cfg.MaxBackoff = 50 * time.Millisecond
			bed.Start(counting.Controller(cfg))
			bed.Make(counting.Secret("cart"))
			bed.AtLeast(10, "passes", func() int { return r.Created("cart") })
			// An event that comes later shows that none is on its way before it.
			r.Do(fail(&microerror.Error{Kind: "Last", Desc: "the end"}))
			bed.Event("cart", append(test.want, "Warning Last the end")...)
		})
	}
}

func TestChangeOfErrorIsTold(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("failing").Do(fail(&microerror.Error{Kind: "First", Desc: "one"}))
	cfg := counting.Secrets("event", r)
	cfg.MaxBackoff = 50 * time.Millisecond
	bed.Start(counting.Controller(cfg))
	cart := counting.Secret("cart")
	bed.Make(cart)
	bed.Event("cart", "Warning First one")
	r.Do(fail(&microerror.Error{Kind: "Second", Desc: "two"}))
	bed.Event("cart", "Warning First one", "Warning Second two")
	bed.Remove(cart) // the same error in the deletion is no news
	bed.AtLeast(5, "deletions", func() int { return r.Deleted("cart") })
	bed.Event("cart", "Warning First one", "Warning Second two")
	r.Do(nil)
	bed.Gone(cart)
}
