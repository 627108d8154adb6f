package year

import (
	"fmt"
	"strings"
	"time"
)

// Report is what a run did and found.
type Report struct {
	Seed                    uint64
	Weeks, Applications     int
	Took                    time.Duration // real time
	Counts                  Counts
	UsersMade, UsersDeleted int // at Aiven
	// Violations is what does not hold.
	Violations []Violation
}

// Print is the report for people.
func (r *Report) Print() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d: %d weeks of %d applications in %s\n\n", r.Seed, r.Weeks, r.Applications, r.Took.Round(time.Second))
	for _, line := range []struct {
		what string
		n    int
	}{
		{"users replaced in Secrets", r.Counts.Rotations},
		{"certificates renewed by Aiven", r.Counts.Renewals},
		{"users made at Aiven", r.UsersMade},
		{"users deleted at Aiven", r.UsersDeleted},
		{"outages", r.Counts.Outages},
		{"restarts of the operator", r.Counts.Restarts},
		{"starts of Pods", r.Counts.PodStarts},
		{"logins tried", r.Counts.Logins},
		{"logins refused as announced", r.Counts.Refused},
		{"checks of everything", r.Counts.Checks},
		{"violations", len(r.Violations)},
	} {
		fmt.Fprintf(&out, "  %-32s %7d\n", line.what, line.n)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&out, "\n  VIOLATED: %s\n", v)
	}
	return out.String()
}
