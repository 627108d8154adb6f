package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/keysmith-io/keysmith/flag"
)

// The page about the migration has a line for each variable of the earlier operator that is understood, and for no other.
func TestTheMigrationNamesTheVariablesThatAreUnderstood(t *testing.T) {
	page := read(t, "migration.md")
	_, table, _ := strings.Cut(page, "| Aivenator | keysmith |")
	table, _, _ = strings.Cut(table, "\n\n")
	fs := pflag.NewFlagSet("daemon", pflag.ContinueOnError)
	(&flag.Flags{}).Bind(fs)
	understood := 0
	fs.VisitAll(func(f *pflag.Flag) {
		for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(f.Usage, -1) {
			if strings.HasPrefix(m[1], "KEYSMITH_") {
				continue
			}
			understood++
			if line := "| `" + m[1] + "` | `--" + f.Name + "`"; !strings.Contains(table, line) {
				t.Errorf("no line begins with %s", line)
			}
		}
	})
	if lines := strings.Count(table, "\n| `"); lines != understood {
		t.Errorf("%d variables in the table, %d are understood", lines, understood)
	}
}
