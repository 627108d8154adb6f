package aivensim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Answer is what a Rule sends instead of the simulator's own answer.
type Answer struct {
	// Status is the HTTP status.
	Status int
	// Header is added to the answer. Content-Type is application/json unless it says otherwise.
	Header http.Header
	// Body is sent as it is.
	Body string
}

// Error returns an answer with an error body in the form of the API. The code is optional.
func Error(status int, code, message string) *Answer {
	return &Answer{Status: status, Body: string(fail(status, code, message).body())}
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
