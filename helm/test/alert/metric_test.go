package alert

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// The page of the metrics is compared with a running operator elsewhere. Here alerts and dashboard are compared with the page.
const metricsPage = "../../../docs/metrics.md"

type family struct {
	kind   string
	labels []string
}

var (
	row    = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| ([^|]*)\\| [^|]+ \\|$")
	quoted = regexp.MustCompile("`([^`]+)`")
)

func described(t *testing.T) map[string]family {
	t.Helper()
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]family{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		f := family{kind: m[2]}
		for _, l := range quoted.FindAllStringSubmatch(m[3], -1) {
			f.labels = append(f.labels, l[1])
		}
		out[m[1]] = f
	}
	return out
}

// added are the labels that Prometheus gives a series, and those of histograms.
var added = []string{"__name__", "job", "pod", "le"}

// problems are what is wrong with an expression: it is none, or speaks of metrics and labels that there are not, or takes the rate of a gauge.
func problems(metrics map[string]family, expr string) []string {
	parsed, err := PromQL.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	known := slices.Clone(added)
	parser.Inspect(parsed, func(n parser.Node, path []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name, part := s.Name, ""
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if base, cut := strings.CutSuffix(s.Name, suffix); cut && metrics[base].kind == "histogram" {
				name, part = base, suffix
			}
		}
		f, ok := metrics[name]
		if !ok {
			out = append(out, "there is no metric "+s.Name)
			return nil
		}
		if f.kind == "histogram" && part == "" {
			out = append(out, s.Name+" is a histogram, which has no value")
		}
		known = append(known, f.labels...)
		for _, m := range s.LabelMatchers {
			if !slices.Contains(slices.Concat(f.labels, added), m.Name) {
				out = append(out, s.Name+" has no label "+m.Name)
			}
		}
		for _, outer := range path {
			call, ok := outer.(*parser.Call)
			if ok && f.kind == "gauge" && slices.Contains([]string{"rate", "increase", "irate"}, call.Func.Name) {
				out = append(out, s.Name+" is a gauge, which has no "+call.Func.Name)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !slices.Contains(known, l) {
					out = append(out, "no metric has a label "+l)
				}
			}
		}
		return nil
	})
	return out
}

func TestProblemsAreSeen(t *testing.T) {
	metrics := map[string]family{"up": {kind: "gauge", labels: []string{"a"}}, "took": {kind: "histogram"}, "n": {kind: "counter"}}
	tests := map[string]struct {
		expr string
		want string // part of the problem; empty: there is none
	}{
		"it is fine":                          {expr: `sum by (a) (up{a="b",job="c"}) + sum(rate(took_count[5m])) + histogram_quantile(0.5, rate(took_bucket[5m]))`},
		"it is no expression":                 {expr: `sum by up`, want: "parse error"},
		"it speaks of no metric":              {expr: `upp`, want: "there is no metric upp"},
		"it takes a part of what has none":    {expr: `n_count`, want: "there is no metric n_count"},
		"it takes a histogram for a value":    {expr: `took > 1`, want: "has no value"},
		"it selects by a label there is not":  {expr: `up{b="c"}`, want: "up has no label b"},
		"it groups by a label there is not":   {expr: `sum by (b) (up)`, want: "no metric has a label b"},
		"it takes the rate of a gauge":        {expr: `rate(up[5m])`, want: "has no rate"},
		"it takes a gauge over the time well": {expr: `max_over_time(up[5m])`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(problems(metrics, tt.expr), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAlertsSpeakOfWhatThereIs(t *testing.T) {
	metrics := described(t)
	for _, rule := range readRules(t) {
		for _, problem := range problems(metrics, rule.Expr) {
			t.Errorf("%s: %s", rule.Alert, problem)
		}
	}
}

// selectors are the names of the series that an expression selects, one for each selector.
func selectors(expr string) (names []string) {
	parsed, err := PromQL.ParseExpr(expr)
	if err != nil {
		return nil
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			names = append(names, s.Name)
		}
		return nil
	})
	return names
}

type dashboard struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	ID            *int    `json:"id"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []struct {
			Name       string          `json:"name"`
			Type       string          `json:"type"`
			Query      json.RawMessage `json:"query"`
			Datasource source          `json:"datasource"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct {
			Datasource source `json:"datasource"`
			Expr       string `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Datasource  source `json:"datasource"`
	GridPos     box    `json:"gridPos"`
	Targets     []struct {
		Datasource source `json:"datasource"`
		Expr       string `json:"expr"`
		RefID      string `json:"refId"`
	} `json:"targets"`
}

type source struct{ Type, UID string }

type box struct{ X, Y, W, H int }

func (b box) overlaps(o box) bool {
	return b.X < o.X+o.W && o.X < b.X+b.W && b.Y < o.Y+o.H && o.Y < b.Y+b.H
}

func TestTheDashboardShowsWhatThereIs(t *testing.T) {
	raw, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	// What Grafana reads without changing it: version 36 has data sources as objects. An id would be that of another Grafana.
	if d.UID != "keysmith" || d.Title == "" || d.SchemaVersion < 36 || d.ID != nil {
		t.Errorf("uid %q, title %q, schema %d, id %v", d.UID, d.Title, d.SchemaVersion, d.ID)
	}
	metrics, seen := described(t), map[string]bool{}
	check := func(where string, from source, expr string) {
		if (from != source{"prometheus", "${datasource}"}) {
			t.Errorf("%s: the data source %v is not that of the variable", where, from)
		}
		heeded := strings.Count(expr, `job=~"$job"`)
		expr = strings.NewReplacer("$__rate_interval", "5m", "$job", ".+").Replace(expr)
		names := selectors(expr)
		if heeded != len(names) {
			t.Errorf("%s: %d of %d selectors heed the variable job: %s", where, heeded, len(names), expr)
		}
		for _, name := range names {
			seen[name] = true
		}
		for _, problem := range problems(metrics, expr) {
			t.Errorf("%s: %s", where, problem)
		}
	}
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	if variables["datasource"] != "datasource" || variables["job"] != "query" || len(variables) != 2 {
		t.Errorf("variables are %v", variables)
	}
	ids, shown := map[int]bool{}, 0
	for i, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%s: the id %d is not unique", p.Title, p.ID)
		}
		ids[p.ID] = true
		for _, other := range d.Panels[:i] {
			if p.GridPos.overlaps(other.GridPos) {
				t.Errorf("%s lies on %s", p.Title, other.Title)
			}
		}
		if p.GridPos.W == 0 || p.GridPos.H == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: does not fit: %+v", p.Title, p.GridPos)
		}
		if p.Type == "row" {
			continue
		}
		shown++
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d lacks a title, a description or a query", p.ID)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if target.RefID == "" || refs[target.RefID] {
				t.Errorf("%s: two queries have the id %q", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			check(p.Title, target.Datasource, target.Expr)
		}
	}
	if shown == 0 {
		t.Error("the dashboard shows nothing")
	}
	for _, a := range d.Annotations.List {
		check("annotation", a.Datasource, a.Expr)
	}
	for _, rule := range readRules(t) {
		for _, name := range selectors(rule.Expr) {
			if !seen[name] {
				t.Errorf("%s alerts on %s, which no panel shows", rule.Alert, name)
			}
		}
	}
}
