package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The goals.
const (
	goalMicroseconds = 10.0 // that the framework adds for each resource and pass, less than
	goalAllocations  = 10.0 // the same
	goalSpeedUp      = 0.75 // by many workers, for each of them, at least
)

// report is all that was measured.
type report struct {
	Resources int        `json:"resources"` // of the slice
	Overhead  []overhead `json:"overhead,omitempty"`
	Burst     *burst     `json:"burst,omitempty"`
}

// cost is that of a pass, or of a part of one.
type cost struct {
	Microseconds float64 `json:"microseconds"`
	Allocations  float64 `json:"allocations"`
	Bytes        float64 `json:"bytes"`
}

func (c cost) minus(d cost) cost {
	return cost{c.Microseconds - d.Microseconds, c.Allocations - d.Allocations, c.Bytes - d.Bytes}
}

func (c cost) over(n int) cost {
	return cost{c.Microseconds / float64(n), c.Allocations / float64(n), c.Bytes / float64(n)}
}

// pair is what a pass costs by a bare reconciler and by the framework.
type pair struct{ bare, framework cost }

// added is what the framework adds.
func (p pair) added() cost { return p.framework.minus(p.bare) }

// round is what was measured in one round: with one resource, and with all.
type round struct{ one, all pair }

// overhead is what the framework adds to a bare reconciler. All of it are medians.
type overhead struct {
	Driven string     `json:"driven"` // how the reconcilers were called
	One    comparison `json:"one"`    // with one resource
	All    comparison `json:"all"`    // with all resources
	// PerResource is what is added with all resources, divided by their number: what the goals are about. It has two parts.
	PerResource cost `json:"perResource"`
	// Fixed is what is added to a pass, however many resources it has.
	Fixed cost `json:"fixed"`
	// Marginal is what is added for each resource.
	Marginal cost `json:"marginal"`
	GoalMet  bool `json:"goalMet"`
}

// comparison is what a pass costs. Ratio is that of the times.
type comparison struct {
	Bare      cost    `json:"bare"`
	Framework cost    `json:"framework"`
	Ratio     float64 `json:"ratio"`
}

// newOverhead takes at least one round and two resources.
func newOverhead(driven string, resources int, rounds []round) overhead {
	marginal := func(r round) cost { return r.all.added().minus(r.one.added()).over(resources - 1) }
	o := overhead{
		Driven:      driven,
		One:         compare(rounds, func(r round) pair { return r.one }),
		All:         compare(rounds, func(r round) pair { return r.all }),
		PerResource: medianCost(rounds, func(r round) cost { return r.all.added().over(resources) }),
		Fixed:       medianCost(rounds, func(r round) cost { return r.one.added().minus(marginal(r)) }),
		Marginal:    medianCost(rounds, marginal),
	}
	o.GoalMet = o.PerResource.Microseconds < goalMicroseconds && o.PerResource.Allocations < goalAllocations
	return o
}

func compare(rounds []round, of func(round) pair) comparison {
	return comparison{
		Bare:      medianCost(rounds, func(r round) cost { return of(r).bare }),
		Framework: medianCost(rounds, func(r round) cost { return of(r).framework }),
		Ratio:     median(rounds, func(r round) float64 { return of(r).framework.Microseconds / of(r).bare.Microseconds }),
	}
}

func medianCost(rounds []round, of func(round) cost) cost {
	return cost{
		Microseconds: median(rounds, func(r round) float64 { return of(r).Microseconds }),
		Allocations:  median(rounds, func(r round) float64 { return of(r).Allocations }),
		Bytes:        median(rounds, func(r round) float64 { return of(r).Bytes }),
	}
}

