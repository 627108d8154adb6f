// Package crash stops an operator at a call of the test's choice. A Gate stands between the operator and its two servers, the API server and
// Aiven, and counts the calls. At the chosen one it shuts: the call is not sent, or it is and its answer is lost, and nothing else passes any more. The
// test then kills the operator, opens the gate and starts another one.
//
// Watches are no such calls, nor is what client libraries ask to find their way (discovery) or to elect a leader: they pass, and are not counted.
package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keysmith-io/keysmith/integration/env"
)

// Call is a call of an operator, under a name that is the same in each run.
type Call struct {
	Method string
	// Path has no query, and "*" in place of names that are made in the run.
	Path string
	// Nth counts the calls of that method and path from one on.
	Nth int
}

// Moment is where in a call an operator stops.
type Moment string

// The moments.
const (
	Before Moment = "before" // the call is not sent
	After  Moment = "after"  // the call took effect, and its answer is lost
)

// Point is where an operator stops.
type Point struct {
	Call   Call
	Moment Moment
}

// String says which call it is.
func (p Point) String() string {
	return fmt.Sprintf("%s %s %s, call %d of that kind", p.Moment, p.Call.Method, p.Call.Path, p.Call.Nth)
}

// Gate lets the calls of one operator at a time through.
type Gate struct {
	Kubernetes string // the URL at which the operator finds the API server
	Aiven      string // and the Aiven API

	mu      sync.Mutex
	mask    *strings.Replacer
	idle    sync.Cond // on mu: busy became zero
	counts  map[Call]int
	calls   []Call
	journal []string
	busy    int // calls under way
	active  time.Time
	point   Point
	reached chan struct{} // is closed at the point
	shut    bool
}

// New makes an open gate, which is there until the test ends.
func New(t testing.TB, kubernetes *rest.Config, aiven http.Handler) *Gate {
	t.Helper()
	g := &Gate{mask: strings.NewReplacer(), counts: map[Call]int{}}
	g.idle.L = &g.mu
	for _, s := range []struct {
		url    *string
		server http.Handler
	}{{&g.Kubernetes, env.Proxy(t, kubernetes)}, {&g.Aiven, aiven}} {
		server := httptest.NewServer(g.handler(s.server))
		t.Cleanup(func() {
			server.CloseClientConnections() // those of an operator that still runs
			server.Close()
		})
		*s.url = server.URL
	}
	return g
}

// StopAt begins to count anew, and shuts the gate at a point. The channel is closed when it is reached, which that of the zero Point never is. Names
// that differ from one run to another are replaced in paths: mask has pairs of old and new.
func (g *Gate) StopAt(p Point, mask ...string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mask = strings.NewReplacer(mask...)
	g.counts, g.calls, g.journal = map[Call]int{}, nil, nil
	g.point, g.reached = p, make(chan struct{})
	return g.reached
}

// Disarm takes the point back. It tells whether that was in time.
func (g *Gate) Disarm() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point = Point{}
	return !g.shut
}

// Open lets calls pass again, once all that were sent before have ended. The operator that made them must not run any more.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.busy > 0 {
		g.idle.Wait()
	}
	g.shut = false
	g.note("--- the gate is open again")
}

// Calls are the calls since the count began, in the order in which they came.
func (g *Gate) Calls() []Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Call(nil), g.calls...)
}

// Journal has a line for each call since the count began, when it ended, and one for each stop.
func (g *Gate) Journal() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.journal, "\n")
}

// Idle is how long no call has been under way.
func (g *Gate) Idle() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy > 0 {
		return 0
	}
	return time.Since(g.active)
}

func (g *Gate) handler(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !counts(r) {
			if g.isShut() {
				hold(r)
			}
			server.ServeHTTP(w, r)
			return
		}
		// Only when the body has been read, the server notices that the client is gone.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		call, ok := g.begin(r)
		if !ok {
			hold(r)
		}
		// A call that was sent takes effect, whatever becomes of its sender.
		sent := r.WithContext(context.WithoutCancel(r.Context()))
		sent.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, sent)
		if !g.end(call, answer.Code) {
			hold(r)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the client may be gone
	})
}

// hold keeps a request without an answer until its sender is gone.
func hold(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// begin tells whether a call may be sent.
func (g *Gate) begin(r *http.Request) (Call, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	call := Call{Method: r.Method, Path: made.ReplaceAllString(g.mask.Replace(r.URL.Path), "$1*")}
	if g.shut {
		return call, false
	}
	g.counts[call]++
	call.Nth = g.counts[call]
	g.calls = append(g.calls, call)
	if g.point == (Point{call, Before}) {
		g.stop()
		return call, false
	}
	g.busy++
	return call, true
}

// end tells whether a call may be answered.
func (g *Gate) end(call Call, status int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	g.active = time.Now()
	if g.busy == 0 {
		g.idle.Broadcast()
	}
	lost := ""
	if g.shut {
		lost = " (the answer was lost)"
	}
	g.note("%s %s #%d: %d%s", call.Method, call.Path, call.Nth, status, lost)
	if g.point == (Point{call, After}) {
		g.stop()
	}
	return !g.shut
}

func (g *Gate) stop() {
	g.note("--- stopped %s", g.point)
	g.shut = true
	close(g.reached)
}

func (g *Gate) note(format string, args ...any) {
	g.journal = append(g.journal, fmt.Sprintf(format, args...))
}

func (g *Gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

var (
	// made finds the names of users, entries and events, which are made in the run.
	made = regexp.MustCompile(`(/(?:user|acl|events)/)[^/]+`)
	// discovery finds the paths that are about no object.
	discovery = regexp.MustCompile(`^/(api(/v1)?|apis(/[^/]+){0,2}|openapi/.*|version)/?$`)
)

// counts tells whether a request is a call at which an operator may be stopped.
func counts(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return (watch == "" || watch == "false" || watch == "0") && !discovery.MatchString(r.URL.Path) &&
		!strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/")
}
