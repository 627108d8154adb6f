package aivensim

import (
	"maps"
	"net/http"
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
}

// Entry is a request in the journal.
type Entry struct {
	Request
	// Time is when the request arrived, by Options.Clock.
	Time time.Time `json:"time"`
	// Status is the status answered; of a lost answer the one that it would have had; zero if the request was not
	// handled because the client went away or the connection was reset.
	Status int `json:"status"`
	// Lost says that the connection was closed without an answer.
	Lost bool `json:"lost,omitempty"`
	// Bytes is the length of the body answered.
	Bytes int64 `json:"bytes"`
}

// Counters counts requests since the start or since ResetCounters.
type Counters struct {
	// Requests counts the requests that arrived, by operation.
	Requests map[Operation]int `json:"requests"`
	// Statuses counts the answers by HTTP status, lost ones not included.
	Statuses map[int]int `json:"statuses"`
	// BytesOut is the length of the bodies answered, by operation.
	BytesOut map[Operation]int64 `json:"bytesOut"`
	// InFlight is the number of requests being answered now, MaxInFlight the largest it has been.
	InFlight    int `json:"inFlight"`
	MaxInFlight int `json:"maxInFlight"`
	// Writes counts the requests that arrived with another method than GET.
	Writes int `json:"writes"`
}

// Total returns the number of requests that arrived.
func (c Counters) Total() int {
	n := 0
	for _, v := range c.Requests {
		n += v
	}
	return n
}

// journal keeps the counters and the last requests.
type journal struct {
	mu       sync.Mutex
	entries  []Entry
	counters Counters
}

// Journal returns the last 10,000 requests that were answered or lost, oldest first.
func (s *Simulator) Journal() []Entry {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries[max(0, len(j.entries)-journalSize):])
}

// Counters returns a copy of the counters.
func (s *Simulator) Counters() Counters {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.counters
	c.Requests, c.Statuses, c.BytesOut = maps.Clone(c.Requests), maps.Clone(c.Statuses), maps.Clone(c.BytesOut)
	return c
}

// ResetCounters sets the counters to zero and empties the journal.
func (s *Simulator) ResetCounters() {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reset()
}

// reset starts anew; what is in flight stays in flight. The caller holds the lock, or is New.
func (j *journal) reset() {
	j.entries = nil
	j.counters = Counters{
		Requests:    map[Operation]int{},
		Statuses:    map[int]int{},
		BytesOut:    map[Operation]int64{},
		InFlight:    j.counters.InFlight,
		MaxInFlight: j.counters.InFlight,
	}
}

// arrive counts a request that arrived.
func (j *journal) arrive(r Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &j.counters
	c.Requests[r.Operation]++
	if r.Method != http.MethodGet {
		c.Writes++
	}
	c.InFlight++
	c.MaxInFlight = max(c.MaxInFlight, c.InFlight)
}

// record enters a request whose answer is about to be sent or lost, so that whoever sees the answer sees the entry.
func (j *journal) record(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &j.counters
	if !e.Lost && e.Status != 0 {
		c.Statuses[e.Status]++
		c.BytesOut[e.Operation] += e.Bytes
	}
	if len(j.entries) == 2*journalSize {
		j.entries = append(j.entries[:0:0], j.entries[journalSize:]...)
	}
	j.entries = append(j.entries, e)
}

// leave counts a request that was answered, lost or given up.
func (j *journal) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counters.InFlight--
}
