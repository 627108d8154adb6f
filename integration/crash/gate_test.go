package crash

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// server counts what it is asked.
type server struct{ n atomic.Int32 }

func (s *server) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.n.Add(1)
	w.WriteHeader(http.StatusTeapot)
}

func newGate(t *testing.T) (*Gate, *server) {
	t.Helper()
	s := &server{}
	return New(t, &rest.Config{Host: "http://127.0.0.1:1"}, s), s
}

// post returns the status, or zero if there is no answer until ctx ends.
func post(ctx context.Context, t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer a.Body.Close()
	return a.StatusCode
}

func TestGateShutsAtACall(t *testing.T) {
	second := Call{Method: http.MethodPost, Path: "/v1/project/p/service/s/user/*", Nth: 2}
	tests := map[string]struct {
		point Point
		sent  int32
	}{
		"it does not send the call":                  {Point{second, Before}, 1},
		"it sends the call and withholds the answer": {Point{second, After}, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, s := newGate(t)
			reached := g.StopAt(tt.point, "one-", "")
			if got := post(t.Context(), t, g.Aiven+"/v1/project/one-p/service/s/user/a?x=y"); got != http.StatusTeapot {
				t.Errorf("the first call is answered %d", got)
			}
			dying, die := context.WithCancel(t.Context())
			answer := make(chan int)
			go func() { answer <- post(dying, t, g.Aiven+"/v1/project/p/service/s/user/b") }()
			select {
			case <-reached:
			case <-time.After(time.Minute):
				t.Fatal("the point is not reached")
			}
			if g.Disarm() {
				t.Error("the point is taken back although it was reached")
			}
			die()
			if got := <-answer; got != 0 {
				t.Errorf("the call at the point is answered %d", got)
			}
			if got := s.n.Load(); got != tt.sent {
				t.Errorf("%d calls were sent, want %d", got, tt.sent)
			}
			g.Open()
			if got := post(t.Context(), t, g.Aiven+"/v1/project/p/service/s/user/c"); got != http.StatusTeapot {
				t.Errorf("after the gate was opened, a call is answered %d", got)
			}
		})
	}
}

func TestGateCounts(t *testing.T) {
	g, _ := newGate(t)
	g.StopAt(Point{})
	for _, path := range []string{
		"/api/v1/namespaces/a/secrets/b", "/api/v1/namespaces/a/secrets/b", "/api/v1/secrets?watch=true", "/apis", "/apis/apps/v1",
		"/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "/apis/events.k8s.io/v1/namespaces/a/events/made",
	} {
		post(t.Context(), t, g.Aiven+path)
	}
	want := []Call{
		{http.MethodPost, "/api/v1/namespaces/a/secrets/b", 1},
		{http.MethodPost, "/api/v1/namespaces/a/secrets/b", 2},
		{http.MethodPost, "/apis/events.k8s.io/v1/namespaces/a/events/*", 1},
	}
	if diff := cmp.Diff(want, g.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if !g.Disarm() {
		t.Error("no point was reached, and yet it is too late to take it back")
	}
}
