// Command growth measures how the operator's cost grows with the number of applications and of Pods, and renews the table and the plot of
// docs/performance.md:
//
//	make growth
//	go run . -applications=100,300 -pods=0 -runs=1   (in its folder)
//
// It runs the benchmark for each pair, each time on a cluster of its own, several times, and takes medians: single runs on a machine that others use tell little. Rows that take long are
// announced; the whole table takes an hour and a half. What was measured is kept, one line of JSON for each run, in the file of -raw, and is not measured again.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// run is what is used of a run of the benchmark: its last line.
type run struct {
	Applications int     `json:"applications"`
	Pods         int     `json:"pods"`
	Latency      float64 `json:"latencySeconds"`
	Cores        int     `json:"cores"`
	Phases       []struct {
		Name        string                           `json:"name"`
		Ready       struct{ All float64 }            `json:"readySeconds"`
		TimesFloor  float64                          `json:"timesFloor"`
		CPU         float64                          `json:"cpuSeconds"`
		CPUPerRound float64                          `json:"cpuSecondsPerRound"`
		Memory      float64                          `json:"memoryBytes"`
		PeakMemory  float64                          `json:"peakMemoryBytes"`
		Aiven       struct{ PerApplication float64 } `json:"aiven"`
	} `json:"phases"`
}

// row is a line of the table: medians.
type row struct {
	applications, pods          int
	all, timesFloor, cpu, round float64 // seconds; multiple of the floor; seconds; seconds
	calls, memory, peak         float64 // per application; bytes; bytes
}

func main() {
	applications := flag.String("applications", "100,300,1000,3000", "numbers of applications")
	pods := flag.String("pods", "0,2000,20000", "numbers of Pods")
	runs := flag.Int("runs", 3, "runs of each pair")
	raw := flag.String("raw", "growth.json", "file of what was measured")
	page := flag.String("page", "../../docs/performance.md", "page whose table is renewed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, *applications, *pods, *runs, *raw, *page)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "growth: %s\n", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, applications, pods string, runs int, raw, page string) error {
	ns, err := numbers("applications", applications)
	if err != nil {
		return err
	}
	ms, err := numbers("pods", pods)
	if err != nil {
		return err
	}
	if runs < 1 {
		return errors.New("-runs: must be at least 1")
	}
	done, err := read(raw)
	if err != nil {
		return err
	}
	var rows []row
	for _, m := range ms {
		for _, n := range ns {
			of := func(r run) bool { return r.Applications == n && r.Pods == m }
			for i := count(done, of); i < runs; i++ {
				fmt.Printf("%d applications, %d Pods: run %d of %d\n", n, m, i+1, runs)
				r, err := bench(ctx, n, m, raw)
				if err != nil {
					return err
				}
				done = append(done, r)
			}
			var some []run
			for _, r := range done {
				if of(r) {
					some = append(some, r)
				}
			}
			rows = append(rows, rowOf(some))
		}
	}
	if err := draw(rows, filepath.Join(filepath.Dir(page), "img")); err != nil {
		return err
	}
	return renew(page, table(rows, done[0], runs)+growth(rows))
}

func numbers(name, list string) ([]int, error) {
	var out []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("-%s: %q is not a list of numbers such as 100,300", name, list)
		}
		out = append(out, n)
	}
	return out, nil
}

// read reads what was measured before.
func read(path string) ([]run, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	var out []run
	for d := json.NewDecoder(f); ; {
		var r run
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		out = append(out, r)
	}
}

func count(runs []run, of func(run) bool) int {
	n := 0
	for _, r := range runs {
		if of(r) {
			n++
		}
	}
	return n
}

// bench runs the benchmark once, shows what it prints, and keeps its last line in raw.
func bench(ctx context.Context, applications, pods int, raw string) (r run, err error) {
	cmd := exec.CommandContext(ctx, "go", "run", "./integration/controlplane/cmd/controlplane", "--",
		"go", "run", "./integration/bench", "-phases=burst,restart,janitor", "-whole-cluster", "-keep",
		"-applications="+strconv.Itoa(applications), "-pods="+strconv.Itoa(pods))
	cmd.Dir = "../.."
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it cleans up
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, os.Stdout), os.Stderr
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("run the benchmark: %w", err)
	}
	last := ""
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = lines.Text()
	}
	if err := json.Unmarshal([]byte(last), &r); err != nil {
		return r, fmt.Errorf("read the last line of the benchmark: %w", err)
	}
	f, err := os.OpenFile(raw, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return r, err
	}
	_, err = fmt.Fprintln(f, last)
	return r, errors.Join(err, f.Close())
}

