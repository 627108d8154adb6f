package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a run did and found.
type Report struct {
	Seed     uint64
	Duration time.Duration // of the faults
	Settled  time.Duration // how long it took then until all was in order
	// Counts has how often each thing was done, by table ("operation", "process", "fault", "simulator") and kind.
	Counts map[string]map[string]int
	// Violations is what does not hold. Histories has the history of each.
	Violations []Violation
	Histories  []string
}

// Total is the sum of a table.
func (r *Report) Total(table string) int {
	n := 0
	for _, v := range r.Counts[table] {
		n += v
	}
	return n
}

// Print is the report for people: tables, then everything that does not hold, with its history.
func (r *Report) Print() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d: %d operations and %d faults in %s; all was in order %s after the last\n", r.Seed,
		r.Total("operation"), r.Total("fault"), r.Duration.Round(time.Second), r.Settled.Round(time.Second))
	for _, table := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(&out, "\n  %s\n", table)
		for _, kind := range slices.Sorted(maps.Keys(r.Counts[table])) {
			fmt.Fprintf(&out, "    %-45s %6d\n", kind, r.Counts[table][kind])
		}
	}
	for i, v := range r.Violations {
		fmt.Fprintf(&out, "\n  VIOLATED: %s\n%s", v, r.Histories[i])
	}
	return out.String()
}
