package chaos

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// slack is how long after a 429 requests may still arrive that were under way when it was answered.
const slack = time.Second

// gate stands before the simulator. It finds requests that come although their token was asked to wait, and keeps what led to a POST that was
// repeated blindly.
type gate struct {
	sim *aivensim.Simulator

	mu    sync.Mutex
	waits map[string]wait // by token
	early []string        // what came too early
	trail []string        // the last requests and their answers
	blind []string        // the trail up to each blind POST
	count int             // blind POSTs
}

type wait struct{ asked, until time.Time }

// trailSize is how many lines of requests and answers are kept.
const trailSize = 400

func newGate(sim *aivensim.Simulator) *gate { return &gate{sim: sim, waits: map[string]wait{}} }

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	what := r.Method + " " + r.URL.Path
	g.arrive(token, what, time.Now())
	if r.Method == http.MethodPost { // their bodies hold no secrets
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		what += " " + strings.TrimSpace(string(body))
	}
	what += " (token " + aivensim.TokenID(token) + ")"
	g.follow(what)
	rec := &recorder{ResponseWriter: w}
	defer func() { g.follow("answer " + strconv.Itoa(rec.status) + " to " + what) }() // the simulator may panic to lose the answer
	g.sim.ServeHTTP(rec, r)
	if rec.status == http.StatusTooManyRequests {
		g.ask(token, asked(rec.Header().Get("Retry-After"), rec.body.String(), time.Now()), time.Now())
	}
}

// follow adds a line to the trail, and keeps it once the simulator has found another blind POST.
func (g *gate) follow(line string) {
	blind := g.sim.Counters().BlindRepeats
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trail = append(g.trail, time.Now().UTC().Format("15:04:05.000 ")+line)
	g.trail = g.trail[max(0, len(g.trail)-trailSize):]
	if blind <= g.count {
		return
	}
	g.count = blind
	if post, ok := strings.CutPrefix(line, "answer "); ok {
		_, post, _ = strings.Cut(post, " to ")
		if trail := blindly(post, g.trail); trail != nil {
			g.blind = append(g.blind, post+"\n        "+strings.Join(trail, "\n        "))
		}
	}
}

var postedUser = regexp.MustCompile(`^POST (\S+)/(?:user|acl) .*"username":"([^"]+)"`)

// blindly returns what happened on the service between a POST and its repetition, nil if the user that it is about was deleted in between: then it is
// another one that is made, and no repetition.
func blindly(post string, trail []string) []string {
	m := postedUser.FindStringSubmatch(post)
	if m == nil {
		return []string{}
	}
	var out []string
	for i, posts := len(trail)-1, 0; i >= 0 && posts < 2; i-- {
		_, line, _ := strings.Cut(trail[i], " ")
		switch {
		case line == post:
			posts++
		case posts == 1 && strings.HasPrefix(line, "DELETE "+m[1]+"/user/"+m[2]+" "):
			return nil
		}
		if strings.Contains(line, m[1]) {
			out = append(out, trail[i])
		}
	}
	slices.Reverse(out)
	return out
}

func (g *gate) arrive(token, what string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w, ok := g.waits[token]; ok && now.After(w.asked.Add(slack)) && now.Before(w.until.Add(-100*time.Millisecond)) {
		g.early = append(g.early, fmt.Sprintf("%s of token %s came %s after it was asked to wait %s", what, aivensim.TokenID(token),
			now.Sub(w.asked).Round(time.Millisecond), w.until.Sub(w.asked).Round(time.Millisecond)))
	}
}

func (g *gate) ask(token string, d time.Duration, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.waits[token]; d > 0 && now.Add(d).After(w.until) {
		g.waits[token] = wait{now, now.Add(d)}
	}
}

// forget lets a token come at any time: the process that knew to wait is gone.
func (g *gate) forget(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waits, token)
}

// found is what came too early, and what was repeated blindly.
func (g *gate) found() (early, blind []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.early...), append([]string(nil), g.blind...)
}

var tryAgain = regexp.MustCompile(`try again in (\d+)s`)

// asked is how long an answer asks its client to wait, by its header or else its text; zero if it does not say.
func asked(header, body string, now time.Time) time.Duration {
	if at, err := http.ParseTime(header); err == nil {
		return at.Sub(now)
	}
	if header == "" {
		if m := tryAgain.FindStringSubmatch(body); m != nil {
			header = m[1]
		}
	}
	n, err := strconv.Atoi(header)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// recorder keeps the status of an answer, and the body of a 429.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == http.StatusTooManyRequests {
		r.body.Write(b)
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets the simulator reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
