package docs

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite what pages quote")

// example is a block of text after a comment that names the file it quotes.
var example = regexp.MustCompile("(?s)<!-- (\\S+\\.golden) -->\n```text\n(.*?)```\n")

// What the page shows is what the commands print.
func TestExamplesAreWhatCommandsPrint(t *testing.T) {
	const path = "commands.md"
	page := read(t, path)
	want := example.ReplaceAllStringFunc(page, func(block string) string {
		m := example.FindStringSubmatch(block)
		return strings.Replace(block, "```text\n"+m[2], "```text\n"+read(t, m[1]), 1)
	})
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		page = want
	}
	if n := len(example.FindAllString(page, -1)); n != strings.Count(page, ".golden -->") || n == 0 {
		t.Errorf("%d examples are well-formed", n)
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("%s (-want +got)\n%s", path, diff)
	}
}
