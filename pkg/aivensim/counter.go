package aivensim

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Counters counts since the start or since ResetCounters. What the Go API and the control interface change is not
// counted.
type Counters struct {
	// Requests counts the requests that arrived, by operation.
	Requests map[Operation]int `json:"requests"`
	// Statuses counts the answers by HTTP status, lost ones not included.
	Statuses map[int]int `json:"statuses"`
	// BytesIn and BytesOut are the lengths of the bodies sent and answered, by operation.
	BytesIn  map[Operation]int64 `json:"bytesIn"`
	BytesOut map[Operation]int64 `json:"bytesOut"`
	// InFlight is the number of requests being answered now, MaxInFlight the largest it has been.
	InFlight    int `json:"inFlight"`
	MaxInFlight int `json:"maxInFlight"`
	// Writes counts the requests that arrived with another method than GET.
	Writes int `json:"writes"`
	// Calls counts the requests that were answered or lost, by all that tells them apart, in order.
	Calls []CallCount `json:"calls"`
	// Latency is how long requests took from their arrival to the end of the answer, in real time, by operation.
	Latency map[Operation]Histogram `json:"latency"`

	// ServiceGets and UserGets count the reads of a whole service and of a single user, by "project/service".
	ServiceGets map[string]int `json:"serviceGets"`
	UserGets    map[string]int `json:"userGets"`
	// DuplicateCreates counts creations of users and ACL entries that were there already.
	DuplicateCreates int `json:"duplicateCreates"`
	// Repeats counts POSTs of the same token with the same path and body as another one within Settings.RepeatWindow.
	Repeats int `json:"repeats"`
	// BlindRepeats counts those of them whose sender knew neither how the former one had ended nor had looked since: it
	// was not refused with a 4xx, and no GET arrived that shows what it made.
	BlindRepeats int `json:"blindRepeats"`

	// Faults counts injected faults by kind: answer, close, cut, delay, interference, lag, rateLimit, reset, slow, stall,
	// truncate. A request may be hit by several.
	Faults map[string]int `json:"faults"`
	// CommitsLost counts changes that took effect although the client did not get the answer to them: it was lost,
	// replaced, cut or damaged, or the client had gone.
	CommitsLost int `json:"commitsLost"`
	// RateLimited counts the answers 429, by TokenID, and EarlyRequests the requests that arrived before the time was over
	// for which the token had been asked to wait; also those that were on their way already.
	RateLimited   map[string]int `json:"rateLimited"`
	EarlyRequests map[string]int `json:"earlyRequests"`

	UsersCreated int `json:"usersCreated"`
	UsersDeleted int `json:"usersDeleted"`
	// UsersReset counts new passwords.
	UsersReset int `json:"usersReset"`
	// ACLsAdded and ACLsDeleted count entries of both kinds of Kafka ACLs.
	ACLsAdded   int `json:"aclsAdded"`
	ACLsDeleted int `json:"aclsDeleted"`
	// OpenSearchPuts counts the writes of an OpenSearch ACL document that took effect.
	OpenSearchPuts int `json:"openSearchPuts"`
	// LostUpdates counts rules of the document that vanished without anybody wanting it, and RevivedACLs rules that came
	// back without anybody wanting it: the writer had read the document before somebody else changed it.
	LostUpdates int `json:"lostUpdates"`
	RevivedACLs int `json:"revivedACLs"`

	// RevokedToken counts requests on revoked and expired tokens, PoweredOff those that a service refused because it is
	// powered off, and BuiltInDeletes those to delete a built-in user.
	RevokedToken   int `json:"revokedToken"`
	PoweredOff     int `json:"poweredOff"`
	BuiltInDeletes int `json:"builtInDeletes"`
}

// CallCount is a line of Counters.Calls.
type CallCount struct {
	Operation Operation `json:"operation"`
	Method    string    `json:"method"`
	// Status is the status answered, zero if the answer was lost.
	Status int `json:"status"`
	// Token is the TokenID.
	Token string `json:"token"`
	Count int    `json:"count"`
}

// latencyBounds are the upper bounds of the buckets of a Histogram, in seconds.
var latencyBounds = [...]float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}

