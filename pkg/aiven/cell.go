package aiven

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// failureAge is how long a failed read is remembered, so that a broken service is not hammered by hundreds of
	// applications.
	failureAge = 1500 * time.Millisecond
	// readGap is the time between two reads of a value that is invalidated all the time.
	readGap = 3 * time.Second
)

// cell holds a value that is read from Aiven and shared.
type cell[T any] struct {
	clock  clock.PassiveClock
	maxAge time.Duration
	// read reads the value. Its context is that of the client.
	read func() (T, error)
	// silence returns a channel that is closed when nobody should wait for the project of the value.
	silence func() <-chan struct{}

	mu          sync.Mutex
	value       T
	known       bool
	readAt      time.Time // when the read of value began
	expires     time.Time
	invalidated time.Time
	doubts      int   // how often the value has become doubtful
	trusted     int   // doubts, when the read of value began
	err         error // of the last read
	errUntil    time.Time
	flight      *flight[T]
}

// newCell makes a cell of something in a project.
func newCell[T any](c *Client, project string, read func() (T, error)) cell[T] {
	return cell[T]{clock: c.clock, maxAge: c.maxAge, read: read, silence: func() <-chan struct{} { return c.slots.silence(project) }}
}

// flight is a read that is under way.
type flight[T any] struct {
	done   chan struct{}
	doubts int // when it began
	value  T
	err    error
}

// get returns the value, and reads it if there is none or it is too old. A caller leaves when its context ends, or with errSilent; the
// read goes on for the others.
func (c *cell[T]) get(ctx context.Context) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	c.mu.Lock()
	doubts := c.doubts
	c.mu.Unlock()
	for {
		f, value, err := c.current()
		if f == nil {
			return value, err
		}
		select {
		case <-f.done:
			if f.err != nil || f.doubts >= doubts {
				return f.value, f.err
			}
		case <-ctx.Done():
			return zero, ctx.Err()
		case <-c.silence():
			return zero, errSilent
		}
	}
}

// current returns the read to wait for, or, with nil, what is known.
func (c *cell[T]) current() (*flight[T], T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	var zero T
	switch {
	case c.flight != nil:
		return c.flight, zero, nil
	case c.err != nil && now.Before(c.errUntil):
		return nil, zero, c.err
	case c.known && now.Before(c.expires) && c.trusted == c.doubts && (c.invalidated.Before(c.readAt) || now.Sub(c.readAt) < readGap):
		return nil, c.value, nil
	}
	f := &flight[T]{done: make(chan struct{}), doubts: c.doubts}
	c.flight = f
	go c.fly(f, now)
	return f, zero, nil
}

func (c *cell[T]) fly(f *flight[T], began time.Time) {
	f.value, f.err = c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight, c.err = nil, f.err
	switch {
	case f.err == nil:
		c.value, c.known, c.readAt, c.trusted = f.value, true, began, f.doubts
		c.expires = began.Add(c.maxAge - rand.N(c.maxAge/5+1))
	case errors.Is(f.err, ErrNotFound):
		var zero T
		c.value, c.known = zero, false
	}
	c.errUntil = c.clock.Now().Add(failureAge)
	close(f.done)
}

// invalidate makes the next get read anew, unless the last read is too recent for that.
func (c *cell[T]) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalidated = c.clock.Now()
}

// doubt makes the next get read anew whatever was read before, also by a read that is under way.
func (c *cell[T]) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubts++
}
