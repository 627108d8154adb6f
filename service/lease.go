package service

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// leaseTime is how long after its lease was renewed a process may change anything. The election gives up after the same time without a renewal, and no
// other process takes the lease within five seconds more.
const leaseTime = 10 * time.Second

// lease keeps a process that stood still from going on as if it led: one that was stopped, or swapped out, or whose machine slept. The election itself
// notices that another process leads only ten seconds after it goes on.
//
// It stands between the operator and the API server and sees the lease being renewed.
type lease struct {
	path string // of the lease, its end
	now  func() time.Time

	mu      sync.Mutex
	renewed time.Time // when the last renewal that succeeded was sent
}

func newLease(name string) *lease { return &lease{path: "/leases/" + name, now: time.Now} }

// check fails where another process may lead.
func (l *lease) check() error {
	l.mu.Lock()
	renewed := l.renewed
	l.mu.Unlock()
	now := l.now()
	// A machine that sleeps may stop the one clock and not the other.
	if age := max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))); age > leaseTime {
		return fmt.Errorf("change nothing: the lease was not renewed for %s, and another process may lead", age.Round(time.Second))
	}
	return nil
}

// guard wraps the way to the API server: without the lease nothing is changed there but the lease itself and events, which speak of it.
func (l *lease) guard(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		of := func(resource string) bool { return strings.Contains(r.URL.Path+"/", "/"+resource+"/") }
		if r.Method == http.MethodGet || of("events") {
			return next.RoundTrip(r)
		}
		if !of("leases") {
			if err := l.check(); err != nil {
				return nil, err
			}
			return next.RoundTrip(r)
		}
		sent := l.now()
		rsp, err := next.RoundTrip(r)
		if err == nil && rsp.StatusCode < http.StatusMultipleChoices && (r.Method == http.MethodPost || strings.HasSuffix(r.URL.Path, l.path)) {
			l.mu.Lock()
			l.renewed = sent
			l.mu.Unlock()
		}
		return rsp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
