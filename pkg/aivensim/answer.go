package aivensim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Answer is what a Rule sends instead of the simulator's own answer.
type Answer struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Header is added to the answer. Content-Type is application/json unless it says otherwise.
	Header http.Header `json:"header,omitempty"`
	// Body is sent as it is.
	Body string `json:"body,omitempty"`
	// Message makes an error body in the form of the API, instead of Body. In it {project}, {service} and {username} stand
	// for those of the request.
	Message string `json:"message,omitempty"`
	// Code is the optional error_code of that body.
	Code string `json:"code,omitempty"`
	// RetryAfter asks the client to wait. Without Body and Message, a 429 then has the text that Aiven gives.
	RetryAfter *RetryAfter `json:"retryAfter,omitempty"`
}

// RetryAfter asks a client to wait.
type RetryAfter struct {
	// In is how long. It may be absurd.
	In time.Duration `json:"in"`
	// As is how it is said.
	As RetryAfterForm `json:"as,omitempty"`
}

// RetryAfterForm is how a client is asked to wait. Whether Aiven sends a header is not known; its text has the time.
type RetryAfterForm string

const (
	// RetryAfterText sends no header.
	RetryAfterText RetryAfterForm = ""
	// RetryAfterSeconds sends Retry-After: 28.
	RetryAfterSeconds RetryAfterForm = "seconds"
	// RetryAfterDate sends Retry-After: Sun, 01 Mar 2026 12:00:28 GMT, by Options.Clock.
	RetryAfterDate RetryAfterForm = "date"
)

func (f RetryAfterForm) check() error {
	if !isOneOf(string(f), string(RetryAfterText), string(RetryAfterSeconds), string(RetryAfterDate)) {
		return fmt.Errorf("want seconds, date or nothing, got %q", f)
	}
	return nil
}

// Error returns an answer with an error body in the form of the API. The code is optional.
func Error(status int, code, message string) *Answer {
	return &Answer{Status: status, Code: code, Message: message}
}

// TooManyRequests returns the answer of a rate limit.
func TooManyRequests(in time.Duration, as RetryAfterForm) *Answer {
	return &Answer{Status: http.StatusTooManyRequests, RetryAfter: &RetryAfter{In: in, As: as}}
}

// isEmpty tells whether the answer has no body.
func (a *Answer) isEmpty() bool {
	return a.Body == "" && a.Message == "" && (a.RetryAfter == nil || a.Status != http.StatusTooManyRequests)
}

// check tells what is wrong with an answer, by the name that the field has in JSON.
func (a *Answer) check() error {
	switch {
	case a == nil:
		return nil
	case a.Status < 200 || a.Status > 599:
		return fmt.Errorf("status: want 200 to 599, got %d", a.Status)
	case a.Body != "" && a.Message != "":
		return errors.New("message: there is a body already")
	case a.Code != "" && a.Message == "":
		return errors.New("code: there is no message")
	}
	if r := a.RetryAfter; r != nil {
		if r.In < 0 {
			return errors.New("retryAfter.in: want no negative time")
		}
		if err := r.As.check(); err != nil {
			return fmt.Errorf("retryAfter.as: %w", err)
		}
	}
	return nil
}

// to returns the answer to a request. limit is the number in the text of a 429.
func (a *Answer) to(c *call, limit int) answer {
	out := answer{status: a.Status, header: a.Header.Clone(), body: parts{[]byte(a.Body)}}
	if out.header == nil {
		out.header = http.Header{}
	}
	message := strings.NewReplacer("{project}", c.Project, "{service}", c.Service, "{username}", c.Username).Replace(a.Message)
	if r := a.RetryAfter; r != nil {
		seconds := int64(r.In / time.Second)
		if r.In%time.Second > 0 {
			seconds++
		}
		out.retryIn = r.In
		switch r.As {
		case RetryAfterSeconds:
			out.header.Set("Retry-After", strconv.FormatInt(seconds, 10))
		case RetryAfterDate:
			out.header.Set("Retry-After", c.now.Add(r.In).Add(time.Second-1).Format(http.TimeFormat))
		}
		if a.Status == http.StatusTooManyRequests && a.Body == "" && message == "" {
			message = fmt.Sprintf("The user has sent too many requests in a given amount of time: Rate limit %d exceeded - try again in %ds", limit, seconds)
		}
	} else if text := out.header.Get("Retry-After"); text != "" {
		out.retryIn = readRetryAfter(text, c.now)
	}
	if message != "" {
		out.body = parts{fail(a.Status, a.Code, message).body()}
	}
	return out
}

// readRetryAfter returns what a header asks for; zero if that cannot be told.
func readRetryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(min(n, int64(math.MaxInt64/time.Second))) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil {
		return t.Sub(now)
	}
	return 0
}

// parts is a body in pieces, so that cached pieces of it need not be copied together.
type parts [][]byte

func (p parts) size() int64 {
	var n int64
	for _, b := range p {
		n += int64(len(b))
	}
	return n
}

// apiError is an error answer.
type apiError struct {
	Status  int    `json:"status"`
	Code    string `json:"error_code,omitempty"`
	Message string `json:"message"`
}

// fail returns an error answer; code may be empty.
func fail(status int, code, message string) *apiError {
	return &apiError{Status: status, Code: code, Message: message}
}

// invalid returns the answer to a request that does not fit the schema.
func invalid(format string, args ...any) *apiError {
	return fail(http.StatusBadRequest, "", "Invalid input: "+fmt.Sprintf(format, args...))
}

// Error answers that several places give.
var (
	errTokenExpired     = fail(http.StatusUnauthorized, "", "Missing (expired) db token")
	errNotFound         = fail(http.StatusNotFound, "", "Not found")
	errPermissionDenied = fail(http.StatusForbidden, "permission_denied", "Permission denied")
)

// Error implements error.
func (e *apiError) Error() string { return e.Message }

func (e *apiError) body() []byte {
	return encode(map[string]any{"errors": []*apiError{e}, "message": e.Message})
}

// encode returns v as JSON. All callers pass types that cannot fail to encode.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Errorf("encode an answer: %w", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// reply returns v as a body in one piece.
func reply(v any) (parts, error) { return parts{encode(v)}, nil }
