// Package alert shows that the alerts of the chart fire when they should and not otherwise, in Prometheus' own engine, and that alerts and
// dashboard speak of metrics that there are.
package alert

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Prometheus brings a storage and a runner of rules as well. They would bring the libraries of three clouds along, minutes of building, for what
// the following lines do.

const (
	alertsFile    = "../../keysmith/files/alerts.yaml"
	dashboardFile = "../../keysmith/files/dashboard.json"
)

// interval is the time between two samples and between two evaluations.
const interval = time.Minute

var promQL = parser.NewParser(parser.Options{})

// readRules are the rules of the chart, as Prometheus reads them.
func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	raw, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(raw, false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("there are no rules")
	}
	return rules
}

// sample is a value at a time, in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }
func (s sample) String() string              { return fmt.Sprintf("%v@%d", s.value, s.at) }

// store holds series, by their labels.
type store map[string]*series

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// add adds a sample to a series.
func (s store) add(l labels.Labels, at time.Time, value float64) {
	of := s[l.String()]
	if of == nil {
		of = &series{labels: l}
		s[l.String()] = of
	}
	of.samples = append(of.samples, sample{at.UnixMilli(), value})
}

// load replaces series by what promtool's notation says of them: one value for each minute since 1970.
func (s store) load(t *testing.T, descriptions ...string) {
	t.Helper()
	for _, text := range descriptions {
		l, values, err := promQL.ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		delete(s, l.String())
		for i, v := range values {
			if !v.Omitted {
				s.add(l, time.Unix(0, 0).Add(time.Duration(i)*interval), v.Value)
			}
		}
	}
}

// Querier gives access to the series.
func (s store) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{}
		for _, one := range s {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) }) {
				set.series = append(set.series, one)
			}
		}
		slices.SortFunc(set.series, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
		return set
	}}, nil
}

type seriesSet struct {
	series []*series
	next   int
}

// Next tells whether there is another series.
func (s *seriesSet) Next() bool {
	s.next++
	return s.next <= len(s.series)
}

// At is the series.
func (s *seriesSet) At() storage.Series {
	of := s.series[s.next-1]
	return storage.NewListSeries(of.labels, of.samples)
}

func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL})
}

// query evaluates an expression at a time.
func query(ctx context.Context, engine *promql.Engine, s store, expr string, at time.Time) (promql.Vector, error) {
	q, err := engine.NewInstantQuery(ctx, s, nil, expr, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	vector, err := result.Vector()
	// The vector belongs to the query, which ends here.
	return slices.Clone(vector), err
}

// alert is one that fires.
type alert struct {
	name, labels string // labels of the expression
	summary      string
	description  string
}

// firing follows the rules over the time and returns, for each minute until the end, what fires.
func firing(t *testing.T, rules []rulefmt.Rule, s store, end time.Duration) [][]alert {
	t.Helper()
	engine := newEngine()
	out := make([][]alert, int(end/interval)+1)
	for _, rule := range rules {
		since := map[string]time.Time{}
		for i := range out {
			at := time.Unix(0, 0).Add(time.Duration(i) * interval)
			vector, err := query(t.Context(), engine, s, rule.Expr, at)
			if err != nil {
				t.Fatalf("%s: %v", rule.Alert, err)
			}
			active := map[string]time.Time{}
			for _, one := range vector {
				key := one.Metric.String()
				begin, ok := since[key]
				if !ok {
					begin = at
				}
				active[key] = begin
				if at.Sub(begin) >= time.Duration(rule.For) {
					out[i] = append(out[i], alert{
						name: rule.Alert, labels: one.Metric.String(),
						summary:     expand(t, rule, "summary", one, at),
						description: expand(t, rule, "description", one, at),
					})
				}
			}
			since = active
		}
	}
	return out
}

// expand makes of an annotation what people read.
func expand(t *testing.T, rule rulefmt.Rule, annotation string, s promql.Sample, at time.Time) string {
	t.Helper()
	text := "{{$labels := .Labels}}{{$value := .Value}}" + rule.Annotations[annotation]
	data := template.AlertTemplateData(s.Metric.Map(), nil, "", s)
	out, err := template.NewTemplateExpander(t.Context(), text, rule.Alert, data, model.TimeFromUnixNano(at.UnixNano()), nil, nil, nil).Expand()
	if err != nil {
		t.Errorf("%s: %s: %v", rule.Alert, annotation, err)
	}
	if strings.Contains(out, "<no value>") || strings.Contains(out, "  ") {
		t.Errorf("%s: %s has a gap: %q", rule.Alert, annotation, out)
	}
	return out
}
