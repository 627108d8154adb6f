package service

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestWithoutTheLeaseNothingIsChanged(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/keysmith/leases"
	type request struct {
		method, path string
		status       int
	}
	renewal := request{http.MethodPut, leases + "/keysmith", 200}
	tests := map[string]struct {
		before *request
		later  time.Duration
		may    bool
	}{
		"it may not before the lease was taken":     {},
		"it may once it has made the lease":         {before: &request{http.MethodPost, leases, 201}, may: true},
		"it may once it has taken or renewed it":    {before: &renewal, later: leaseTime, may: true},
		"it may not when it stood still":            {before: &renewal, later: leaseTime + time.Millisecond},
		"it may not when others were faster":        {before: &request{http.MethodPut, leases + "/keysmith", 409}},
		"it may not for having looked at the lease": {before: &request{http.MethodGet, leases + "/keysmith", 200}},
		"it may not for having another lease":       {before: &request{http.MethodPut, leases + "/other", 200}},
		"it may not for having written an event":    {before: &request{http.MethodPost, "/apis/events.k8s.io/v1/namespaces/keysmith/events", 201}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now, arrived := time.Now(), 0
			l := newLease("keysmith")
			l.now = func() time.Time { return now }
			send := func(sent request) error {
				way := l.guard(roundTripper(func(*http.Request) (*http.Response, error) {
					arrived++
					return &http.Response{StatusCode: sent.status, Body: http.NoBody}, nil
				}))
				rsp, err := way.RoundTrip(httptest.NewRequest(sent.method, sent.path, http.NoBody))
				if err == nil {
					err = rsp.Body.Close()
				}
				return err
			}
			if tt.before != nil {
				if err := send(*tt.before); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(tt.later)
			if err := l.check(); (err == nil) != tt.may {
				t.Errorf("check: %v", err)
			}
			arrived = 0
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				if err := send(request{method, "/api/v1/namespaces/shop/secrets/cart", 200}); (err == nil) != tt.may {
					t.Errorf("%s of a Secret: %v", method, err)
				}
			}
			if arrived > 0 && !tt.may {
				t.Errorf("%d requests were sent", arrived)
			}
			for method, path := range map[string]string{
				http.MethodGet: "/api/v1/secrets", http.MethodPost: "/apis/events.k8s.io/v1/namespaces/keysmith/events", http.MethodPut: leases + "/keysmith",
			} {
				if err := send(request{method, path, 200}); err != nil {
					t.Errorf("%s %s is refused: %v", method, path, err)
				}
			}
		})
	}
}
