package resource

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/giantswarm/microerror"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestOutcomeOf(t *testing.T) {
	var (
		failed   = errors.New("boom")
		waiting  = RequeueAfter(time.Minute, "not yet")
		terminal = reconcile.TerminalError(errors.New("never"))
		conflict = apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "a", errors.New("changed"))
	)
	type answer struct {
		Outcome Outcome
		After   time.Duration
	}
	tests := map[string]struct {
		err  error
		want answer
	}{
		"is done without an error":                            {nil, answer{Done, 0}},
		"waits for the given time":                            {waiting, answer{Waiting, time.Minute}},
		"waits for an event where no time is given":           {RequeueAfter(0, "x"), answer{Waiting, 0}},
		"takes a negative time for none":                      {RequeueAfter(-1, "x"), answer{Waiting, 0}},
		"waits a moment after a conflict":                     {conflict, answer{Waiting, ConflictDelay}},
		"is terminal":                                         {terminal, answer{Terminal, 0}},
		"has failed otherwise":                                {failed, answer{Failed, 0}},
		"looks through a wrap":                                {fmt.Errorf("x: %w", waiting), answer{Waiting, time.Minute}},
		"looks through a wrapped conflict":                    {fmt.Errorf("x: %w", conflict), answer{Waiting, ConflictDelay}},
		"looks through a partial error":                       {Partial(terminal), answer{Terminal, 0}},
		"looks through a mask":                                {microerror.Mask(fmt.Errorf("x: %w", terminal)), answer{Terminal, 0}},
		"takes the outermost statement, terminal":             {reconcile.TerminalError(waiting), answer{Terminal, 0}},
		"takes the outermost statement, waiting":              {RequeueAfter(time.Second, "x: %w", terminal), answer{Waiting, time.Second}},
		"is terminal without a cause":                         {reconcile.TerminalError(nil), answer{Terminal, 0}},
		"takes the worst of several, failed":                  {errors.Join(waiting, failed, terminal), answer{Failed, time.Minute}},
		"takes the worst of several, terminal":                {errors.Join(waiting, terminal), answer{Terminal, time.Minute}},
		"takes the earliest of several":                       {errors.Join(waiting, RequeueAfter(time.Second, "x")), answer{Waiting, time.Second}},
		"ignores those without a time for the earliest":       {errors.Join(waiting, RequeueAfter(0, "x")), answer{Waiting, time.Minute}},
		"looks through a wrapped join":                        {fmt.Errorf("x: %w", errors.Join(terminal, failed)), answer{Failed, 0}},
		"looks into an aggregate":                             {utilerrors.NewAggregate([]error{terminal, waiting}), answer{Terminal, time.Minute}},
		"does not take a terminal part for the whole":         {utilerrors.NewAggregate([]error{terminal, failed}), answer{Failed, 0}},
		"does not take another API error for a conflict":      {apierrors.NewForbidden(schema.GroupResource{}, "a", nil), answer{Failed, 0}},
		"does not take a terminal conflict for a mere delay":  {reconcile.TerminalError(conflict), answer{Terminal, 0}},
		"fails where a conflict comes together with a defect": {errors.Join(conflict, failed), answer{Failed, ConflictDelay}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			after, ok := After(tc.err)
			got := answer{Result{Err: tc.err}.Outcome(), after}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if ok != (after > 0) {
				t.Errorf("After() = %s, %t", after, ok)
			}
		})
	}
}

func TestRequeueAfter(t *testing.T) {
	cause := errors.New("no address")
	err := RequeueAfter(time.Second, "service %s is not running: %w", "a", cause)
	if diff := cmp.Diff("service a is not running: no address", err.Error()); diff != "" {
		t.Error(diff)
	}
	if !errors.Is(err, cause) {
		t.Error("it keeps the cause: got none")
	}
}

func TestPartial(t *testing.T) {
	boom := errors.New("boom")
	tests := map[string]struct {
		err  error
		want bool
	}{
		"is partial":                        {Partial(boom), true},
		"is partial when wrapped":           {microerror.Mask(fmt.Errorf("x: %w", Partial(boom))), true},
		"is not partial otherwise":          {boom, false},
		"is not partial without an error":   {Partial(nil), false},
		"is not partial with another cause": {errors.Join(Partial(boom), boom), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsPartial(tc.err); got != tc.want {
				t.Errorf("got %t", got)
			}
			if tc.err != nil && !errors.Is(tc.err, boom) {
				t.Error("it keeps the cause: got none")
			}
		})
	}
	if err := Partial(nil); err != nil {
		t.Errorf("nothing wrapped is nothing: got %v", err)
	}
}
