package stage

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAwait(t *testing.T) {
	errNotYet := errors.New("not yet")
	for name, tc := range map[string]struct {
		limit  time.Duration
		cancel bool
		checks int // that fail
		want   error
	}{
		"it returns at once":               {limit: time.Minute},
		"it repeats":                       {limit: time.Minute, checks: 2},
		"it gives up, and tells why":       {limit: time.Millisecond, checks: 1000, want: errNotYet},
		"it ends with the context":         {limit: time.Minute, cancel: true, checks: 1000, want: context.Canceled},
		"it tells why with the context":    {limit: time.Minute, cancel: true, checks: 1000, want: errNotYet},
		"it returns what is so by the end": {limit: time.Minute, cancel: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.cancel {
				cancel()
			}
			n := 0
			err := Await(ctx, tc.limit, func(context.Context) error {
				n++
				if n <= tc.checks {
					return errNotYet
				}
				return nil
			})
			if !errors.Is(err, tc.want) {
				t.Errorf("want %v, got %v", tc.want, err)
			}
		})
	}
}

func TestTail(t *testing.T) {
	for name, tc := range map[string]struct {
		log  string
		want string
	}{
		"it takes the end":            {"a\nb\nc\n", "b\nc"},
		"it takes all of a short log": {"a\n", "a"},
		"it takes an empty one":       {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Tail(tc.log, 2)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
