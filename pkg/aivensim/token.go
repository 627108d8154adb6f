package aivensim

import (
	"net/http"
	"slices"
	"strings"
)

// Token says what a token may do. The zero value may do everything.
type Token struct {
	// Projects are the projects whose member the token is. Nil: all of them.
	Projects []string
	// Deny are operations that are answered 403, code permission_denied.
	Deny []Operation
	// Secrets is what happens when the token asks for secrets.
	Secrets SecretAccess
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

// authenticate returns what the sender of a request may do. A missing or revoked token is 401, an unknown one 403.
func (s *Simulator) authenticate(header string) (Token, error) {
	if header == "" {
		return Token{}, errTokenExpired
	}
	scheme, name, _ := strings.Cut(header, " ")
	if scheme != "aivenv1" && !strings.EqualFold(scheme, "bearer") {
		return Token{}, fail(http.StatusForbidden, "authentication_failed", "Authentication failed")
	}
	s.mu.RLock()
	t, ok := s.tokens[name]
	s.mu.RUnlock()
	switch {
	case !ok:
		return Token{}, fail(http.StatusForbidden, "", "Invalid token")
	case t.revoked:
		return Token{}, errTokenExpired
	}
	return t.Token, nil
}

func (t Token) isMember(project string) bool {
	return t.Projects == nil || slices.Contains(t.Projects, project)
}