// Histogram counts durations: how many were at most 1, 5, 10, 50, 100 and 500 milliseconds, 1, 5, 10, 30 and 60 seconds,
// and longer, each in the first bucket that it fits in.
type Histogram [len(latencyBounds) + 1]int

func (h *Histogram) observe(d time.Duration) {
	i, _ := slices.BinarySearch(latencyBounds[:], d.Seconds())
	h[i]++
}

// Total returns the number of requests that arrived.
func (c Counters) Total() int {
	n := 0
	for _, v := range c.Requests {
		n += v
	}
	return n
}

// Counters returns a copy of the counters.
func (s *Simulator) Counters() Counters {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.counters
	c.Requests, c.Statuses = maps.Clone(c.Requests), maps.Clone(c.Statuses)
	c.BytesIn, c.BytesOut, c.Latency = maps.Clone(c.BytesIn), maps.Clone(c.BytesOut), maps.Clone(c.Latency)
	c.ServiceGets, c.UserGets, c.Faults = maps.Clone(c.ServiceGets), maps.Clone(c.UserGets), maps.Clone(c.Faults)
	c.RateLimited, c.EarlyRequests = maps.Clone(c.RateLimited), maps.Clone(c.EarlyRequests)
	c.Calls = make([]CallCount, 0, len(j.calls))
	for line, n := range j.calls {
		line.Count = n
		c.Calls = append(c.Calls, line)
	}
	slices.SortFunc(c.Calls, func(a, b CallCount) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Token, b.Token))
	})
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
	j.entries, j.calls = nil, map[CallCount]int{}
	j.counters = Counters{
		Requests:      map[Operation]int{},
		Statuses:      map[int]int{},
		BytesIn:       map[Operation]int64{},
		BytesOut:      map[Operation]int64{},
		InFlight:      j.counters.InFlight,
		MaxInFlight:   j.counters.InFlight,
		Latency:       map[Operation]Histogram{},
		ServiceGets:   map[string]int{},
		UserGets:      map[string]int{},
		Faults:        map[string]int{},
		RateLimited:   map[string]int{},
		EarlyRequests: map[string]int{},
	}
}

// tally changes the counters.
func (c *call) tally(f func(*Counters)) {
	j := &c.sim.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.counters)
}

// arrive counts a request that arrived.
func (j *journal) arrive(c *call, early bool, window time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := &j.counters
	n.Requests[c.Operation]++
	n.BytesIn[c.Operation] += int64(len(c.body))
	if c.Method != http.MethodGet {
		n.Writes++
	}
	where := c.Project + "/" + c.Service
	switch c.Operation {
	case ServiceGet:
		n.ServiceGets[where]++
	case ServiceUserGet:
		n.UserGets[where]++
	}
	if early {
		n.EarlyRequests[c.Token]++
	}
	n.InFlight++
	n.MaxInFlight = max(n.MaxInFlight, n.InFlight)
	repeated, blind := j.posts.arrive(c, window)
	if repeated {
		n.Repeats++
	}
	if blind {
		n.BlindRepeats++
	}
}

// record enters a request whose answer is about to be sent or lost, so that whoever sees the answer sees the entry.
func (j *journal) record(c *call, e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := &j.counters
	line := CallCount{Operation: e.Operation, Method: e.Method, Token: e.Token}
	if !e.Lost && e.Status != 0 {
		line.Status = e.Status
		n.Statuses[e.Status]++
		n.BytesOut[e.Operation] += e.Bytes
		if e.Status == http.StatusTooManyRequests {
			n.RateLimited[e.Token]++
		}
		if c.post != nil {
			c.post.refused = e.Status >= 400 && e.Status < 500
		}
	}
	j.calls[line]++
	for _, kind := range e.Faults {
		n.Faults[kind]++
	}
	if e.CommitLost {
		n.CommitsLost++
	}
	j.enter(e)
}

// leave counts a request that was answered, lost or given up.
func (j *journal) leave(o Operation, took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counters.InFlight--
	h := j.counters.Latency[o]
	h.observe(took)
	j.counters.Latency[o] = h
}
