package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var quoted = regexp.MustCompile("`([^`]+)`")

// rows are the cells of the table with that head.
func rows(t *testing.T, text, head string) [][]string {
	t.Helper()
	_, table, ok := strings.Cut(text, head+"\n")
	if !ok {
		t.Fatalf("there is no table %q", head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var out [][]string
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		out = append(out, cells)
	}
	return out
}

func TestEveryLineNamesATest(t *testing.T) {
	text := read(t, "security.md")
	for _, cells := range rows(t, text, "| who may | can | cannot | shown by |") {
		if last := cells[len(cells)-1]; !link.MatchString(last) {
			t.Errorf("no test is named for %q", cells)
		}
	}
}

func TestTheTableOfRightsIsTheRole(t *testing.T) {
	var want, got []string
	var rules map[string][]rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict([]byte(read(t, "../helm/keysmith/files/rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	for _, rule := range slices.Concat(slices.Collect(maps.Values(rules))...) {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				want = append(want, verb+" "+strings.TrimPrefix(rule.APIGroups[0]+"/"+resource, "/"))
			}
		}
	}
	for _, cells := range rows(t, read(t, "security.md"), "| right | verbs | what for |") {
		for _, resource := range quoted.FindAllStringSubmatch(cells[0], -1) {
			for verb := range strings.SplitSeq(cells[1], ", ") {
				got = append(got, verb+" "+resource[1])
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-role +table):\n%s", diff)
	}
}

func TestTheTableOfOperationsIsWhatIsCalled(t *testing.T) {
	var want, got []string
	files, err := filepath.Glob("../pkg/aiven/*.go")
	if err != nil {
		t.Fatal(err)
	}
	operation := regexp.MustCompile(`operation: +"(\w+)"`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range operation.FindAllStringSubmatch(read(t, file), -1) {
			want = append(want, m[1])
		}
	}
	for _, cells := range rows(t, read(t, "security.md"), "| operation | what for |") {
		for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
			got = append(got, m[1])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("operations (-called +table):\n%s", diff)
	}
}
