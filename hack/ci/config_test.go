// Package ci checks that the files that CI and other services read say what is so, and runs the scripts that CI runs.
package ci

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// root is the folder of the repository.
const root = "../.."

// use is how a workflow uses a job.
type use struct {
	Name       string   `json:"name"`
	Requires   []string `json:"requires"`
	TestTarget string   `json:"test_target"`
	Chart      string   `json:"chart"`
	Matrix     struct {
		Parameters map[string][]string `json:"parameters"`
	} `json:"matrix"`
	Filters struct {
		Branches map[string]string `json:"branches"`
		Tags     map[string]string `json:"tags"`
	} `json:"filters"`
}

// circleci is what is checked of CircleCI's configuration.
type circleci struct {
	Orbs      map[string]string         `json:"orbs"`
	Commands  map[string]any            `json:"commands"`
	Jobs      map[string]map[string]any `json:"jobs"`
	Workflows map[string]struct {
		Jobs []map[string]use `json:"jobs"`
	} `json:"workflows"`
}

func config(t *testing.T) circleci {
	t.Helper()
	var c circleci
	// Strict: a key that stands there twice is refused; unknown ones are not, since most are of no interest here.
	data := []byte(read(t, ".circleci/config.yml"))
	if err := yaml.UnmarshalStrict(data, &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// uses are the jobs of all workflows, each with the job's own name.
func (c circleci) uses() []map[string]use {
	var out []map[string]use
	for _, w := range c.Workflows {
		out = append(out, w.Jobs...)
	}
	return out
}

func TestEachFolderOfIntegrationTestsRunsOnKind(t *testing.T) {
	var want []string
	entries, err := os.ReadDir(filepath.Join(root, "integration/test"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			want = append(want, e.Name())
		}
	}
	for _, u := range config(t).uses() {
		if job, ok := u["integration"]; ok {
			if diff := cmp.Diff(want, job.Matrix.Parameters["folder"]); diff != "" {
				t.Errorf("folders (-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Error("no workflow has the job integration")
}

func TestWorkflowHoldsTogether(t *testing.T) {
	c := config(t)
	known := map[string]bool{}
	for _, u := range c.uses() {
		for job, as := range u {
			if as.Name == "" || as.Matrix.Parameters != nil {
				as.Name = job // which is how others require a matrix
			}
			known[as.Name] = true
		}
	}
	for _, u := range c.uses() {
		for job, as := range u {
			orb, _, ofOrb := strings.Cut(job, "/")
			if ofOrb && c.Orbs[orb] == "" {
				t.Errorf("%s: there is no orb %s", job, orb)
			}
			if !ofOrb && c.Jobs[job] == nil {
				t.Errorf("there is no job %s", job)
			}
			for _, r := range as.Requires {
				if !known[r] {
					t.Errorf("%s requires %s, which there is not", job, r)
				}
			}
			// A job without this filter does not run for a tag, and nothing that requires it does.
			if diff := cmp.Diff(map[string]string{"only": "/^v.*/"}, as.Filters.Tags); diff != "" {
				t.Errorf("%s: tags (-want +got):\n%s", job, diff)
			}
			if onBranches := as.Filters.Branches["ignore"] != "/.*/"; onBranches == (job == "release") {
				t.Errorf("%s: runs on branches: %t", job, onBranches)
			}
		}
	}
}

// commands are the lines that shells run, by the file and job that they stand in.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	c := config(t)
	for name, job := range c.Jobs {
		steps, ok := job["steps"].([]any)
		if !ok {
			t.Fatalf("job %s has no steps", name)
		}
		for _, s := range steps {
			step, _ := s.(map[string]any)
			switch run := step["run"].(type) {
			case string:
				out["job "+name] = append(out["job "+name], run)
			case map[string]any:
				out["job "+name] = append(out["job "+name], fmt.Sprint(run["command"]))
			}
		}
	}
	for _, u := range c.uses() {
		for name, job := range u {
			if job.TestTarget != "" {
				out["job "+name] = append(out["job "+name], "make "+job.TestTarget)
			}
		}
	}
	for _, h := range hooks(t) {
		out["hook "+h.ID] = []string{h.Entry}
	}
	for _, script := range []string{"hack/integration-kind.sh", "hack/release.sh", "Dockerfile"} {
		out[script] = strings.Split(read(t, script), "\n")
	}
	return out
}

type hook struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Entry    string `json:"entry"`
	Files    string `json:"files"`
}

// hooks are those of .pre-commit-config.yaml.
func hooks(t *testing.T) []hook {
	t.Helper()
	var config struct {
		Repos []struct {
			Repo  string `json:"repo"`
			Hooks []hook `json:"hooks"`
		} `json:"repos"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, ".pre-commit-config.yaml")), &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(read(t, ".pre-commit-config.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	var out []hook
	for _, r := range config.Repos {
		if r.Repo != "local" {
			t.Errorf("hooks of %s have to be fetched, want local ones alone", r.Repo)
		}
		out = append(out, r.Hooks...)
	}
	return out
}

func TestWhatIsCalledIsThere(t *testing.T) {
	makefile := read(t, "Makefile")
	calls := 0
	for where, lines := range commands(t) {
		for _, line := range lines {
			if strings.HasPrefix(line, "#") {
				continue
			}
			for _, m := range regexp.MustCompile(`(?:\bmake|\$\{MAKE:-make\}"?)((?: --?[a-z-]+)*) ([a-z-]+)`).FindAllStringSubmatch(line, -1) {
				calls++
				if !strings.Contains(makefile, "\n"+m[2]+":") {
					t.Errorf("%s: make has no target %s", where, m[2])
				}
			}
			for _, script := range regexp.MustCompile(`\bhack/\S+\.sh\b`).FindAllString(line, -1) {
				calls++
				if info, err := os.Stat(filepath.Join(root, script)); err != nil || info.Mode()&0o100 == 0 {
					t.Errorf("%s: %s is no program: %v", where, script, err)
				}
			}
		}
	}
	if calls < 10 {
		t.Errorf("found %d calls, want those of all jobs", calls)
	}
}

func TestGoHasOneVersion(t *testing.T) {
	find := func(path, pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(read(t, path))
		if m == nil {
			t.Fatalf("%s does not say %s", path, pattern)
		}
		return m[1]
	}
	ci := find(".circleci/config.yml", `cimg/go:([0-9.]+)`)
	if image := find("Dockerfile", `golang:([0-9.]+)-`); image != ci {
		t.Errorf("the Dockerfile builds with Go %s, CI with %s", image, ci)
	}
	if module := find("go.mod", `(?m)^go ([0-9]+\.[0-9]+)`); !strings.HasPrefix(ci, module+".") {
		t.Errorf("CI builds with Go %s, go.mod is for %s", ci, module)
	}
}

// JSON5 without its comments is YAML, whose braces are as lenient.
func TestRenovateHoldsWhatIsPinned(t *testing.T) {
	var config struct {
		PackageRules []struct {
			Description  string   `json:"description"`
			PackageNames []string `json:"matchPackageNames"`
			Allowed      string   `json:"allowedVersions"`
		} `json:"packageRules"`
		CustomManagers []struct {
			MatchStrings []string `json:"matchStrings"`
		} `json:"customManagers"`
	}
	text := regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAllString(read(t, "renovate.json5"), "")
	if err := yaml.UnmarshalStrict([]byte(text), &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	pinned := map[string]string{}
	for _, rule := range config.PackageRules {
		if rule.Description == "" {
			t.Errorf("the rule for %s has no reason", rule.PackageNames)
		}
		for _, name := range rule.PackageNames {
			if rule.Allowed != "" {
				pinned[strings.TrimSuffix(name, "/**")] = strings.TrimPrefix(rule.Allowed, "<=")
			}
		}
	}
	for name, want := range pinned {
		m := regexp.MustCompile(`(?m)^\s` + regexp.QuoteMeta(name) + `(?:/v\d+)? v(\S+)`).FindStringSubmatch(read(t, "go.mod"))
		if m == nil || m[1] != want {
			t.Errorf("renovate.json5 holds %s at %s, go.mod has %q", name, want, m)
		}
	}
	if len(pinned) != 2 {
		t.Errorf("renovate.json5 holds %d modules, want two", len(pinned))
	}
	// What a comment names is found.
	for _, m := range config.CustomManagers {
		for _, pattern := range m.MatchStrings {
			if !regexp.MustCompile(strings.ReplaceAll(pattern, "(?<", "(?P<")).MatchString(read(t, ".circleci/config.yml")) {
				t.Errorf("nothing in .circleci/config.yml fits %s", pattern)
			}
		}
	}
}

func TestHooks(t *testing.T) {
	var ids []string
	for _, h := range hooks(t) {
		ids = append(ids, h.ID)
		if h.Language != "system" {
			t.Errorf("hook %s needs %s, want nothing but what developers have", h.ID, h.Language)
		}
		if _, err := regexp.Compile(h.Files); err != nil {
			t.Errorf("hook %s: %v", h.ID, err)
		}
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != len(hooks(t)) {
		t.Errorf("hooks are %s, want each once", ids)
	}
}
