package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// phase is what was measured of one part. Its JSON is the last line that the program prints.
type phase struct {
	Name string `json:"name"`
	// Ready tells after how many seconds the first, half, 95 in a hundred and all applications were Ready. Only where they became so.
	Ready *quantiles `json:"readySeconds,omitempty"`
	// Seconds is the length of the phase.
	Seconds float64 `json:"seconds"`
	// Floor is how many seconds a burst takes a driver that makes only the calls that nobody can avoid; TimesFloor is how many times that it took.
	Floor      float64 `json:"floorSeconds,omitempty"`
	TimesFloor float64 `json:"timesFloor,omitempty"`
	// Alone and Beside are how many seconds an application of small bursts took in the mean, alone and beside a project that fails or hangs; TimesAlone is
	// their ratio.
	Alone      float64 `json:"aloneSeconds,omitempty"`
	Beside     float64 `json:"besideSeconds,omitempty"`
	TimesAlone float64 `json:"timesAlone,omitempty"`
	// Recovered is how many seconds after the project is well again all its applications were Ready.
	Recovered float64 `json:"recoveredSeconds,omitempty"`

	Aiven struct {
		Calls               map[string]int `json:"calls"` // by operation
		Total               int            `json:"total"`
		PerApplication      float64        `json:"perApplication"`
		Writes              int            `json:"writes"`
		Bytes               int64          `json:"bytes"` // answered
		BytesPerApplication int64          `json:"bytesPerApplication"`
	} `json:"aiven"`
	// Kubernetes counts requests to the API server by verb and resource.
	Kubernetes struct {
		Requests             map[string]int `json:"requests"`
		Writes               int            `json:"writes"`
		WritesPerApplication float64        `json:"writesPerApplication"`
	} `json:"kubernetes"`

	CPU         float64 `json:"cpuSeconds"`
	CPUPerRound float64 `json:"cpuSecondsPerRound,omitempty"` // of the janitor, at most
	Memory      int64   `json:"memoryBytes"`                  // at the end of the phase
	PeakMemory  int64   `json:"peakMemoryBytes"`              // of all processes of the operator so far; zero where the system does not tell
}

type quantiles struct {
	First float64 `json:"first"`
	Half  float64 `json:"half"`
	Most  float64 `json:"most"` // 95 in a hundred
	All   float64 `json:"all"`
}

// quantilesOf takes a time for each application, at least one, in any order.
func quantilesOf(times []time.Duration) *quantiles {
	slices.Sort(times)
	at := func(share float64) float64 {
		return seconds(times[max(0, int(math.Ceil(share*float64(len(times))))-1)])
	}
	return &quantiles{First: at(0), Half: at(0.5), Most: at(0.95), All: at(1)}
}

// seconds has milliseconds at most: what is finer is noise.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// newPhase makes a phase of what was counted before and after it.
func newPhase(name string, took time.Duration, applications int, before, after sample, peak int64) phase {
	p := phase{Name: name, Seconds: seconds(took), CPU: round(after.cpu-before.cpu, 3), Memory: after.memory, PeakMemory: peak}
	p.Aiven.Calls = difference(before.aiven, after.aiven)
	for _, n := range p.Aiven.Calls {
		p.Aiven.Total += n
	}
	p.Aiven.PerApplication = round(float64(p.Aiven.Total)/float64(applications), 2)
	p.Aiven.Writes = after.writes - before.writes
	p.Aiven.Bytes = after.bytes - before.bytes
	p.Aiven.BytesPerApplication = p.Aiven.Bytes / int64(applications)
	p.Kubernetes.Requests = difference(before.kubernetes, after.kubernetes)
	for verb, n := range p.Kubernetes.Requests {
		if !isRead(verb) {
			p.Kubernetes.Writes += n
		}
	}
	p.Kubernetes.WritesPerApplication = round(float64(p.Kubernetes.Writes)/float64(applications), 2)
	return p
}

// round rounds to so many digits after the point.
func round(x float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(x*unit) / unit
}

func difference(before, after map[string]int) map[string]int {
	out := map[string]int{}
	for k, n := range after {
		if n > before[k] {
			out[k] = n - before[k]
		}
	}
	return out
}

