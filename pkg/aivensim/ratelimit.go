package aivensim

import (
	"math"
	"sync"
	"time"
)

// RateLimit is a bucket of requests that each token has of its own: it holds Requests, and is filled up evenly in the
// time Per. Beyond that requests are answered 429. Zero requests: no limit.
//
// Aiven publishes no numbers. The one that was seen is PerMinute120.
type RateLimit struct {
	Requests int           `json:"requests"`
	Per      time.Duration `json:"per"`
	// RetryAfter is how the client is asked to wait until there is room for a request.
	RetryAfter RetryAfterForm `json:"retryAfter"`
}

// PerMinute120 returns the limit that a message of Aiven once spoke of.
func PerMinute120() RateLimit { return RateLimit{Requests: 120, Per: time.Minute} }

// limits are the buckets of the tokens, and how long each was asked to wait.
type limits struct {
	mu     sync.Mutex
	tokens map[string]*tokenLimit // by TokenID
}

type tokenLimit struct {
	level     float64
	at        time.Time // of the level
	notBefore time.Time
}

func (l *limits) of(token string) *tokenLimit {
	if l.tokens == nil {
		l.tokens = map[string]*tokenLimit{}
	}
	t := l.tokens[token]
	if t == nil {
		t = &tokenLimit{}
		l.tokens[token] = t
	}
	return t
}

// arrive takes a request out of the bucket. It tells whether the request came before the token's time to wait was over,
// and how long that should wait now; zero if there was room.
func (l *limits) arrive(token string, now time.Time, r RateLimit) (early bool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of(token)
	early = now.Before(t.notBefore)
	if r.Requests <= 0 {
		return early, 0
	}
	most, perSecond := float64(r.Requests), float64(r.Requests)/r.Per.Seconds()
	if t.at.IsZero() {
		t.level = most
	}
	t.level = min(most, t.level+max(0, now.Sub(t.at).Seconds()*perSecond))
	t.at = now
	if t.level >= 1 {
		t.level--
		return early, 0
	}
	return early, time.Duration(math.Ceil((1 - t.level) / perSecond * float64(time.Second)))
}

// hold notes that a token was asked to wait.
func (l *limits) hold(token string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.of(token); until.After(t.notBefore) {
		t.notBefore = until
	}
}
