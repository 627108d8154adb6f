// Package alert evaluates the alerts of the chart in Prometheus' own engine: over series that tests write down, and over scrapes of a running
// operator.
//
// Prometheus brings a storage and a runner of rules as well. They would bring the libraries of three clouds along, minutes of building, for what the
// lines here do.
package alert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// PromQL reads expressions.
var PromQL = parser.NewParser(parser.Options{})

// Rules are those of a rules file, which is checked as Prometheus does.
func Rules(file []byte) ([]rulefmt.Rule, error) {
	groups, errs := rulefmt.Parse(file, false, model.UTF8Validation, PromQL, slog.New(slog.DiscardHandler))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) == 0 {
		return nil, errors.New("read rules: there are none")
	}
	return rules, nil
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

// Store holds series, by their labels.
type Store map[string]*series

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// Add adds a sample to a series. Samples come in the order of time.
func (s Store) Add(l labels.Labels, at time.Time, value float64) {
	of := s[l.String()]
	if of == nil {
		of = &series{labels: l}
		s[l.String()] = of
	}
	of.samples = append(of.samples, sample{at.UnixMilli(), value})
}

// Load replaces a series by what promtool's notation says of it, such as `up{job="a"} 1 0x3`: one value for each interval since 1970.
func (s Store) Load(description string, interval time.Duration) error {
	l, values, err := PromQL.ParseSeriesDesc(description)
	if err != nil {
		return fmt.Errorf("read series %s: %w", description, err)
	}
	delete(s, l.String())
	for i, v := range values {
		if !v.Omitted {
			s.Add(l, time.Unix(0, 0).Add(time.Duration(i)*interval), v.Value)
		}
	}
	return nil
}

// Scraped adds what an answer of /metrics says. Series that it does not mention end.
func (s Store) Scraped(exposition io.Reader, at time.Time) error {
	defer func() {
		for _, of := range s {
			if last := of.samples[len(of.samples)-1]; last.T() < at.UnixMilli() && !value.IsStaleNaN(last.F()) {
				s.Add(of.labels, at, math.Float64frombits(value.StaleNaN))
			}
		}
	}()
	lines := bufio.NewScanner(exposition)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		l, err := PromQL.ParseMetric(line[:i])
		if err != nil {
			return fmt.Errorf("read series %s: %w", line, err)
		}
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return fmt.Errorf("read series %s: %w", line, err)
		}
		s.Add(l, at, v)
	}
	return lines.Err()
}

// Querier gives access to the series.
func (s Store) Querier(int64, int64) (storage.Querier, error) {
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

// Engine evaluates expressions.
type Engine struct{ engine *promql.Engine }

// NewEngine returns an engine with the settings of a Prometheus.
func NewEngine() *Engine {
	return &Engine{promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: PromQL})}
}

// Query evaluates an expression at a time.
func (e *Engine) Query(ctx context.Context, s Store, expr string, at time.Time) (promql.Vector, error) {
	q, err := e.engine.NewInstantQuery(ctx, s, nil, expr, at)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", expr, err)
	}
	defer q.Close()
	vector, err := q.Exec(ctx).Vector()
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", expr, err)
	}
	return slices.Clone(vector), nil // that of the query ends with it
}

// Active is an alert whose expression is true.
type Active struct {
	Rule    *rulefmt.Rule
	Labels  labels.Labels // of the expression
	Since   time.Time
	Fires   bool // it has been true for as long as the rule wants
	Summary string
	Text    string // the description
}

// Evaluate follows a rule over some moments in time and returns for each what is active.
func (e *Engine) Evaluate(ctx context.Context, rule *rulefmt.Rule, s Store, moments []time.Time) ([][]Active, error) {
	out := make([][]Active, len(moments))
	since := map[string]time.Time{}
	for i, at := range moments {
		vector, err := e.Query(ctx, s, rule.Expr, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rule.Alert, err)
		}
		still := map[string]time.Time{}
		for _, one := range vector {
			key := one.Metric.String()
			begin, ok := since[key]
			if !ok {
				begin = at
			}
			still[key] = begin
			a := Active{Rule: rule, Labels: one.Metric, Since: begin, Fires: at.Sub(begin) >= time.Duration(rule.For)}
			if a.Summary, err = expand(ctx, rule, "summary", one, at); err != nil {
				return nil, err
			}
			if a.Text, err = expand(ctx, rule, "description", one, at); err != nil {
				return nil, err
			}
			out[i] = append(out[i], a)
		}
		since = still
	}
	return out, nil
}

// expand makes of an annotation what people read.
func expand(ctx context.Context, rule *rulefmt.Rule, annotation string, s promql.Sample, at time.Time) (string, error) {
	text := "{{$labels := .Labels}}{{$value := .Value}}" + rule.Annotations[annotation]
	data := template.AlertTemplateData(s.Metric.Map(), nil, "", s)
	out, err := template.NewTemplateExpander(ctx, text, rule.Alert, data, model.TimeFromUnixNano(at.UnixNano()), nil, nil, nil).Expand()
	if err != nil {
		return "", fmt.Errorf("expand %s of %s: %w", annotation, rule.Alert, err)
	}
	return out, nil
}
