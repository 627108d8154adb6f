package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

// slowSink is an API server that takes so long for each event.
type slowSink struct {
	events.EventSink
	takes time.Duration
	err   error

	mu    sync.Mutex
	began []time.Time
}

func (s *slowSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.mu.Lock()
	s.began = append(s.began, time.Now())
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
		return e, s.err
	}
}

func TestEventsTakeAFifthOfTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		takes, apart time.Duration
		fail         bool
	}{
		"at once":                      {},
		"an API server with time":      {takes: 3 * time.Millisecond, apart: 15 * time.Millisecond},
		"a busy API server":            {takes: 100 * time.Millisecond, apart: 500 * time.Millisecond},
		"rests do not grow for ever":   {takes: 5 * time.Second, apart: 6 * time.Second},
		"one that hangs holds up none": {takes: time.Hour, apart: eventTimeout + longestRest, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &slowSink{takes: c.takes}
				p := newPatient(sink)
				start := time.Now()
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						if _, err := p.Create(t.Context(), &eventsv1.Event{}); (err != nil) != c.fail {
							t.Errorf("the event was answered with the error %v", err)
						}
					})
				}
				wg.Wait()
				want := []time.Time{start, start.Add(c.apart), start.Add(2 * c.apart)}
				if !slices.Equal(sink.began, want) {
					t.Errorf("events were sent at %v, want %v", sink.began, want)
				}
			})
		})
	}
}

// What waits when the operator ends is dropped without a word: each would be a line in the log. The one that is on its way arrives.
func TestWaitingEventsAreDroppedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &slowSink{takes: time.Second}
		p := newPatient(sink)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := p.Create(ctx, &eventsv1.Event{}); err != nil {
					t.Errorf("an event was answered with the error %v", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		cancel()
		wg.Wait()
		if len(sink.began) != 1 {
			t.Errorf("%d events were sent, want the first alone", len(sink.began))
		}
		if took := time.Since(began); took != sink.takes {
			t.Errorf("the end took %s, want the %s of the event on its way", took, sink.takes)
		}
	})
}

func TestEventsBeyondThoseThatWaitAreSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &slowSink{takes: time.Second}
		p := newPatient(sink)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for range mostWaiting + 3 {
			wg.Go(func() {
				if _, err := p.Create(ctx, &eventsv1.Event{}); err != nil {
					t.Errorf("an event was answered with the error %v", err)
				}
			})
		}
		synctest.Wait()
		if len(sink.began) != 4 {
			t.Errorf("%d events are on their way, want the first that waited and the three beyond", len(sink.began))
		}
		cancel()
		wg.Wait()
	})
}

func TestEventsForNobodyAreNoErrors(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("events"), "cart", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err  error
		fail bool
	}{
		"a namespace that is going away": {err: terminating},
		"one that is gone":               {err: apierrors.NewNotFound(corev1.Resource("namespaces"), "shop")},
		"events that are not allowed":    {err: apierrors.NewForbidden(corev1.Resource("events"), "cart", errors.New("no")), fail: true},
		"no API server":                  {err: errors.New("connection refused"), fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newPatient(&slowSink{err: c.err}).Create(t.Context(), &eventsv1.Event{}); (err != nil) != c.fail {
				t.Errorf("answered with %v, want an error: %t", err, c.fail)
			}
		})
	}
}
