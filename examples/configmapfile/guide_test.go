package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	if diff := cmp.Diff(text(t, "main.go"), strings.Join(pieces, "\n")); diff != "" {
		t.Errorf("program (-main.go +guide):\n%s", diff)
	}
}
