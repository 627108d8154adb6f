// Package docs checks that the documentation says what is so.
package docs

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```$")
	code     = regexp.MustCompile("`[^`\n]+`")
	link     = regexp.MustCompile(`\[([^]]*)\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	testName = regexp.MustCompile(`^Test[A-Z]\w*$`)
	heading  = regexp.MustCompile("(?m)^#+ (.*)$")
	noWord   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// pages are all pages of the repository, by their paths from here. Hidden folders hold none, but for those of GitHub.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && d.Name() != ".github" || path == filepath.Join("..", "bin")) {
			return filepath.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == ".md" {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) < 4 {
		t.Fatalf("find the pages: got %q, %v", found, err)
	}
	return found
}

// Links of all pages lead to files and headings that are there, and those that bear the name of a test to the file with that test.
// What lies outside the repository is not asked.
func TestLinksLeadToWhatTheySay(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(prose(read(t, page)), -1) {
			if err := follow(t, page, m[1], m[2], m[3]); err != nil {
				t.Errorf("%s: [%s](%s#%s): %v", page, m[1], m[2], m[3], err)
			}
		}
	}
}

func follow(t *testing.T, page, name, file, anchor string) error {
	t.Helper()
	if scheme, _, ok := strings.Cut(file, ":"); ok {
		if u, err := url.Parse(file); err != nil || scheme != "mailto" && (scheme != "https" || u.Host == "") {
			return fmt.Errorf("begins with neither https:// nor mailto")
		}
		return nil
	}
	path := filepath.Join(filepath.Dir(page), cmp.Or(filepath.FromSlash(file), filepath.Base(page)))
	if strings.HasPrefix(path, filepath.Join("..", "..")) {
		return fmt.Errorf("leads out of the repository")
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if anchor != "" && !hasHeading(read(t, path), anchor) {
		return fmt.Errorf("there is no heading %s in %s", anchor, path)
	}
	if testName.MatchString(name) && !strings.Contains(read(t, path), "func "+name+"(") {
		return fmt.Errorf("there is no %s in %s", name, path)
	}
	return nil
}

// prose is a page without its blocks of code, and without code that looks like a link.
func prose(page string) string {
	return code.ReplaceAllStringFunc(fence.ReplaceAllString(page, ""), func(span string) string {
		return strings.ReplaceAll(span, "](", "")
	})
}

// hasHeading tells whether a page has a heading to which an anchor leads.
func hasHeading(page, anchor string) bool { return slices.Contains(anchors(page), anchor) }

// anchors are what leads to the headings of a page, as GitHub makes them: a second heading of the same text gets "-1".
func anchors(page string) []string {
	var out []string
	seen := map[string]int{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		text := link.ReplaceAllString(h[1], "$1")
		slug := strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		n := seen[slug]
		seen[slug]++
		if n > 0 {
			slug = fmt.Sprintf("%s-%d", slug, n)
		}
		out = append(out, slug)
	}
	return out
}

// Who reads from the top finds every page: the index lists those of this folder.
func TestTheIndexHasEveryPage(t *testing.T) {
	index := read(t, "README.md")
	for _, page := range pages(t) {
		dir, name := filepath.Split(page)
		if filepath.Clean(dir) == filepath.Join("..", "docs") && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("README.md has no link to %s", name)
		}
	}
	if !strings.Contains(read(t, filepath.Join("..", "README.md")), "](docs/README.md)") {
		t.Error("the first page has no link to the index")
	}
}

// kinds finds code that tells kinds of services apart.
var kinds = regexp.MustCompile(`binding\.(OpenSearch|Valkey)\b|Spec\.(OpenSearch|Valkey)\b|\bcase (OpenSearch|Valkey):`)

// Who adds a service has to visit each place that tells kinds apart. Resources of one kind alone are none.
func TestTheGuideNamesEveryPlaceThatTellsKindsApart(t *testing.T) {
	guide, places := read(t, "adding-a-service.md"), 0
	for _, dir := range []string{"pkg/binding", "resource", "service"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if d.IsDir() && slices.Contains([]string{"opensearchacl", "valkeyuser"}, d.Name()) {
				return filepath.SkipDir
			}
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || !kinds.MatchString(read(t, path)) {
				return err
			}
			places++
			if !strings.Contains(guide, "]("+filepath.ToSlash(path)+")") {
				t.Errorf("adding-a-service.md does not name %s", path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if places == 0 {
		t.Error("no such place was found")
	}
}

// Every event that the code sends is in the reference.
func TestTheReferenceNamesEveryEvent(t *testing.T) {
	sent := regexp.MustCompile(`Eventf\(.*EventType\w+, "(\w+)"|\b(?:Reason|event)\w+ += "(\w+)"`)
	reference, events := read(t, "crd.md"), 0
	for _, dir := range []string{"pkg", "resource", "service"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, m := range sent.FindAllStringSubmatch(read(t, path), -1) {
				name := cmp.Or(m[1], m[2])
				events++
				if !strings.Contains(reference, "| `"+name+"` |") {
					t.Errorf("%s: crd.md does not say what %s means", path, name)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if events == 0 {
		t.Error("no event was found")
	}
}
