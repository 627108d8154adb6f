package aiven

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhenAnACLDocumentIsWritten(t *testing.T) {
	type step struct {
		after    time.Duration // the one before
		grant    string        // somebody's grant comes
		announce string        // or is announced
	}
	few := func(n int) (steps []step) {
		for range n {
			steps = append(steps, step{grant: "x"})
		}
		return steps
	}
	tests := map[string]struct {
		quiet time.Duration
		steps []step
		took  time.Duration
		size  int
	}{
		"it waits a moment for others":       {quiet: gathering, steps: few(3), took: gathering, size: 3},
		"it counts from the last one":        {quiet: pace, steps: []step{{grant: "a"}, {after: pace - 1, grant: "b"}}, took: 2*pace - 1, size: 2},
		"it does not wait where it has many": {quiet: pace, steps: few(batchSize), size: batchSize},
		"it waits for none longer than that": {quiet: longest, steps: []step{{grant: "a"}, {after: longest - 1, grant: "b"}}, took: longest, size: 2},
		"it waits for what was announced": {
			quiet: gathering, steps: []step{{announce: "a"}, {announce: "b"}, {grant: "a"}, {after: time.Second, grant: "b"}},
			took: time.Second + gathering, size: 2,
		},
		"it waits for what was announced though it has many": {
			quiet: pace, steps: slices.Concat([]step{{announce: "a"}}, few(batchSize), []step{{after: time.Second, grant: "a"}}),
			took: time.Second, size: batchSize + 1,
		},
		"it does not where it has very many": {quiet: pace, steps: slices.Concat([]step{{announce: "a"}}, few(maxBatch)), size: maxBatch},
		"it does not wait for ever for what was announced": {
			quiet: gathering, steps: []step{{announce: "a"}, {grant: "b"}, {after: time.Second, announce: "c"}}, took: longest, size: 1,
		},
		"it forgets an announcement that was for nothing": {
			quiet: gathering, steps: []step{{announce: "a"}, {after: longest, grant: "b"}}, took: longest + gathering, size: 1,
		},
		"it ends where nothing comes": {quiet: pace, took: pace},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := &documentWriter{}
				take := func(s step) {
					sleep(t.Context(), s.after)
					if s.announce != "" {
						w.announce(s.announce)
						return
					}
					w.mu.Lock()
					defer w.mu.Unlock()
					w.add(&edit{username: s.grant})
				}
				// The writer starts with the first grant.
				for len(tt.steps) > 0 && len(w.queue) == 0 {
					take(tt.steps[0])
					tt.steps = tt.steps[1:]
				}
				go func() {
					for _, s := range tt.steps {
						take(s)
					}
				}()
				batch := w.gather(t.Context(), tt.quiet)
				if took := time.Since(began); took != tt.took || len(batch) != tt.size {
					t.Errorf("got %d changes after %s, want %d after %s", len(batch), took, tt.size, tt.took)
				}
				synctest.Wait()
			})
		})
	}
}
