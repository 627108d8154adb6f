package aiven

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	goclient "github.com/aiven/aiven-go-client/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// call is one operation of the API.
type call struct {
	operation string // operation id of Aiven's API description; a label of metrics
	project   string // "" for none
	tried     string // what it is for, for errors
	read      bool   // may be repeated
	secrets   bool   // ask for secrets, which are redacted otherwise

	// Of one attempt:
	token  string
	round  int  // of the slots
	sent   bool // a part of it may have reached the API
	status int  // of the answer
}

type callKey struct{}

func callFrom(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

const (
	retries = 2 // of a read
	// shortThrottle is a wait for the API's permission that a call sits out, instead of coming back later.
	shortThrottle = time.Second
	// queueTime is how long a call waits for others, while the API allows fewer than are wanted.
	queueTime = 10 * time.Second
	// refusedWait is how long a call that was refused to the token is left alone: what helps is somebody's hand.
	refusedWait = 10 * time.Second
)

// do makes a call, with send doing the request. Reads are repeated twice, within about a second, where the failure is
// one that passes. Writes never are.
func (c *Client) do(ctx context.Context, cl call, send func(context.Context) error) error {
	if c.readOnly && !cl.read {
		return invalid(cl.tried, "this client changes nothing")
	}
	for n := 0; ; n++ {
		attempt := cl
		passing, err := c.attempt(ctx, &attempt, send)
		if err == nil || !passing || !cl.read || n == retries {
			return err
		}
		wait := c.pause << n
		if !sleep(ctx, wait+rand.N(2*wait)) {
			return err
		}
		c.metrics.retries.WithLabelValues(cl.operation).Inc()
	}
}

// attempt makes a call once. The error is the final one; passing says that a repetition may help at once.
func (c *Client) attempt(ctx context.Context, cl *call, send func(context.Context) error) (passing bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()

	leave, err := c.admit(ctx, cl)
	if err != nil {
		return false, err
	}
	defer leave()
	if c.mayWrite != nil && !cl.read {
		if err := c.mayWrite(); err != nil {
			return false, &Error{Tried: cl.tried, Message: err.Error()}
		}
	}
	deadline, cancel := context.WithTimeout(context.WithValue(ctx, callKey{}, cl), c.timeout)
	defer cancel()
	began := time.Now()
	defer c.slots.watch(cl.project)()
	err = guard(func() error { return send(deadline) })
	c.metrics.observe(cl, time.Since(began))
	switch {
	case cl.status == http.StatusTooManyRequests:
	case cl.status != 0:
		c.slots.answered(cl.project, cl.round, cl.status)
	case ctx.Err() == nil:
		c.slots.unanswered(cl.project)
	}
	if err == nil {
		c.health.succeeded(cl, c.clock.Now())
		return false, nil
	}
	passing, err = c.explain(ctx, deadline, cl, err)
	if e, ok := err.(*Error); ok && (e.Status == 0 || e.Status >= http.StatusInternalServerError) && c.slots.isDown(cl.project) { //nolint:errorlint // one that is not to be waited for
		e.kinds, passing = append(e.kinds, resource.ErrLasting), false
	}
	return passing, err
}

// errPanic stands for a panic of aiven-go-client, which some answers cause.
var errPanic = errors.New("panic")

func guard(send func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return send()
}

// admit waits until the call may be sent, and returns what to call when it is over.
func (c *Client) admit(ctx context.Context, cl *call) (func(), error) {
	cl.token = strings.TrimSpace(c.token())
	if cl.token == "" {
		err := &Error{Tried: cl.tried, Message: "there is no API token", kinds: []error{ErrUnauthorized}}
		c.health.refuse(cl, &refusal{status: http.StatusUnauthorized}, err, c.clock.Now())
		return nil, waitFor(refusedWait, err)
	}
	if err := c.obey(ctx, cl); err != nil { // before the queue, so that nobody waits in it in vain
		return nil, err
	}
	round, err := c.slots.enter(ctx, cl.project)
	switch {
	case errors.Is(err, ErrThrottled):
		return nil, waitFor(queueTime, held(cl))
	case errors.Is(err, errSilent):
		return nil, silent(cl.tried)
	case err != nil:
		return nil, ended(ctx, cl.tried)
	}
	cl.round = round
	leave := func() { c.slots.leave(cl.project) }
	if err := c.limiter.Wait(ctx); err != nil {
		leave()
		if ctx.Err() != nil {
			return nil, ended(ctx, cl.tried)
		}
		return nil, &Error{Tried: cl.tried, Message: "too many calls for the time that is left"}
	}
	if err := c.obey(ctx, cl); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// obey holds back a call while the API has asked the token to wait, and any call whose context has ended.
func (c *Client) obey(ctx context.Context, cl *call) error {
	wait := c.throttle.left(cl.token, c.clock.Now())
	if wait > shortThrottle {
		return waitFor(wait, held(cl))
	}
	if !sleep(ctx, wait) {
		return ended(ctx, cl.tried)
	}
	return nil
}

// silent is the error of whoever does not wait for a project that is silent.
func silent(tried string) *Error {
	return &Error{Tried: tried, Message: errSilent.Error(), kinds: []error{errSilent, resource.ErrLasting}}
}

// held is the error of a call that is not sent, because the API has asked to wait.
func held(cl *call) *Error {
	return &Error{Tried: cl.tried, Message: "the API allows no more calls at the moment", kinds: []error{ErrThrottled}}
}

// waitFor spreads a wait by up to 20 %, so that not everybody comes back at once.
func waitFor(d time.Duration, err *Error) error {
	d = max(d, shortThrottle)
	return resource.RequeueAfter(d+rand.N(d/5+1), "%w", err)
}

// ended returns the error of a call that the end of its context, or of the client, prevented or cut short.
func ended(ctx context.Context, tried string) *Error {
	return &Error{Tried: tried, Message: ctx.Err().Error(), cause: ctx.Err()}
}

// explain turns what send returned into an error that says what it means and can be shown.
func (c *Client) explain(ctx, deadline context.Context, cl *call, err error) (passing bool, _ error) {
	now := c.clock.Now()
	e := &Error{Tried: cl.tried, Status: cl.status}
	var refused *refusal
	var inBody goclient.Error // "errors" in an answer of status 200, or a body that could not be read
	if errors.As(err, &inBody) && (inBody.Status < 200 || inBody.Status >= 300) {
		err = &refusal{status: inBody.Status, message: inBody.Message}
	}
	switch answered := cl.status >= 200 && cl.status < 300; {
	case errors.As(err, &refused):
		return c.refused(cl, e, refused, now)
	case ctx.Err() != nil:
		e = ended(ctx, cl.tried)
	case deadline.Err() != nil:
		e.Message = "no answer within " + c.timeout.String()
		c.health.failed(e)
	case answered:
		// The text of the error holds the answer, credentials included.
		e.Message, passing = "the answer cannot be read", true
		c.health.failed(e)
	default:
		if inURL, ok := errors.AsType[*url.Error](err); ok {
			err = inURL.Err
		}
		e.Message, passing = cleanLocal(err.Error(), cl.token), true
		c.health.failed(e)
	}
	if cl.sent && !cl.read {
		e.kinds = append(e.kinds, ErrOutcomeUnknown)
	}
	return passing, e
}

// refused explains an answer that is not a success.
func (c *Client) refused(cl *call, e *Error, r *refusal, now time.Time) (passing bool, _ error) {
	e.Status = r.status
	e.Message = clean(r.message, cl.token)
	if e.Message == "" {
		e.Message = http.StatusText(r.status)
	}
	if r.status == http.StatusForbidden && cl.secrets {
		e.Message += " (the token needs the permission service:secrets:read)"
	}
	var terminal bool
	e.kinds, terminal = r.kinds()
	if !cl.read && (r.status >= 500 || r.status == http.StatusRequestTimeout || r.status < 300) {
		e.kinds = append(e.kinds, ErrOutcomeUnknown)
	}
	c.health.refuse(cl, r, e, now)
	switch {
	case r.status == http.StatusTooManyRequests:
		wait := r.wait(now)
		c.throttle.hold(cl.token, now.Add(wait))
		c.slots.narrow()
		c.metrics.throttled.Inc()
		return wait <= shortThrottle, waitFor(wait, e)
	case errors.Is(e, ErrUnauthorized):
		return false, waitFor(refusedWait, e)
	case terminal:
		return false, reconcile.TerminalError(e)
	}
	return r.transient(), e
}

// request makes a request that aiven-go-client lacks, or whose answer it cannot take. decode reads the answer.
func (c *Client) request(ctx context.Context, method, path string, body any, decode func(*json.Decoder) error) error {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://aiven"+apiRoot+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	rsp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = rsp.Body.Close() }()
	if err := decode(json.NewDecoder(rsp.Body)); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(rsp.Body, 4<<10)) // lets the connection be used again
	return nil
}

// path returns the path below apiRoot of the elements given.
func path(elements ...string) string {
	var b strings.Builder
	for _, e := range elements {
		b.WriteString("/" + url.PathEscape(e))
	}
	return b.String()
}

// checkNames refuses names that would turn a path into another one: a server may take "user/.." for the service.
func checkNames(tried string, names ...string) error {
	for _, name := range names {
		if name == "" || name == "." || name == ".." {
			return invalid(tried, fmt.Sprintf("%q is not a name", name))
		}
	}
	return nil
}

// sleep waits. It returns false if the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// throttle is the API's request to wait, for everything that uses the token. It holds no token, only a hash of one.
type throttle struct {
	mu    sync.Mutex
	token [sha256.Size]byte
	until time.Time
}

func (t *throttle) hold(token string, until time.Time) {
	sum := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != sum || until.After(t.until) {
		t.token, t.until = sum, until
	}
}

func (t *throttle) left(token string, now time.Time) time.Duration {
	sum := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != sum {
		return 0
	}
	return max(t.until.Sub(now), 0)
}
