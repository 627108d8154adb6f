package aiven

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// direct carries requests to a handler without a network, so that the time of a synctest bubble goes on.
func direct(h http.Handler) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Body == nil {
			r.Body = http.NoBody // as servers have it
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		return answer.Result(), r.Context().Err()
	})
}

// latency is how long each request takes.
const latency = 50 * time.Millisecond

// crowd is a client with many callers, and a simulator, in the time of a synctest bubble.
type crowd struct {
	*Client
	sim   *aivensim.Simulator
	kafka *aivensim.Service
	began time.Time
}

func newCrowd(t *testing.T, o aivensim.Options) crowd {
	o.Token, o.KeySize, o.ECDSA, o.UserLimit = token, 2048, true, -1
	sim := aivensim.New(o)
	service := sim.AddProject("dev").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
	sim.SetLatency(latency)
	c, err := New(Options{Token: func() string { return token }, Transport: direct(sim)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return crowd{c, sim, service, time.Now()}
}

// create makes n users side by side, each as the queue does: again after the time that the error asks for.
func (c crowd) create(t *testing.T, n int) {
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			for {
				_, err := c.CreateUser(t.Context(), kafka, fmt.Sprintf("app-%d", i), nil)
				if err == nil {
					return
				}
				if !errors.Is(err, ErrThrottled) {
					t.Error(err)
					return
				}
				wait, _ := resource.After(err)
				sleep(t.Context(), wait)
			}
		})
	}
	callers.Wait()
}

// arrivals tells when requests arrived, since the beginning.
func (c crowd) arrivals() []time.Duration {
	var out []time.Duration
	for _, e := range c.sim.Journal() {
		out = append(out, e.Time.Sub(c.began))
	}
	slices.Sort(out)
	return out
}

func (c crowd) check(t *testing.T, users int) aivensim.Counters {
	t.Helper()
	n := c.sim.Counters()
	diff(t, users, n.UsersCreated)
	diff(t, 0, n.BlindRepeats)
	return n
}

func TestEverybodyWaitsAndComesBackGradually(t *testing.T) {
	const callers = 200
	tests := map[string]struct {
		asked time.Duration
		as    aivensim.RetryAfterForm
		want  time.Duration
	}{
		"it is asked in seconds":            {30 * time.Second, aivensim.RetryAfterSeconds, 30 * time.Second},
		"it is asked by a date":             {30 * time.Second, aivensim.RetryAfterDate, 30 * time.Second},
		"it is asked in the text alone":     {30 * time.Second, aivensim.RetryAfterText, 30 * time.Second},
		"it is asked to wait for years":     {5e4 * time.Hour, aivensim.RetryAfterSeconds, maxThrottle},
		"it is asked to wait until a year":  {5e4 * time.Hour, aivensim.RetryAfterDate, maxThrottle},
		"it is asked for years in the text": {5e4 * time.Hour, aivensim.RetryAfterText, maxThrottle},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, aivensim.Options{})
				c.sim.Inject(aivensim.Rule{Count: 1, Answer: aivensim.TooManyRequests(tt.asked, tt.as)})
				c.create(t, callers)
				n := c.check(t, callers)
				diff(t, 1, n.RateLimited[aivensim.TokenID(token)])
				// Those that were on their way cannot be called back.
				if early := n.EarlyRequests[aivensim.TokenID(token)]; early > 16 && tt.want == tt.asked {
					t.Errorf("%d requests came too early", early)
				}
				arrivals, perSecond := c.arrivals(), map[time.Duration]int{}
				for _, at := range arrivals {
					perSecond[at/time.Second]++
					switch {
					case at <= latency: // no later than the refusal
					case at < tt.want:
						t.Errorf("a request came after %s", at)
					}
				}
				if last := arrivals[len(arrivals)-1]; last > tt.want+tt.want/5+2*time.Second {
					t.Errorf("the last request came after %s", last)
				}
				for second, n := range perSecond {
					if n > callers/2 {
						t.Errorf("%d requests came in second %d", n, second)
					}
				}
			})
		})
	}
}

