package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/keysmith-io/keysmith/integration/operator"
)

// sample is what has been counted up to a moment.
type sample struct {
	aiven  map[string]int // calls by operation
	writes int            // those of them that were no reads
	bytes  int64          // answered by Aiven

	kubernetes map[string]int // requests to the API server by verb and resource
	cpu        float64        // seconds
	memory     int64          // held at the moment, in bytes
	passes     int            // over applications
	idle       bool           // nothing is queued or worked on
	rounds     bool           // the janitor has been at work
}

// sampleOutside asks simulator, gateway and system, which is all that is known of another operator.
func (b *bench) sampleOutside(ctx context.Context) (sample, error) {
	counters, err := b.simulator.counters(ctx)
	if err != nil {
		return sample{}, err
	}
	s := sample{aiven: map[string]int{}, writes: counters.Writes, kubernetes: b.gateway.requests()}
	for operation, n := range counters.Requests {
		s.aiven[string(operation)] = n
	}
	for _, n := range counters.BytesOut {
		s.bytes += n
	}
	s.cpu, s.memory = cpuTime(b.operator.PID()), memory(b.operator.PID())
	return s, nil
}

// sample asks the operator too.
func (b *bench) sample(ctx context.Context) (sample, error) {
	s, err := b.sampleOutside(ctx)
	if err != nil || b.foreign {
		return s, err
	}
	families, err := metrics(ctx, b.operator)
	if err != nil {
		return sample{}, err
	}
	s.passes = int(total(families["aivenator_aiven_applications_processed"]))
	s.idle = total(families["workqueue_depth"]) == 0 && total(families["controller_runtime_active_workers"]) == 0
	for _, m := range families["operatorkit_controller_last_reconciled"].GetMetric() {
		s.rounds = s.rounds || label(m, "controller") == "janitor"
	}
	return s, nil
}

// isQuietSince tells whether nothing was called since an earlier sample.
func (s sample) isQuietSince(earlier sample) bool {
	return maps.Equal(s.aiven, earlier.aiven) && maps.Equal(s.kubernetes, earlier.kubernetes)
}

// metrics reads those of the operator.
func metrics(ctx context.Context, p *operator.Process) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Metrics+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("read the operator's metrics: %w", err)
	}
	rsp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read the operator's metrics: %w", err)
	}
	defer rsp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(rsp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the operator's metrics: %w", err)
	}
	return families, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// total adds up the series of counters and gauges; of none it is zero.
func total(f *dto.MetricFamily) float64 {
	sum := 0.0
	for _, m := range f.GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return sum
}

// ticksPerSecond is the unit of times in /proc/<pid>/stat: USER_HZ, which is 100 on every architecture that Go knows.
const ticksPerSecond = 100

// cpuTime is what a process has used so far, in seconds of processor time; zero where the system does not tell.
func cpuTime(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return cpuIn(stat)
}

// cpuIn adds up the user and system time of a process's line of statistics: the 14th and 15th field, of which the second, the name in brackets, may
// hold spaces.
func cpuIn(stat []byte) float64 {
	i := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[i+1:]))
	if i < 0 || len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond
}

// peakMemory is the most memory that a process has held so far, in bytes; zero where the system does not tell of a process that still runs.
func peakMemory(pid int) int64 { return statusOf(pid, "VmHWM") }

// memory is what a process holds now, likewise.
func memory(pid int) int64 { return statusOf(pid, "VmRSS") }

func statusOf(pid int, field string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return bytesIn(status, field)
}

// bytesIn finds a size in a process's status, which has lines such as "VmHWM:	   81234 kB".
func bytesIn(status []byte, field string) int64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+field+":"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes * 1024
}
