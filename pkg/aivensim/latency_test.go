package aivensim

import (
	"slices"
	"testing"
	"time"
)

func TestLatency(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		latency            Latency
		text               string
		least, median, top time.Duration // of a thousand: the shortest, the middle one, and the tenth longest; about
	}{
		"is nothing":         {Latency{}, "0s", 0, 0, 0},
		"is constant":        {Constant(20 * ms), "20ms", 20 * ms, 20 * ms, 20 * ms},
		"is uniform":         {Uniform(10*ms, 50*ms), "uniform 10ms 50ms", 10 * ms, 30 * ms, 50 * ms},
		"is log-normal":      {LogNormal(20*ms, 0.5), "lognormal 20ms 0.5", 4 * ms, 20 * ms, 64 * ms},
		"has a heavy tail":   {Pareto(10*ms, 1), "pareto 10ms 1", 10 * ms, 20 * ms, 1000 * ms},
		"has a bounded tail": {Pareto(time.Minute, 0.01), "pareto 1m0s 0.01", time.Minute, time.Hour, time.Hour},
	}
	about := func(want, got time.Duration) bool { return got >= want*6/10 && got <= want*17/10 }
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.latency.String(); got != tt.text {
				t.Errorf("want %s, got %s", tt.text, got)
			}
			if got, err := ParseLatency(tt.text); got != tt.latency || err != nil {
				t.Errorf("want the same, got %v, %v", got, err)
			}
			rng := newRand(1, "test")
			draws := make([]time.Duration, 1000)
			for i := range draws {
				draws[i] = tt.latency.draw(rng)
			}
			slices.Sort(draws)
			if !about(tt.least, draws[0]) && tt.latency.kind != "pareto" || !about(tt.median, draws[500]) || !about(tt.top, draws[990]) {
				t.Errorf("want about %s, %s and %s, got %s, %s and %s", tt.least, tt.median, tt.top, draws[0], draws[500], draws[990])
			}
		})
	}
}

func TestLatencyRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown distribution": "normal 1ms 2ms",
		"a single word":           "fast",
		"a missing time":          "uniform 1ms",
		"a time for a number":     "pareto 1ms 2ms",
		"no shape":                "pareto 1ms 0",
		"a shape that is none":    "pareto 1ms NaN",
		"a negative sigma":        "lognormal 1ms -1",
		"a negative time":         "-1ms",
		"times in another order":  "uniform 2ms 1ms",
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			if l, err := ParseLatency(text); err == nil {
				t.Errorf("want an error for %s, got %v", text, l)
			}
		})
	}
}