// rowOf takes the medians of runs of one pair.
func rowOf(runs []run) row {
	r := row{applications: runs[0].Applications, pods: runs[0].Pods}
	of := func(phase string, pick func(i, p int) float64) float64 {
		var values []float64
		for i := range runs {
			for p := range runs[i].Phases {
				if runs[i].Phases[p].Name == phase {
					values = append(values, pick(i, p))
				}
			}
		}
		return median(values)
	}
	r.all = of("burst", func(i, p int) float64 { return runs[i].Phases[p].Ready.All })
	r.timesFloor = of("burst", func(i, p int) float64 { return runs[i].Phases[p].TimesFloor })
	r.cpu = of("burst", func(i, p int) float64 { return runs[i].Phases[p].CPU })
	r.calls = of("burst", func(i, p int) float64 { return runs[i].Phases[p].Aiven.PerApplication })
	r.peak = of("burst", func(i, p int) float64 { return runs[i].Phases[p].PeakMemory })
	r.memory = of("janitor", func(i, p int) float64 { return runs[i].Phases[p].Memory })
	r.round = of("janitor", func(i, p int) float64 { return runs[i].Phases[p].CPUPerRound })
	return r
}

// median of no values is zero.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func table(rows []row, r run, runs int) string {
	var b strings.Builder
	times := "One run of each."
	if runs > 1 {
		times = fmt.Sprintf("Medians of at least %d runs.", runs)
	}
	fmt.Fprintf(&b, "%s Each call to Aiven takes %.0f ms. The operator uses %d cores of %d, which it shares with etcd, API server, controller manager and simulator.\n\n",
		times, r.Latency*1000, r.Cores, runtime.NumCPU())
	b.WriteString("| applications | Pods | all Ready | × floor | per application | CPU per application | calls to Aiven per application | memory, peak | memory, settled | a janitor round, CPU |\n")
	b.WriteString("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		n := float64(r.applications)
		fmt.Fprintf(&b, "| %d | %d | %.1f s | %.2f | %.1f ms | %.1f ms | %.2f | %.0f MB | %.0f MB | %.0f ms |\n",
			r.applications, r.pods, r.all, r.timesFloor, 1000*r.all/n, 1000*r.cpu/n, r.calls, r.peak/1e6, r.memory/1e6, 1000*r.round)
	}
	return b.String()
}

// growth says how the cost of an application and of a Pod grows from the second smallest size to the largest.
func growth(rows []row) string {
	at := func(n, m int) *row {
		i := slices.IndexFunc(rows, func(r row) bool { return r.applications == n && r.pods == m })
		if i < 0 {
			return nil
		}
		return &rows[i]
	}
	var ns, ms []int
	for _, r := range rows {
		ns, ms = append(ns, r.applications), append(ms, r.pods)
	}
	slices.Sort(ns)
	slices.Sort(ms)
	ns, ms = slices.Compact(ns), slices.Compact(ms)
	if len(ns) < 2 {
		return ""
	}
	var b strings.Builder
	few, many := at(ns[max(len(ns)-3, 0)], ms[0]), at(ns[len(ns)-1], ms[0])
	ratio := func(pick func(*row) float64, a, c *row) float64 {
		return pick(c) / float64(c.applications) / (pick(a) / float64(a.applications))
	}
	all, cpu := func(r *row) float64 { return r.all }, func(r *row) float64 { return r.cpu }
	fmt.Fprintf(&b, "\nFrom %d to %d applications, the time for each is %.2f times as long, and its processor time %.2f times. An application takes %.0f kB of memory.\n",
		few.applications, many.applications, ratio(all, few, many), ratio(cpu, few, many), (many.memory-few.memory)/float64(many.applications-few.applications)/1e3)
	if len(ms) > 1 {
		none, full := at(few.applications, ms[0]), at(few.applications, ms[len(ms)-1])
		fmt.Fprintf(&b, "From %d to %d Pods, with %d applications, the time for each is %.2f times as long, and its processor time %.2f times. A Pod takes %.1f kB of memory.\n",
			none.pods, full.pods, none.applications, ratio(all, none, full), ratio(cpu, none, full), (full.memory-none.memory)/float64(full.pods-none.pods)/1e3)
	}
	return b.String()
}

// The table stands between these lines of the page.
const begin, end = "<!-- growth: begin -->\n", "<!-- growth: end -->\n"

// renew puts a text between the marks of a page.
func renew(page, text string) error {
	raw, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("renew %s: it lacks the marks %q and %q", page, begin, end)
	}
	return os.WriteFile(page, []byte(head+begin+text+end+tail), 0o644)
}
