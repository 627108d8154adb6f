package aiven

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slots limits the calls that are under way, by project, so that one that hangs holds up no other. Once the API has allowed no more calls, each
// project begins anew with one at a time, and gets one more with each answer: those who waited do not come back all at once, only to be refused
// again.
type slots struct {
	size  int // of each project
	mu    sync.Mutex
	by    map[string]*slot
	round int // how often all began anew
}

type slot struct {
	limit, taken int
	queue        []chan struct{} // of those who wait, each closed when its turn has come
}

// of returns the slot of a project. The caller holds the lock.
func (s *slots) of(project string) *slot {
	p, ok := s.by[project]
	if !ok {
		p = &slot{limit: s.size}
		s.by[project] = p
	}
	return p
}

// enter waits for the turn of a call; once it has come, leave must be called. It fails with the error of ctx, and with ErrThrottled where the API is
// why it takes long. The round is for widen.
func (s *slots) enter(ctx context.Context, project string) (round int, err error) {
	s.mu.Lock()
	p := s.of(project)
	turn := make(chan struct{})
	p.queue = append(p.queue, turn)
	p.admit()
	narrow := p.limit < s.size
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

// widen allows a project one more call, up to the size, after a call of this round was answered. One that had been sent before says nothing.
func (s *slots) widen(project string, round int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if round != s.round {
		return
	}
	p := s.of(project)
	p.limit = min(p.limit+1, s.size)
	p.admit()
}

// admit lets in whom the limit allows. The caller holds the lock.
func (p *slot) admit() {
	for p.taken < p.limit && len(p.queue) > 0 {
		p.taken++
		close(p.queue[0])
		p.queue = slices.Delete(p.queue, 0, 1)
	}
}
