package aiven

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// A project that does not answer: how long those wait who need it, and what becomes of others.
func TestNobodyWaitsForAProjectThatIsSilent(t *testing.T) {
	other := Ref{Project: "prod", Service: "kafka"}
	tests := map[string]func(c *Client, ctx context.Context, i int) error{
		"it is so for writes": func(c *Client, ctx context.Context, i int) error {
			_, err := c.CreateUser(ctx, kafka, fmt.Sprintf("app-%d", i), nil)
			return err
		},
		"it is so for shared reads": func(c *Client, ctx context.Context, _ int) error {
			_, err := c.Service(ctx, kafka)
			return err
		},
		"it is so for the CA": func(c *Client, ctx context.Context, _ int) error {
			_, err := c.CA(ctx, kafka.Project)
			return err
		},
		"it is so for documents": func(c *Client, ctx context.Context, i int) error {
			return c.GrantOpenSearch(ctx, search, fmt.Sprintf("app-%d", i), readAll)
		},
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := aivensim.New(aivensim.Options{Token: token, KeySize: 2048, ECDSA: true, UserLimit: -1})
				dev := sim.AddProject("dev")
				dev.AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
				dev.AddService("search", aivensim.ServiceConfig{Type: aivensim.OpenSearch})
				sim.AddProject("prod").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
				var hangs atomic.Bool
				answers := direct(sim)
				c, err := New(Options{Token: func() string { return token }, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					if hangs.Load() && strings.Contains(r.URL.Path, "/project/dev") {
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					return answers.RoundTrip(r)
				})})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				hangs.Store(true)
				crowd := func(from int) (waited []time.Duration) {
					var mu sync.Mutex
					var callers sync.WaitGroup
					for i := range 100 {
						callers.Go(func() {
							began := time.Now()
							err := call(c, t.Context(), from+i)
							mu.Lock()
							defer mu.Unlock()
							if waited = append(waited, time.Since(began)); err == nil {
								t.Error("an answer came")
							} else if waited[len(waited)-1] < c.timeout && !errors.Is(err, errSilent) {
								t.Errorf("after %s: %v", waited[len(waited)-1], err)
							}
						})
					}
					callers.Wait()
					return waited
				}
				longer := func(waited []time.Duration, limit time.Duration) (n int) {
					for _, d := range waited {
						if d > limit {
							n++
						}
					}
					return n
				}
				if n := longer(crowd(0), silentAfter); n > 16 {
					t.Errorf("%d of 100 waited longer than %s, want no more than the calls under way", n, silentAfter)
				}
				if n := longer(crowd(100), 0); n > 1 {
					t.Errorf("%d of 100 waited for a silent project, want the one that tries", n)
				}
				began := time.Now()
				if _, err := c.CreateUser(t.Context(), other, "app", nil); err != nil || time.Since(began) > 0 {
					t.Errorf("another project: %v after %s", err, time.Since(began))
				}
				hangs.Store(false)
				for began := time.Now(); call(c, t.Context(), 200) != nil; sleep(t.Context(), time.Second) {
					if took := time.Since(began); took > c.timeout+5*time.Second {
						t.Fatalf("%s after it answers again it counts as silent", took)
					}
				}
				for i := range 20 {
					if err := call(c, t.Context(), 300+i); err != nil {
						t.Errorf("call %d once it answers again: %v", i, err)
					}
				}
			})
		})
	}
}

func TestOneCallThatHangsIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots{size: 2, by: map[string]*slot{}}
		stop := s.watch("dev")
		sleep(t.Context(), silentAfter-1)
		s.answered("dev", 0, 200)
		sleep(t.Context(), silentAfter)
		if isClosed(s.silence("dev")) {
			t.Error("the project counts as silent, although a call was answered")
		}
		stop()
		s.watch("dev")
		sleep(t.Context(), silentAfter)
		synctest.Wait()
		if !isClosed(s.silence("dev")) {
			t.Error("the project does not count as silent, although no call was answered")
		}
		s.answered("dev", 0, 200)
		if isClosed(s.silence("dev")) {
			t.Error("the project counts as silent after an answer")
		}
	})
}
