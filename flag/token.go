package flag

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Token is a text that no print, log line or error shows.
type Token string

const hidden = "<hidden>"

// String hides the token.
func (t Token) String() string {
	if t == "" {
		return ""
	}
	return hidden
}

// GoString hides the token.
func (t Token) GoString() string { return t.String() }

// MarshalText hides the token.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Set takes a token from a flag, less white space around it.
func (t *Token) Set(s string) error {
	*t = Token(strings.TrimSpace(s))
	return nil
}

// Type is what help pages call the value.
func (t *Token) Type() string { return "string" }

// Reveal is the token itself.
func (t Token) Reveal() string { return string(t) }

// ReadToken reads a token from a file, less white space around it.
func ReadToken(path string) (Token, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	var t Token
	if err := t.Set(string(raw)); err != nil || t == "" {
		return "", errors.New("read token: " + path + " is empty")
	}
	return t, nil
}

// checkInterval is how often a token file is looked at. The kubelet takes about a minute to renew a mounted Secret.
const checkInterval = 5 * time.Second

// TokenFile is a token that is read again when its file changes. A file that cannot be read leaves the token as it was.
type TokenFile struct {
	path string

	mu      sync.Mutex
	token   Token
	checked time.Time
}

// NewTokenFile reads the token for the first time.
func NewTokenFile(path string) (*TokenFile, error) {
	t, err := ReadToken(path)
	if err != nil {
		return nil, err
	}
	return &TokenFile{path: path, token: t, checked: time.Now()}, nil
}

// Reveal is the current token.
func (f *TokenFile) Reveal() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) >= checkInterval {
		f.checked = time.Now()
		if t, err := ReadToken(f.path); err == nil {
			f.token = t
		}
	}
	return f.token.Reveal()
}
