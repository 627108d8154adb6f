package controller

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// throttled is the error of a call that the API does not allow for a while.
func throttled(t *testing.T) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	api, err := aiven.New(aiven.Options{URL: server.URL, Token: func() string { return "t" }})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	return api.Probe(t.Context())
}

func TestThrottlingSaysNothingOfTheApplication(t *testing.T) {
	busy := throttled(t)
	if !errors.Is(busy, aiven.ErrThrottled) {
		t.Fatalf("got %v", busy)
	}
	tests := map[string]struct {
		before  error // of the pass before; for "none" there was none
		none    bool
		edited  bool
		missing bool // the Secret is
		err     error

		ready, reason string
		note          bool
		state         string // of the binding
		synchronized  string
	}{
		"it stays ready": {
			err: busy, ready: "True", reason: reasonSynchronized, note: true, state: StateReady, synchronized: v1.RolloutComplete,
		},
		"it stays what it was": {
			before: errors.New("oops"), err: busy, ready: "False", reason: reasonLocal, note: true, state: StateFailed, synchronized: v1.RolloutFailed,
		},
		"it says so of an application that was never looked at": {
			none: true, err: busy, ready: "False", reason: reasonThrottled, state: StateWaiting, synchronized: v1.RolloutFailed,
		},
		"it does not call a change done": {
			edited: true, err: busy, ready: "False", reason: reasonThrottled, state: StateReady, synchronized: v1.RolloutFailed,
		},
		"it does not call an application ready whose Secret is gone": {
			missing: true, err: busy, ready: "False", reason: reasonThrottled, state: StateReady, synchronized: v1.RolloutFailed,
		},
		"it does not hide another error": {
			err: errors.Join(busy, errors.New("oops")), ready: "False", reason: reasonLocal, state: StateFailed, synchronized: v1.RolloutFailed,
		},
		"it is the same behind what a step adds": {
			err: resource.Partial(errors.Join(busy, busy)), ready: "True", reason: reasonSynchronized, note: true, state: StateReady, synchronized: v1.RolloutComplete,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, _ := newApplication(clocktesting.NewFakePassiveClock(now))
			object := app()
			b := binding.FromApplication(object, settings)[0].Bindings[0]
			b.Ref, b.Username = kafkaRef, user(0)
			pass := func(err error) {
				set := &binding.Set{Namespace: "shop", Application: "cart", Secret: "creds", Bindings: []*binding.Binding{b}, Current: secretOf(user(0))}
				if b.Published = err == nil; tt.missing {
					set.Current = nil
				}
				a.Report(object, []resource.Result{{Scope: set, Operation: resource.Create, Err: err}})
			}
			if !tt.none {
				pass(tt.before)
			}
			if tt.edited {
				object.Generation++
			}
			for range 2 { // the note does not grow
				pass(tt.err)
			}
			is := ready(object)
			if got := string(is.Status) + " " + is.Reason; got != tt.ready+" "+tt.reason {
				t.Errorf("got %s, want %s %s", got, tt.ready, tt.reason)
			}
			if n := strings.Count(is.Message, throttledNote); n > 1 || n == 1 != tt.note {
				t.Errorf("the note is there %d times: %s", n, is.Message)
			}
			got := []any{object.Status.Bindings[0].State, object.Status.SynchronizationState, object.Status.ObservedGeneration}
			if diff := cmp.Diff([]any{tt.state, tt.synchronized, object.Generation}, got); diff != "" {
				t.Errorf("binding, state and generation (-want +got):\n%s", diff)
			}
			if tt.note && tt.before == nil && condition(object, v1.ConditionSucceeded).Status != corev1.ConditionTrue {
				t.Errorf("conditions contradict each other: %+v", object.Status.Conditions)
			}
		})
	}
}
