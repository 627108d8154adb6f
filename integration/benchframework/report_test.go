package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		want   float64
	}{
		"it takes a single one":                 {[]float64{3}, 3},
		"it takes the one in the middle":        {[]float64{9, 1, 2}, 2},
		"it takes the mean of two":              {[]float64{1, 4, 2, 100}, 3},
		"it is not moved by an odd one out":     {[]float64{2, 2, 1e9, 2, 3}, 2},
		"it takes values that are not positive": {[]float64{-1, 0, -3}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := median(tc.values, func(v float64) float64 { return v }); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

// rounds are three, in which the framework adds 20 allocations, and 3 for each resource. In the last one the machine was
// busy with something else.
func rounds() []round {
	ordinary := round{
		one: pair{bare: cost{1, 2, 100}, framework: cost{9, 25, 1000}},
		all: pair{bare: cost{2, 2, 100}, framework: cost{46, 52, 2800}},
	}
	busy := ordinary
	busy.all.framework.Microseconds = 900
	return []round{ordinary, ordinary, busy}
}

func TestNewOverhead(t *testing.T) {
	want := overhead{
		Driven:      "directly",
		One:         comparison{Bare: cost{1, 2, 100}, Framework: cost{9, 25, 1000}, Ratio: 9},
		All:         comparison{Bare: cost{2, 2, 100}, Framework: cost{46, 52, 2800}, Ratio: 23},
		PerResource: cost{4.4, 5, 270},
		Fixed:       cost{4, 20, 700},
		Marginal:    cost{4, 3, 200},
		GoalMet:     true,
	}
	if diff := cmp.Diff(want, newOverhead("directly", 10, rounds())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOverheadGoal(t *testing.T) {
	for name, tc := range map[string]struct {
		added cost // to a pass with ten resources
		want  bool
	}{
		"it is met below both":            {cost{99, 99, 1e6}, true},
		"it is missed by the time":        {cost{100, 99, 0}, false},
		"it is missed by the allocations": {cost{99, 100, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{one: pair{bare: cost{1, 1, 1}}, all: pair{bare: cost{1, 1, 1}, framework: cost{1, 1, 1}.minus(cost{}.minus(tc.added))}}
			if got := newOverhead("", 10, []round{r}).GoalMet; got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
		})
	}
}

func TestNewBurst(t *testing.T) {
	want := &burst{
		Place: "memory", Objects: 100, TakesSeconds: 0.02, SpeedUp: 12.5, Goal: 12, GoalMet: true,
		One: pace{1, 20, 5}, Many: pace{16, 1.6, 62.5},
	}
	if diff := cmp.Diff(want, newBurst("memory", 100, 20*time.Millisecond, 16, 20*time.Second, 1600*time.Millisecond)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if slow := newBurst("memory", 100, 20*time.Millisecond, 16, 20*time.Second, 2*time.Second); slow.GoalMet {
		t.Errorf("want a goal that is missed, got %+v", slow)
	}
}

func TestPrint(t *testing.T) {
	const (
		passes = `
PASSES DRIVEN  RESOURCES  BY         TIME      ALLOCATIONS  BYTES  PASSES/S  RATIO OF TIMES
directly       1          bare       1.00 µs   2.0          100    1000000
directly       1          framework  9.00 µs   25.0         1000   111111    9.0
directly       10         bare       2.00 µs   2.0          100    500000
directly       10         framework  46.00 µs  52.0         2800   21739     23.0

ADDED BY FRAMEWORK  TO                    TIME     ALLOCATIONS  BYTES  GOAL
directly            a pass, fixed         4.00 µs  20.0         700
directly            each resource         4.00 µs  3.0          200
directly            both, for each of 10  4.40 µs  5.0          270    below 10 µs and 10 allocations: met
`
		ofBurst = `
BURST OF      IN       WORKERS  TIME     OBJECTS/S  SPEED-UP  GOAL
1000 objects  cluster  1        210.0 s  4.8
1000 objects  cluster  16       21.0 s   47.6       10.0      at least 12: MISSED
`
	)
	o := []overhead{newOverhead("directly", 10, rounds())}
	b := newBurst("cluster", 1000, 20*time.Millisecond, 16, 210*time.Second, 21*time.Second)
	for name, tc := range map[string]struct {
		report report
		want   string
	}{
		"it prints all":          {report{Resources: 10, Overhead: o, Burst: b}, passes + ofBurst},
		"it prints the overhead": {report{Resources: 10, Overhead: o}, passes},
		"it prints the burst":    {report{Resources: 10, Burst: b}, ofBurst},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tc.report.print(&out)
			var got strings.Builder
			for line := range strings.Lines("\n" + out.String()) {
				got.WriteString(strings.TrimRight(line, " \n") + "\n")
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