func TestALimitIsFoundWithoutAStampede(t *testing.T) {
	for name, as := range map[string]aivensim.RetryAfterForm{"with a header": aivensim.RetryAfterSeconds, "with a text": aivensim.RetryAfterText} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const callers = 300
				limit := aivensim.PerMinute120() // 120 at once, then two a second
				limit.RetryAfter = as
				c := newCrowd(t, aivensim.Options{RateLimit: limit})
				c.create(t, callers)
				n := c.check(t, callers)
				if refused := n.RateLimited[aivensim.TokenID(token)]; refused > callers/2 {
					t.Errorf("%d requests were refused", refused)
				}
				// Those that were on their way when the first one was refused cannot be called back.
				if early := n.EarlyRequests[aivensim.TokenID(token)]; early > 20 {
					t.Errorf("%d requests came too early", early)
				}
				if took := time.Since(c.began); took > 2*time.Minute {
					t.Errorf("it took %s, where the limit allows 90 s", took)
				}
			})
		})
	}
}

func TestALimitThatStaysIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, aivensim.Options{})
		c.sim.Inject(aivensim.Rule{For: time.Hour, Answer: aivensim.TooManyRequests(5e4*time.Hour, aivensim.RetryAfterSeconds)})
		c.create(t, 100)
		c.check(t, 100)
		var during int
		for _, at := range c.arrivals() {
			if at < time.Hour {
				during++
			}
		}
		// The first answer is late for the 16 that are on their way; then one comes each time.
		if during > 16+12 {
			t.Errorf("%d requests within an hour that allows none", during)
		}
	})
}

func TestABrokenProjectHoldsUpNoOther(t *testing.T) {
	tests := map[string]struct {
		rule      aivensim.Rule // of the other project
		throttled bool          // the token had to wait before
		want      time.Duration
	}{
		"one that fails":                    {rule: aivensim.Rule{Answer: aivensim.Error(503, "", "no")}, want: time.Second},
		"one that hangs":                    {rule: aivensim.Rule{Delay: time.Hour}, want: time.Second},
		"one that hangs after a throttling": {rule: aivensim.Rule{Delay: time.Hour}, throttled: true, want: 15 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, aivensim.Options{})
				c.sim.AddProject("broken")
				if tt.throttled {
					c.sim.Inject(aivensim.Rule{Count: 1, Project: "dev", Answer: aivensim.TooManyRequests(10*time.Second, aivensim.RetryAfterSeconds)})
				}
				tt.rule.Project = "broken"
				c.sim.Inject(tt.rule)
				ctx, cancel := context.WithCancel(t.Context())
				var others sync.WaitGroup
				for range 100 {
					others.Go(func() {
						for ctx.Err() == nil {
							_, _ = c.User(ctx, Ref{"broken", "s"}, "a")
							sleep(ctx, time.Second)
						}
					})
				}
				c.create(t, 50)
				if took := time.Since(c.began); took > tt.want {
					t.Errorf("it took %s", took)
				}
				cancel()
				others.Wait()
			})
		})
	}
}

func TestWhoLeavesTheQueueTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots{size: 2, by: map[string]*slot{}}
		enter := func(ctx context.Context) error {
			_, err := s.enter(ctx, "dev")
			return err
		}
		s.of("dev")
		s.narrow()
		diff(t, nil, enter(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), queueTime/2)
		defer cancel()
		isError(t, enter(ctx), context.DeadlineExceeded)
		isError(t, enter(t.Context()), ErrThrottled)
		diff(t, 3*queueTime/2, time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
		s.leave("dev")
		diff(t, nil, enter(t.Context()))
		s.answered("dev", 0, 200) // an answer to what was sent before
		isError(t, enter(ctx), context.DeadlineExceeded)
		s.answered("dev", 1, 200)
		diff(t, nil, enter(t.Context()))
		s.answered("dev", 1, 200) // no further than the size
		isError(t, enter(ctx), context.DeadlineExceeded)
	})
}
