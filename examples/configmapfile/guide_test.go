package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const guide = "../../docs/framework.md"

func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The guide shows the whole program: its blocks that are marked as main.go, one after the other, with a blank line between.
func TestGuideShowsTheProgram(t *testing.T) {
	block := regexp.MustCompile("(?ms)^<!-- main\\.go -->\n```go\n(.*?)^```$")
	var pieces []string
	for _, m := range block.FindAllStringSubmatch(text(t, guide), -1) {
		pieces = append(pieces, m[1])
	}
	if diff := gocmp.Diff(text(t, "main.go"), strings.Join(pieces, "\n")); diff != "" {
		t.Errorf("program (-main.go +guide):\n%s", diff)
	}
}

// Links of the guide lead to files and headings that are there.
func TestGuideLinks(t *testing.T) {
	var (
		link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
		heading = regexp.MustCompile("(?m)^#+ (.*)$")
		noWord  = regexp.MustCompile("[^a-z0-9 _-]")
	)
	for _, m := range link.FindAllStringSubmatch(text(t, guide), -1) {
		file, anchor := m[1], m[2]
		if strings.Contains(file, "://") {
			continue
		}
		name := filepath.Join(filepath.Dir(guide), cmp.Or(file, filepath.Base(guide)))
		if _, err := os.Stat(name); err != nil {
			t.Errorf("link %s: %v", m[0], err)
			continue
		}
		found := anchor == ""
		if !found {
			for _, h := range heading.FindAllStringSubmatch(text(t, name), -1) {
				found = found || strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor
			}
		}
		if !found {
			t.Errorf("link %s: there is no such heading", m[0])
		}
	}
}
