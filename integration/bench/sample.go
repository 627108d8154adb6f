package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strconv"

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

	kubernetes map[string]int // requests to the API server by method
	cpu        float64        // seconds
	passes     int            // over applications
	idle       bool           // nothing is queued or worked on
	rounds     bool           // the janitor has been at work
}

// sampleAiven asks the simulator.
func (b *bench) sampleAiven(ctx context.Context) (sample, error) {
	counters, err := b.simulator.counters(ctx)
	if err != nil {
		return sample{}, err
	}
	s := sample{aiven: map[string]int{}, writes: counters.Writes, kubernetes: map[string]int{}}
	for operation, n := range counters.Requests {
		s.aiven[string(operation)] = n
	}
	for _, n := range counters.BytesOut {
		s.bytes += n
	}
	return s, nil
}

// sample asks simulator and operator.
func (b *bench) sample(ctx context.Context) (sample, error) {
	s, err := b.sampleAiven(ctx)
	if err != nil {
		return sample{}, err
	}
	families, err := metrics(ctx, b.operator)
	if err != nil {
		return sample{}, err
	}
	for _, m := range families["rest_client_requests_total"].GetMetric() {
		s.kubernetes[label(m, "method")] += int(m.GetCounter().GetValue())
	}
	s.cpu = total(families["process_cpu_seconds_total"])
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

// peakMemory is the most memory that a process has held so far, in bytes; zero where the system does not tell of a process that still runs.
func peakMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return peakIn(status)
}

// peakIn finds the peak in a process's status, which has a line such as "VmHWM:	   81234 kB".
func peakIn(status []byte) int64 {
	_, rest, _ := bytes.Cut(status, []byte("\nVmHWM:"))
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
