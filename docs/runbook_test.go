package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var metricName = regexp.MustCompile(`\b(?:keysmith|aivenator|operatorkit|workqueue|rest_client)_[a-z_]+`)

// alert is what the page has to do with.
type alert struct {
	Alert       string            `json:"alert"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../helm/keysmith/files/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// The runbook has a section for each alert, in their order, and for nothing else.
func TestTheRunbookHasEachAlert(t *testing.T) {
	var want, got []string
	for _, a := range alerts(t) {
		want = append(want, a.Alert)
	}
	page := read(t, "runbook.md")
	sections := strings.Split(page, "\n## ")[1:]
	for _, section := range sections {
		name, text, _ := strings.Cut(section, "\n")
		got = append(got, name)
		for _, part := range []string{"**What it means.**", "**What to look at.**", "**What to do.**"} {
			if !strings.Contains(text, part) {
				t.Errorf("section %s does not say %s", name, part)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sections (-alerts +page):\n%s", diff)
	}
}

func TestEachAlertLeadsToItsSection(t *testing.T) {
	page := read(t, "runbook.md")
	for _, a := range alerts(t) {
		url, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
		if url != "https://github.com/keysmith-io/keysmith/blob/main/docs/runbook.md" {
			t.Errorf("%s leads to %q", a.Alert, url)
		}
		if anchor != strings.ToLower(a.Alert) || !hasHeading(page, anchor) {
			t.Errorf("%s leads to a section %q that is not there", a.Alert, anchor)
		}
	}
}

// What the page says of metrics and of reasons is taken from what there is.
func TestTheRunbookNamesMetricsThatThereAre(t *testing.T) {
	page, metrics := read(t, "runbook.md"), read(t, "metrics.md")
	var names []string
	for _, m := range metricName.FindAllString(page, -1) {
		name := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(m, "_count"), "_sum"), "_bucket")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("the page names no metric")
	}
	for _, name := range names {
		if !strings.Contains(metrics, "| `"+name+"` |") {
			t.Errorf("metric %s is not among those of metrics.md", name)
		}
	}
}
