package aivensim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Token says what a token may do. The zero value may do everything.
type Token struct {
	// Projects are the projects whose member the token is. Nil: all of them.
	Projects []string `json:"projects,omitempty"`
	// Deny are operations that are answered 403, code permission_denied.
	Deny []Operation `json:"deny,omitempty"`
	// Secrets is what happens when the token asks for secrets. In JSON: shown, forbidden, hidden.
	Secrets SecretAccess `json:"secrets,omitempty"`
	// Expires is when the token becomes invalid, by Options.Clock. Zero: never.
	Expires time.Time `json:"expires,omitzero"`
}

// TokenID names a token where the token itself must not stand: the first digits of its SHA-256 sum. No token has the
// empty one.
func TokenID(token string) string {
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:4])
}

// SecretAccess says how reads with include_secrets=true are answered.
type SecretAccess int

const (
	// SecretsShown answers them.
	SecretsShown SecretAccess = iota
	// SecretsForbidden answers 403: a token without the permission service:secrets:read.
	SecretsForbidden
	// SecretsHidden answers 200 with redacted values, as for Aiven's former read-only role.
	SecretsHidden
)

// secretAccesses are the texts of SecretAccess.
var secretAccesses = []string{"shown", "forbidden", "hidden"}

// MarshalText implements encoding.TextMarshaler.
func (a SecretAccess) MarshalText() ([]byte, error) { return []byte(secretAccesses[a]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *SecretAccess) UnmarshalText(text []byte) error {
	i := slices.Index(secretAccesses, string(text))
	if i < 0 {
		return fmt.Errorf("secrets: want shown, forbidden or hidden, got %q", text)
	}
	*a = SecretAccess(i)
	return nil
}

type token struct {
	Token
	revoked bool
}

// SetToken makes the simulator accept a token, or changes what it may do.
func (s *Simulator) SetToken(name string, t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[name] = token{Token: t}
}

// RevokeToken makes a token invalid: requests with it are answered 401.
func (s *Simulator) RevokeToken(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[name] = token{revoked: true}
}

// authenticate returns what the sender of a request may do. A missing, revoked or expired token is 401, an unknown one
// 403.
func (c *call) authenticate() (Token, error) {
	if c.authorization == "" {
		return Token{}, errTokenExpired
	}
	name, ok := tokenOf(c.authorization)
	if !ok {
		return Token{}, fail(http.StatusForbidden, "authentication_failed", "Authentication failed")
	}
	c.sim.mu.RLock()
	t, ok := c.sim.tokens[name]
	c.sim.mu.RUnlock()
	switch {
	case !ok:
		return Token{}, fail(http.StatusForbidden, "", "Invalid token")
	case t.revoked, !t.Expires.IsZero() && !c.now.Before(t.Expires):
		c.tally(func(n *Counters) { n.RevokedToken++ })
		return Token{}, errTokenExpired
	}
	return t.Token, nil
}

// tokenOf returns the token in an Authorization header, and whether the header is of a kind that has one.
func tokenOf(header string) (string, bool) {
	scheme, name, _ := strings.Cut(header, " ")
	return name, scheme == "aivenv1" || strings.EqualFold(scheme, "bearer")
}

// controlToken is a token as the control interface shows it.
type controlToken struct {
	ID      string `json:"id"`
	Revoked bool   `json:"revoked,omitempty"`
	Token
}

func (s *Simulator) controlTokens() []controlToken {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := []controlToken{}
	for _, name := range slices.Sorted(maps.Keys(s.tokens)) {
		t := s.tokens[name]
		list = append(list, controlToken{ID: TokenID(name), Revoked: t.revoked, Token: t.Token})
	}
	return list
}

func (t Token) isMember(project string) bool {
	return t.Projects == nil || slices.Contains(t.Projects, project)
}
