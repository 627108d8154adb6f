package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantilesOf(t *testing.T) {
	times := func(n int) []time.Duration {
		var out []time.Duration
		for i := n; i > 0; i-- {
			out = append(out, time.Duration(i)*time.Second)
		}
		return out
	}
	for name, tc := range map[string]struct {
		times []time.Duration
		want  *quantiles
	}{
		"it takes a single one": {times(1), &quantiles{1, 1, 1, 1}},
		"it takes a few":        {times(3), &quantiles{1, 2, 3, 3}},
		"it takes many":         {times(200), &quantiles{1, 100, 190, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, quantilesOf(tc.times)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestNewPhase(t *testing.T) {
	before := sample{
		aiven: map[string]int{"ServiceGet": 5, "ProjectList": 1}, writes: 3, bytes: 100,
		kubernetes: map[string]int{"GET": 7}, cpu: 1,
	}
	after := sample{
		aiven: map[string]int{"ServiceGet": 5, "ProjectList": 2, "ServiceUserCreate": 3}, writes: 6, bytes: 1100,
		kubernetes: map[string]int{"GET": 8, "POST": 2, "PATCH": 4}, cpu: 3.5,
	}
	want := phase{Name: "part", Seconds: 1.5, CPU: 2.5, PeakMemory: 42}
	want.Aiven.Calls = map[string]int{"ProjectList": 1, "ServiceUserCreate": 3}
	want.Aiven.Total, want.Aiven.PerApplication, want.Aiven.Writes, want.Aiven.Bytes = 4, 1.33, 3, 1000
	want.Kubernetes.Requests = map[string]int{"GET": 1, "POST": 2, "PATCH": 4}
	want.Kubernetes.Writes = 6
	if diff := cmp.Diff(want, newPhase("part", 1500*time.Millisecond, 3, before, after, 42)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPeakIn(t *testing.T) {
	for name, tc := range map[string]struct {
		status string
		want   int64
	}{
		"it finds the peak":         {"Name:\tkeysmith\nVmPeak:\t 1270508 kB\nVmHWM:\t   81234 kB\nVmRSS:\t   70000 kB\n", 81234 * 1024},
		"it knows none of a zombie": {"Name:\tkeysmith\nState:\tZ (zombie)\n", 0},
		"it knows none of nothing":  {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := peakIn([]byte(tc.status)); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}
