// Package docs checks that the documentation says what is so.
package docs

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link     = regexp.MustCompile(`\[([^]]+)\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	testName = regexp.MustCompile(`^Test[A-Z]\w*$`)
	heading  = regexp.MustCompile("(?m)^#+ (.*)$")
	noWord   = regexp.MustCompile("[^a-z0-9 _-]")
)

// Links of all pages lead to files and headings that are there, and those that bear the name of a test to the file with that test.
func TestLinksLeadToWhatTheySay(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 2 {
		t.Fatalf("find the pages: got %q, %v", pages, err)
	}
	for _, page := range append(pages, "../README.md", "../CHANGELOG.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			name, file, anchor := m[1], m[2], m[3]
			if strings.Contains(file, "://") {
				continue
			}
			path := filepath.Join(filepath.Dir(page), cmp.Or(filepath.FromSlash(file), filepath.Base(page)))
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s: %v", page, name, err)
				continue
			}
			if anchor != "" && !hasHeading(read(t, path), anchor) {
				t.Errorf("%s: %s: there is no heading %s in %s", page, name, anchor, path)
			}
			if testName.MatchString(name) && !strings.Contains(read(t, path), "func "+name+"(") {
				t.Errorf("%s: there is no %s in %s", page, name, path)
			}
		}
	}
}

// hasHeading tells whether a page has a heading to which an anchor leads.
func hasHeading(page, anchor string) bool {
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		if strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
