package aivensim

import (
	"slices"
	"sync"
	"time"
)

// journalSize is how many requests the journal keeps.
const journalSize = 10_000

// Request is what is known of a request before it is handled. It holds no secret.
type Request struct {
	Method    string    `json:"method"`
	Operation Operation `json:"operation"`
	Project   string    `json:"project,omitempty"`
	Service   string    `json:"service,omitempty"`
	// Username is the user in the path, or in the body of user create and of the creation of an ACL entry.
	Username string `json:"username,omitempty"`
	// Query is the raw query.
	Query string `json:"query,omitempty"`
	// Token is the TokenID of the sender.
	Token string `json:"token,omitempty"`
}

// Entry is a request in the journal.
type Entry struct {
	Request
	// Time is when the request arrived, by Options.Clock.
	Time time.Time `json:"time"`
	// Status is the status answered; of a lost answer the one that it would have had; zero if the request was not
	// handled because the client went away or the connection was closed.
	Status int `json:"status"`
	// Lost says that the connection was closed without an answer, or in the middle of it.
	Lost bool `json:"lost,omitempty"`
	// CommitLost says that the request took effect although its sender did not get the answer to it.
	CommitLost bool `json:"commitLost,omitempty"`
	// Bytes is the length of the body answered.
	Bytes int64 `json:"bytes"`
	// Faults are the kinds of what was injected, as in Counters.Faults.
	Faults []string `json:"faults,omitempty"`
	// LostUpdates are the rules of an OpenSearch ACL document that vanished with this request without anybody wanting it:
	// user name, index and permission, as "app logs-* read".
	LostUpdates []string `json:"lostUpdates,omitempty"`
}

// journal keeps the counters and the last requests.
type journal struct {
	mu       sync.Mutex
	entries  []Entry
	counters Counters
	calls    map[CallCount]int // Counters.Calls; Count is zero in the keys
	posts    posts
}

// Journal returns the last 10,000 requests that were answered or lost, oldest first.
func (s *Simulator) Journal() []Entry {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries[max(0, len(j.entries)-journalSize):])
}

// enter adds an entry. The caller holds the lock.
func (j *journal) enter(e Entry) {
	if len(j.entries) == 2*journalSize {
		j.entries = append(j.entries[:0:0], j.entries[journalSize:]...)
	}
	j.entries = append(j.entries, e)
}