// median is that of something in each of all, of which there is at least one.
func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// burst is what became of many objects at once.
type burst struct {
	Place        string  `json:"place"` // of the objects: cluster or memory
	Objects      int     `json:"objects"`
	TakesSeconds float64 `json:"takesSeconds"` // each resource
	One          pace    `json:"one"`          // with one worker
	Many         pace    `json:"many"`
	SpeedUp      float64 `json:"speedUp"`
	Goal         float64 `json:"goal"`
	GoalMet      bool    `json:"goalMet"`
}

type pace struct {
	Workers          int     `json:"workers"`
	Seconds          float64 `json:"seconds"`
	ObjectsPerSecond float64 `json:"objectsPerSecond"`
}

func newBurst(place string, objects int, takes time.Duration, workers int, one, many time.Duration) *burst {
	at := func(workers int, took time.Duration) pace {
		return pace{workers, took.Seconds(), float64(objects) / took.Seconds()}
	}
	b := &burst{
		Place: place, Objects: objects, TakesSeconds: takes.Seconds(), One: at(1, one), Many: at(workers, many),
		SpeedUp: one.Seconds() / many.Seconds(), Goal: goalSpeedUp * float64(workers),
	}
	b.GoalMet = b.SpeedUp >= b.Goal
	return b
}

// print prints tables.
func (r report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }
	if len(r.Overhead) > 0 {
		r.printOverhead(row)
	}
	if len(r.Overhead) > 0 && r.Burst != nil {
		row()
	}
	if r.Burst != nil {
		r.Burst.print(row)
	}
	_ = w.Flush() // what cannot be printed is not missed by this program
}

func (r report) printOverhead(row func(...string)) {
	cells := func(c cost) []string {
		return []string{fmt.Sprintf("%.2f µs", c.Microseconds), fmt.Sprintf("%.1f", c.Allocations), fmt.Sprintf("%.0f", c.Bytes)}
	}
	row("PASSES DRIVEN", "RESOURCES", "BY", "TIME", "ALLOCATIONS", "BYTES", "PASSES/S", "RATIO OF TIMES")
	for _, o := range r.Overhead {
		line := func(resources int, by string, c cost, ratio string) {
			row(slices.Concat([]string{o.Driven, fmt.Sprint(resources), by}, cells(c), []string{fmt.Sprintf("%.0f", 1e6/c.Microseconds), ratio})...)
		}
		line(1, "bare", o.One.Bare, "")
		line(1, "framework", o.One.Framework, fmt.Sprintf("%.1f", o.One.Ratio))
		line(r.Resources, "bare", o.All.Bare, "")
		line(r.Resources, "framework", o.All.Framework, fmt.Sprintf("%.1f", o.All.Ratio))
	}
	row()
	row("ADDED BY FRAMEWORK", "TO", "TIME", "ALLOCATIONS", "BYTES", "GOAL")
	for _, o := range r.Overhead {
		line := func(to string, c cost, goal string) {
			row(slices.Concat([]string{o.Driven, to}, cells(c), []string{goal})...)
		}
		line("a pass, fixed", o.Fixed, "")
		line("each resource", o.Marginal, "")
		line(fmt.Sprintf("both, for each of %d", r.Resources), o.PerResource,
			fmt.Sprintf("below %.0f µs and %.0f allocations: %s", goalMicroseconds, goalAllocations, verdict(o.GoalMet)))
	}
}

func (b *burst) print(row func(...string)) {
	row("BURST OF", "IN", "WORKERS", "TIME", "OBJECTS/S", "SPEED-UP", "GOAL")
	line := func(p pace, more ...string) {
		row(append([]string{fmt.Sprintf("%d objects", b.Objects), b.Place, fmt.Sprint(p.Workers),
			fmt.Sprintf("%.1f s", p.Seconds), fmt.Sprintf("%.1f", p.ObjectsPerSecond)}, more...)...)
	}
	line(b.One, "", "")
	line(b.Many, fmt.Sprintf("%.1f", b.SpeedUp), fmt.Sprintf("at least %.3g: %s", b.Goal, verdict(b.GoalMet)))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}
