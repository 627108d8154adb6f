package aivensim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Latency is a distribution of waiting times. Its zero value is no wait at all. As text, in JSON and in flags, it is one of
//
//	20ms                 always the same
//	uniform 10ms 50ms    evenly between two times
//	lognormal 20ms 0.5   median, and sigma of the logarithm
//	pareto 10ms 1.5      shortest time, and shape: a heavy tail, the heavier the smaller the shape is
//
// No wait is longer than an hour.
type Latency struct {
	kind       string // empty: constant
	base, most time.Duration
	shape      float64
}

// maxLatency bounds the heavy tails.
const maxLatency = time.Hour

// Constant is always the same time.
func Constant(d time.Duration) Latency { return Latency{base: d} }

// Uniform is spread evenly between two times.
func Uniform(least, most time.Duration) Latency {
	return Latency{kind: "uniform", base: least, most: most}
}

// LogNormal has a median, and sigma as the standard deviation of the logarithm.
func LogNormal(median time.Duration, sigma float64) Latency {
	return Latency{kind: "lognormal", base: median, shape: sigma}
}

// Pareto has a heavy tail: the chance to wait longer than x times the least is x to the power of -shape.
func Pareto(least time.Duration, shape float64) Latency {
	return Latency{kind: "pareto", base: least, shape: shape}
}

var errLatency = errors.New(`want "20ms", "uniform 10ms 50ms", "lognormal 20ms 0.5" or "pareto 10ms 1.5"`)

// ParseLatency reads the text form.
func ParseLatency(text string) (Latency, error) {
	var l Latency
	words := strings.Fields(text)
	if len(words) == 3 {
		l.kind, words = words[0], words[1:]
	}
	var err error
	switch {
	case len(words) == 0:
		return l, nil
	case l.kind == "" && len(words) == 1:
	case l.kind == "uniform" && len(words) == 2:
		l.most, err = time.ParseDuration(words[1])
	case (l.kind == "lognormal" || l.kind == "pareto") && len(words) == 2:
		l.shape, err = strconv.ParseFloat(words[1], 64)
	default:
		return Latency{}, errLatency
	}
	if err == nil {
		l.base, err = time.ParseDuration(words[0])
	}
	if err != nil {
		return Latency{}, errLatency
	}
	return l, l.check()
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Latency) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLatency(string(text))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (l Latency) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String returns the text form.
func (l Latency) String() string {
	switch l.kind {
	case "":
		return l.base.String()
	case "uniform":
		return fmt.Sprintf("uniform %s %s", l.base, l.most)
	}
	return fmt.Sprintf("%s %s %g", l.kind, l.base, l.shape)
}

// IsZero tells whether nobody ever waits.
func (l Latency) IsZero() bool { return l == Latency{} }

func (l Latency) check() error {
	switch {
	case l.base < 0:
		return errors.New("want no negative time")
	case l.kind == "uniform" && l.most < l.base:
		return errors.New("want the shorter time first")
	case l.kind == "lognormal" && (l.shape < 0 || math.IsNaN(l.shape)):
		return errors.New("want no negative sigma")
	case l.kind == "pareto" && !(l.shape > 0):
		return errors.New("want a positive shape")
	}
	return nil
}

// draw returns the next waiting time.
func (l Latency) draw(rng *rand.Rand) time.Duration {
	d := float64(l.base)
	switch l.kind {
	case "uniform":
		d += rng.Float64() * float64(l.most-l.base)
	case "lognormal":
		d *= math.Exp(l.shape * rng.NormFloat64())
	case "pareto":
		d *= math.Pow(1-rng.Float64(), -1/l.shape)
	}
	return time.Duration(min(d, float64(maxLatency)))
}
