package chaos

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

func TestGateFindsWhatComesTooEarly(t *testing.T) {
	start := time.Now()
	tests := map[string]struct {
		after            time.Duration
		token            string
		forgotten, early bool
	}{
		"it finds a request within the wait":              {after: 3 * time.Second, token: "t", early: true},
		"it lets what was under way come":                 {after: slack / 2, token: "t"},
		"it lets a request come after the wait":           {after: 5 * time.Second, token: "t"},
		"it lets another token come":                      {after: 3 * time.Second, token: "u"},
		"it lets a new process come that knows of no 429": {after: 3 * time.Second, token: "t", forgotten: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := newGate(aivensim.New(aivensim.Options{}))
			g.ask("t", 5*time.Second, start)
			if tt.forgotten {
				g.forget("t")
			}
			g.arrive(tt.token, "GET /", start.Add(tt.after))
			if early, _ := g.found(); len(early) > 0 != tt.early {
				t.Errorf("got %q", early)
			}
		})
	}
}

func TestGateReadsHowLongToWait(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		header, body string
		want         time.Duration
	}{
		"it reads seconds":          {header: "7", body: "try again in 9s", want: 7 * time.Second},
		"it reads a date":           {header: "Tue, 01 Jan 2030 12:00:30 GMT", want: 30 * time.Second},
		"it reads the text":         {body: "Rate limit 1 exceeded - try again in 9s", want: 9 * time.Second},
		"it knows when it says not": {body: "no", want: 0},
	} {
		if got := asked(tt.header, tt.body, now); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestGatePassesRequestsOnAndFindsBlindPOSTs(t *testing.T) {
	sim := aivensim.New(aivensim.Options{Token: "t", KeySize: 2048, ECDSA: true})
	sim.AddProject("dev").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
	g := newGate(sim)
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	send := func(method, path, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "aivenv1 t")
		rsp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		_ = rsp.Body.Close()
		return rsp.StatusCode
	}
	const users = "/v1/project/dev/service/kafka/user"
	sim.Inject(aivensim.Rule{Method: http.MethodPost, Count: 1, Loss: aivensim.LossReset})
	if status := send(http.MethodPost, users, `{"username":"app"}`); status != 0 {
		t.Errorf("the answer should be lost: %d", status)
	}
	if status := send(http.MethodPost, users, `{"username":"app"}`); status != http.StatusOK {
		t.Errorf("the body does not arrive: %d", status)
	}
	if _, blind := g.found(); len(blind) != 1 || strings.Count(blind[0], `{"username":"app"}`) < 3 {
		t.Errorf("got %q", blind)
	}
	for range 2 { // made, deleted and made again
		send(http.MethodDelete, users+"/app", "")
		if status := send(http.MethodPost, users, `{"username":"app"}`); status != http.StatusOK {
			t.Errorf("it cannot be made again: %d", status)
		}
	}
	if _, blind := g.found(); len(blind) != 1 {
		t.Errorf("it takes another user for a repetition: %q", blind[1:])
	}
	sim.Inject(aivensim.Rule{Answer: aivensim.TooManyRequests(time.Minute, aivensim.RetryAfterText)})
	send(http.MethodGet, "/v1/project", "")
	g.arrive("t", "GET /", time.Now().Add(2*slack))
	if early, _ := g.found(); len(early) != 1 {
		t.Errorf("it does not know that the token has to wait: %q", early)
	}
}