// report prints the phases as a table and as a line of JSON.
func (b *bench) report() {
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	row := func(name string, cell func(p *phase) string) {
		cells := []string{name}
		for i := range b.results {
			cells = append(cells, cell(&b.results[i]))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	ready := func(pick func(*quantiles) float64) func(*phase) string {
		return func(p *phase) string {
			if p.Ready == nil {
				return "-"
			}
			return fmt.Sprintf("%.2f s", pick(p.Ready))
		}
	}
	counts := func(name string, of func(*phase) map[string]int) {
		all := map[string]bool{}
		for i := range b.results {
			for k := range of(&b.results[i]) {
				all[k] = true
			}
		}
		for _, k := range slices.Sorted(maps.Keys(all)) {
			row(name+k, func(p *phase) string { return fmt.Sprint(of(p)[k]) })
		}
	}
	fmt.Fprintln(w)
	row("", func(p *phase) string { return strings.ToUpper(p.Name) })
	row("first Ready", ready(func(q *quantiles) float64 { return q.First }))
	row("half Ready", ready(func(q *quantiles) float64 { return q.Half }))
	row("95 % Ready", ready(func(q *quantiles) float64 { return q.Most }))
	row("all Ready", ready(func(q *quantiles) float64 { return q.All }))
	maybe := func(pick func(*phase) float64, format string) func(*phase) string {
		return func(p *phase) string {
			if pick(p) == 0 {
				return "-"
			}
			return fmt.Sprintf(format, pick(p))
		}
	}
	row("  floor", maybe(func(p *phase) float64 { return p.Floor }, "%.2f s"))
	row("  times the floor", maybe(func(p *phase) float64 { return p.TimesFloor }, "%.2f"))
	row("beside such a project", maybe(func(p *phase) float64 { return p.Beside }, "%.2f s"))
	row("  times alone", maybe(func(p *phase) float64 { return p.TimesAlone }, "%.2f"))
	row("its own, once it is well", maybe(func(p *phase) float64 { return p.Recovered }, "%.2f s"))
	row("length", func(p *phase) string { return fmt.Sprintf("%.2f s", p.Seconds) })
	row("calls to Aiven", func(p *phase) string { return fmt.Sprint(p.Aiven.Total) })
	counts("  ", func(p *phase) map[string]int { return p.Aiven.Calls })
	row("  writes", func(p *phase) string { return fmt.Sprint(p.Aiven.Writes) })
	row("  per application", func(p *phase) string { return fmt.Sprintf("%.2f", p.Aiven.PerApplication) })
	row("  answered", func(p *phase) string { return fmt.Sprintf("%.1f MB", float64(p.Aiven.Bytes)/1e6) })
	row("  answered per application", func(p *phase) string { return fmt.Sprintf("%.1f kB", float64(p.Aiven.BytesPerApplication)/1e3) })
	row("requests to Kubernetes", func(p *phase) string { return fmt.Sprint(sum(p.Kubernetes.Requests)) })
	counts("  ", func(p *phase) map[string]int { return p.Kubernetes.Requests })
	row("  writes", func(p *phase) string { return fmt.Sprint(p.Kubernetes.Writes) })
	row("  writes per application", func(p *phase) string { return fmt.Sprintf("%.2f", p.Kubernetes.WritesPerApplication) })
	row("CPU", func(p *phase) string { return fmt.Sprintf("%.2f s", p.CPU) })
	row("  a janitor round", maybe(func(p *phase) float64 { return 1000 * p.CPUPerRound }, "%.0f ms"))
	row("memory", func(p *phase) string { return fmt.Sprintf("%.1f MB", float64(p.Memory)/1e6) })
	row("peak memory", func(p *phase) string {
		if p.PeakMemory == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f MB", float64(p.PeakMemory)/1e6)
	})
	fmt.Fprintln(w)
	_ = w.Flush() // what cannot be printed is not missed by this program
	line, err := json.Marshal(struct {
		Applications   int     `json:"applications"`
		Namespaces     int     `json:"namespaces"`
		Pods           int     `json:"pods"`
		Secrets        int     `json:"secrets"`
		LargeSecrets   int     `json:"largeSecrets"`
		Topics         bool    `json:"topics"`
		SharedSearch   bool    `json:"sharedOpenSearch"`
		LatencySeconds float64 `json:"latencySeconds"`
		Cores          int     `json:"cores"`
		Phases         []phase `json:"phases"`
	}{b.applications, b.namespaces, b.pods, b.secrets, b.largeSecrets, b.topics, b.sharedSearch, b.latency.Seconds(), b.cores, b.results})
	if err != nil {
		line = []byte(err.Error()) // there is nothing in it that has no JSON
	}
	fmt.Fprintf(b.out, "%s\n", line)
}

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
