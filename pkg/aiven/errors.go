package aiven

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What an error of this package means, for errors.Is. An error that is none of these and not terminal
// (reconcile.TerminalError: the API refuses what was asked for, and will until something changes) is worth a retry.
var (
	// ErrNotFound: the API answered 404 for the object, its service or its project. For a delete that is success.
	ErrNotFound = errors.New("not found")
	// ErrExists: an object of that name or content is there already (409).
	ErrExists = errors.New("already exists")
	// ErrUnauthorized: the API refuses the token, or the token lacks a permission (401, 403). That is the operator's
	// trouble, not the object's, and says nothing about whether the object exists. The error is a resource.RequeueAfter.
	ErrUnauthorized = errors.New("not authorized")
	// ErrBusy: the service cannot do it at the moment (409 that is no duplicate, 501).
	ErrBusy = errors.New("service not ready")
	// ErrNotPowered: the service is powered off. It is an ErrBusy too.
	ErrNotPowered = errors.New("service powered off")
	// ErrThrottled: the API allows the token no more calls for a while (429). The error is a resource.RequeueAfter.
	ErrThrottled = errors.New("throttled")
	// ErrOutcomeUnknown: a write was sent, and may or may not have taken effect.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Error is a call to Aiven that failed. Its text is one line without markup and never holds a credential, such as
// "create user app on project/service: 503 Service Unavailable".
type Error struct {
	Tried   string // what was tried, such as "create user app on project/service"
	Status  int    // HTTP status of the answer; 0: there was none
	Message string // what the API, or the connection, said, as far as it can be shown

	kinds []error // of the sentinels above
	cause error   // the end of the caller's context, or nil
}

// maxText is the length of an error text in bytes, so that it fits a condition and an event.
const maxText = 512

// Error returns "<what was tried>: <status> <message>", at most 512 bytes.
func (e *Error) Error() string {
	text := e.Tried + ": "
	if e.Status != 0 {
		text += strconv.Itoa(e.Status) + " "
	}
	return cut(text+e.Message, maxText)
}

// Is reports whether the error is one of the sentinels of this package.
func (e *Error) Is(target error) bool { return slices.Contains(e.kinds, target) }

// Unwrap returns the error of the context that ended the call, or nil.
func (e *Error) Unwrap() error { return e.cause }

// invalid returns a terminal error for what is refused without asking the API.
func invalid(tried, why string) error {
	return reconcile.TerminalError(&Error{Tried: tried, Message: why})
}

// refusal is an answer that is not a success, as it came.
type refusal struct {
	status     int
	code       string // Aiven's error_code, mostly ""
	message    string // raw
	retryAfter string // header
}

func (r *refusal) Error() string { return "refused with status " + strconv.Itoa(r.status) }

// newRefusal reads an error body. Proxies in front of the API answer with anything: what is not Aiven's JSON counts
// as no message.
func newRefusal(status int, header http.Header, body []byte) *refusal {
	r := &refusal{status: status, retryAfter: header.Get("Retry-After")}
	var answer struct {
		Message string     `json:"message"`
		Errors  []apiError `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return r
	}
	r.message = answer.Message
	if len(answer.Errors) > 0 {
		r.code = answer.Errors[0].Code
		if r.message == "" {
			r.message = answer.Errors[0].Message
		}
	}
	return r
}

// apiError is an element of "errors". Its status is left out, as it is not always a number.
type apiError struct {
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

// internalNotFound is a 404 that says nothing about what was asked for: an internal hiccup of the API, any call.
var internalNotFound = regexp.MustCompile(`^User (avnadmin|root) with component main not found`)

// kinds classifies the answer. terminal: no retry will help until something changes.
func (r *refusal) kinds() (kinds []error, terminal bool) {
	switch {
	case r.status == http.StatusNotFound && internalNotFound.MatchString(r.message):
		return []error{ErrBusy}, false
	case r.status == http.StatusNotFound:
		return []error{ErrNotFound}, false
	case r.status == http.StatusConflict && strings.Contains(r.message, "already exists"):
		return []error{ErrExists}, false
	case r.status == http.StatusConflict && (r.code == "not_powered" || strings.Contains(r.message, "not powered")):
		return []error{ErrNotPowered, ErrBusy}, false
	case r.status == http.StatusConflict, r.status == http.StatusNotImplemented:
		return []error{ErrBusy}, false
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return []error{ErrUnauthorized}, false
	case r.status == http.StatusTooManyRequests:
		return []error{ErrThrottled}, false
	case r.status == http.StatusRequestTimeout, r.status == http.StatusExpectationFailed, r.status == http.StatusLocked:
		return nil, false
	default: // limits, such as that of users, are a 400
		return nil, r.status >= 400 && r.status < 500
	}
}

// transient reports whether a read that was answered so may be repeated at once.
func (r *refusal) transient() bool {
	return r.status >= 500 && r.status != http.StatusNotImplemented ||
		r.status == http.StatusNotFound && internalNotFound.MatchString(r.message)
}

// Bounds and default of the wait after a 429.
const (
	maxThrottle     = 5 * time.Minute
	defaultThrottle = 10 * time.Second
)

var tryAgainIn = regexp.MustCompile(`try again in (\d{1,9})\s*s`)

// wait returns how long a 429 asks to wait: by its header, in seconds or as a date, else by its text.
func (r *refusal) wait(now time.Time) time.Duration {
	seconds := r.retryAfter
	if seconds == "" {
		if m := tryAgainIn.FindStringSubmatch(r.message); m != nil {
			seconds = m[1]
		}
	}
	wait := defaultThrottle
	if n, err := strconv.ParseUint(seconds, 10, 64); err == nil {
		wait = time.Duration(min(n, uint64(maxThrottle/time.Second))) * time.Second
	} else if at, err := http.ParseTime(seconds); err == nil {
		wait = max(at.Sub(now), 0)
	}
	return min(wait, maxThrottle)
}

var (
	markup   = regexp.MustCompile(`<[a-zA-Z!/]`)
	userinfo = regexp.MustCompile(`(?s)://.*@`) // a password may hold anything
	// secretive words in a text of the API: it may echo what was sent or is stored.
	secretive = regexp.MustCompile(`(?i)password|token|secret|private key|certificate|avns_|aivenv1|bearer`)
)

// clean makes a text of the API fit to be shown, "" if it is not: one line, no markup, nothing that may be a secret.
func clean(text, token string) string {
	if markup.MatchString(text) || secretive.MatchString(text) {
		return ""
	}
	return cleanLocal(text, token)
}

// cleanLocal does the same for a text of this machine, such as that of a failed connection. It may speak of
// certificates.
func cleanLocal(text, token string) string {
	if userinfo.MatchString(text) || strings.Contains(strings.ToLower(text), "avns_") ||
		token != "" && strings.Contains(text, token) {
		return ""
	}
	printable := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	return cut(strings.Join(strings.Fields(printable), " "), maxText)
}

// cut shortens a text to at most n bytes, between characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const dots = "..."
	return strings.ToValidUTF8(text[:n-len(dots)], "") + dots
}
