package year

import (
	"context"
	"slices"
	"time"
)

// plan is what is still to happen.
type plan struct {
	events []event // in their order
}

// event is something that happens at a moment.
type event struct {
	at time.Time
	do func(context.Context) error
}

// add plans an event, after those of the same moment.
func (p *plan) add(at time.Time, do func(context.Context) error) {
	i, _ := slices.BinarySearchFunc(p.events, at, func(e event, at time.Time) int {
		if e.at.After(at) {
			return 1
		}
		return -1
	})
	p.events = slices.Insert(p.events, i, event{at, do})
}

// next takes the first event.
func (p *plan) next() (event, bool) {
	if len(p.events) == 0 {
		return event{}, false
	}
	e := p.events[0]
	p.events = p.events[1:]
	return e, true
}
