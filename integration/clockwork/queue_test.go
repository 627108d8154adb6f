package clockwork

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/integration/env"
)

func item(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

func TestQueue(t *testing.T) {
	tests := map[string]struct {
		do   func(q *queue, move func(time.Duration))
		want []string // in the order in which workers get them
		next time.Duration
	}{
		"it hands out items once, in their order": {
			do: func(q *queue, _ func(time.Duration)) {
				q.Add(item("b"))
				q.Add(item("a"))
				q.Add(item("b"))
			},
			want: []string{"b", "a"},
		},
		"it holds items back until the clock has moved on": {
			do: func(q *queue, move func(time.Duration)) {
				q.AddAfter(item("later"), 3*time.Hour)
				q.AddAfter(item("b"), 2*time.Hour)
				q.AddAfter(item("a"), time.Hour)
				move(2 * time.Hour)
			},
			want: []string{"a", "b"}, next: 3 * time.Hour,
		},
		"it takes the earliest of several moments": {
			do: func(q *queue, move func(time.Duration)) {
				q.AddAfter(item("a"), 2*time.Hour)
				q.AddAfter(item("a"), time.Hour)
				q.AddAfter(item("a"), 3*time.Hour)
				move(time.Hour)
			},
			want: []string{"a"},
		},
		"it forgets a moment when the item comes earlier": {
			do: func(q *queue, move func(time.Duration)) {
				q.AddAfter(item("a"), time.Hour)
				q.Add(item("a"))
				move(2 * time.Hour)
			},
			want: []string{"a"},
		},
		"it waits for the back-off": {
			do: func(q *queue, move func(time.Duration)) {
				q.AddRateLimited(item("a"))
				move(time.Second)
				q.AddRateLimited(item("b"))
			},
			want: []string{"a"}, next: 2 * time.Second,
		},
		"it hands out again what is added while it is worked on": {
			do: func(q *queue, _ func(time.Duration)) {
				q.Add(item("a"))
				got, _ := q.Get()
				q.Add(item("a"))
				q.Add(item("b"))
				q.Done(got)
			},
			want: []string{"b", "a"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			clk := clocktesting.NewFakePassiveClock(start)
			q := newQueue(clk, workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute))
			tc.do(q, func(d time.Duration) {
				clk.SetTime(clk.Now().Add(d))
				q.release()
			})
			var got []string
			for q.Len() > 0 {
				i, _ := q.Get()
				got = append(got, i.Name)
				q.Done(i)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
			var next time.Duration
			if at := q.next(); !at.IsZero() {
				next = at.Sub(start)
			}
			if next != tc.next {
				t.Errorf("the next moment is after %s, want %s", next, tc.next)
			}
			q.ShutDown()
			if _, down := q.Get(); !down || !q.ShuttingDown() {
				t.Error("it goes on after it was shut down")
			}
		})
	}
}

func TestQueueIsIdleWhileItsWorkersWait(t *testing.T) {
	q := newQueue(clocktesting.NewFakePassiveClock(time.Now()), nil)
	if idle, _ := q.idle(); idle {
		t.Error("it is idle before it has a worker")
	}
	begun, finish := make(chan reconcile.Request), make(chan struct{})
	go func() {
		for {
			i, down := q.Get()
			if down {
				return
			}
			begun <- i
			<-finish
			q.Done(i)
		}
	}()
	rests := func() {
		env.Eventually(t, Deadline, func(context.Context) error {
			if idle, _ := q.idle(); !idle {
				return errors.New("it is not idle")
			}
			return nil
		})
	}
	rests()
	q.AddAfter(item("a"), short/10)
	if idle, _ := q.idle(); idle {
		t.Error("it is idle before a short delay has ended")
	}
	<-begun
	if idle, _ := q.idle(); idle {
		t.Error("it is idle while an item is worked on")
	}
	finish <- struct{}{}
	rests()
	if _, taken := q.idle(); taken != 1 {
		t.Errorf("%d items were handed out, want 1", taken)
	}
	q.ShutDown()
}
