package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
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

	Aiven struct {
		Calls          map[string]int `json:"calls"` // by operation
		Total          int            `json:"total"`
		PerApplication float64        `json:"perApplication"`
		Writes         int            `json:"writes"`
		Bytes          int64          `json:"bytes"` // answered
	} `json:"aiven"`
	// Kubernetes counts requests to the API server by method; a watch is one GET. The operator's metrics tell no more.
	Kubernetes struct {
		Requests map[string]int `json:"requests"`
		Writes   int            `json:"writes"`
	} `json:"kubernetes"`

	CPU        float64 `json:"cpuSeconds"`
	PeakMemory int64   `json:"peakMemoryBytes"` // of the process since it started; zero where the system does not tell
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
	p := phase{Name: name, Seconds: seconds(took), CPU: math.Round((after.cpu-before.cpu)*1000) / 1000, PeakMemory: peak}
	p.Aiven.Calls = difference(before.aiven, after.aiven)
	for _, n := range p.Aiven.Calls {
		p.Aiven.Total += n
	}
	p.Aiven.PerApplication = math.Round(float64(p.Aiven.Total)/float64(applications)*100) / 100
	p.Aiven.Writes = after.writes - before.writes
	p.Aiven.Bytes = after.bytes - before.bytes
	p.Kubernetes.Requests = difference(before.kubernetes, after.kubernetes)
	for method, n := range p.Kubernetes.Requests {
		if method != http.MethodGet {
			p.Kubernetes.Writes += n
		}
	}
	return p
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
		for i := range b.phases {
			cells = append(cells, cell(&b.phases[i]))
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
		for i := range b.phases {
			for k := range of(&b.phases[i]) {
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
	row("length", func(p *phase) string { return fmt.Sprintf("%.2f s", p.Seconds) })
	row("calls to Aiven", func(p *phase) string { return fmt.Sprint(p.Aiven.Total) })
	counts("  ", func(p *phase) map[string]int { return p.Aiven.Calls })
	row("  writes", func(p *phase) string { return fmt.Sprint(p.Aiven.Writes) })
	row("  per application", func(p *phase) string { return fmt.Sprintf("%.2f", p.Aiven.PerApplication) })
	row("  answered", func(p *phase) string { return fmt.Sprintf("%.1f MB", float64(p.Aiven.Bytes)/1e6) })
	row("requests to Kubernetes", func(p *phase) string { return fmt.Sprint(sum(p.Kubernetes.Requests)) })
	counts("  ", func(p *phase) map[string]int { return p.Kubernetes.Requests })
	row("  writes", func(p *phase) string { return fmt.Sprint(p.Kubernetes.Writes) })
	row("CPU", func(p *phase) string { return fmt.Sprintf("%.2f s", p.CPU) })
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
		LatencySeconds float64 `json:"latencySeconds"`
		Cores          int     `json:"cores"`
		Phases         []phase `json:"phases"`
	}{b.applications, b.namespaces, b.latency.Seconds(), b.cores, b.phases})
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
