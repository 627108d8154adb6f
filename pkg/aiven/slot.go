package aiven

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// slots limits the calls that are under way, by project, so that one that hangs holds up no other. Once the API has allowed no more calls, each
// project begins anew with one at a time, and gets one more with each answer: those who waited do not come back all at once, only to be refused
// again.
//
// A project is silent while calls have waited for silentAfter and none was answered meanwhile. Nobody waits for it then but one call, which finds out
// when it answers again: who waits occupies a worker that others could use.
type slots struct {
	size  int // of each project
	mu    sync.Mutex
	by    map[string]*slot
	round int // how often all began anew
}

type slot struct {
	limit, taken int
	queue        []chan struct{} // of those who wait, each closed when its turn has come
	answered     time.Time       // when the last call was
	failures     int             // calls since the last one that the API could handle
	silence      chan struct{}   // closed: the project is silent
}

// silentAfter is longer than the API takes for anything, the largest services included.
const silentAfter = 10 * time.Second

// lastingAfter is how many calls in a row have to fail for a project to count as down: what is to be repeated is then left to the queue.
const lastingAfter = 8

// errSilent says that nobody should wait for a project.
var errSilent = errors.New("the API has not answered for " + silentAfter.String())

func (p *slot) isSilent() bool { return isClosed(p.silence) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// of returns the slot of a project. The caller holds the lock.
func (s *slots) of(project string) *slot {
	p, ok := s.by[project]
	if !ok {
		p = &slot{limit: s.size, silence: make(chan struct{})}
		s.by[project] = p
	}
	return p
}

// enter waits for the turn of a call; once it has come, leave must be called. It fails with the error of ctx, with ErrThrottled where the API is
// why it takes long, and with errSilent. The round is for answered.
func (s *slots) enter(ctx context.Context, project string) (round int, err error) {
	s.mu.Lock()
	p := s.of(project)
	turn := make(chan struct{})
	p.queue = append(p.queue, turn)
	p.admit()
	narrow, silence := p.limit < s.size, p.silence
	s.mu.Unlock()

	var late <-chan time.Time
	if narrow {
		timer := time.NewTimer(queueTime)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-turn:
	case <-ctx.Done():
		err = ctx.Err()
	case <-late:
		err = ErrThrottled
	case <-silence:
		err = errSilent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(p.queue, turn)
	if i < 0 { // its turn has come
		return s.round, nil
	}
	p.queue = slices.Delete(p.queue, i, i+1)
	return 0, err
}

// leave ends a call.
func (s *slots) leave(project string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(project)
	p.taken--
	p.admit()
}

// narrow begins anew with one call of each project.
func (s *slots) narrow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	for _, p := range s.by {
		p.limit = 1
	}
}

// answered takes note of an answer to a call of a round, and of its HTTP status. It allows the project one more call, up to the size, unless the call
// was sent before all began anew, which says nothing.
func (s *slots) answered(project string, round, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(project)
	p.answered = time.Now()
	if p.failures++; status < http.StatusInternalServerError {
		p.failures = 0
	}
	if p.isSilent() {
		p.silence = make(chan struct{})
	}
	if round == s.round {
		p.limit = min(p.limit+1, s.size)
		p.admit()
	}
}

// unanswered takes note of a call without an answer.
func (s *slots) unanswered(project string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(project).failures++
}

// isDown tells whether calls to a project have failed for some time.
func (s *slots) isDown(project string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(project).failures >= lastingAfter
}

// watch looks at a call silentAfter from now, until stop is called.
func (s *slots) watch(project string) (stop func() bool) {
	sent := time.Now()
	return time.AfterFunc(silentAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p := s.of(project); !p.answered.After(sent) && !p.isSilent() {
			p.limit = 1
			close(p.silence)
		}
	}).Stop
}

// silence returns a channel that is closed when a project is silent.
func (s *slots) silence(project string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(project).silence
}

// admit lets in whom the limit allows. The caller holds the lock.
func (p *slot) admit() {
	for p.taken < p.limit && len(p.queue) > 0 {
		p.taken++
		close(p.queue[0])
		p.queue = slices.Delete(p.queue, 0, 1)
	}
}
