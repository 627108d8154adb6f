package secret

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keysmith-io/keysmith/pkg/binding"
)

// The tables of the page name exactly the keys that a Secret has for each kind of service which has all that such a service can have, and what stands
// before them those that every Secret has.
func TestThePageNamesTheKeysThatAreWritten(t *testing.T) {
	raw, err := os.ReadFile("../../docs/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(raw), "\n## What a Secret holds\n")
	page, _, _ = strings.Cut(page, "\n## ")
	common, tables, _ := strings.Cut(page, "\n**")
	everywhere := keysIn(common)

	w := newWorld(t, interceptor.Funcs{})
	for name, b := range map[string]*binding.Binding{"Kafka": w.kafka(), "OpenSearch": openSearch(), "Valkey": valkey("sessions", "cache")} {
		t.Run(name, func(t *testing.T) {
			_, table, found := strings.Cut("\n**"+tables, "\n**"+name+"**")
			if !found {
				t.Fatalf("the page has no table of %s", name)
			}
			table, _, _ = strings.Cut(table, "\n**")
			var documented []string
			for line := range strings.Lines(table) {
				if cells := strings.Split(line, "|"); len(cells) > 2 {
					documented = append(documented, keysIn(cells[1])...)
				}
			}
			got := slices.Sorted(slices.Values(slices.Concat(everywhere, documented)))

			w := newWorld(t, interceptor.Funcs{})
			if err := w.EnsureCreated(t.Context(), set(b)); err != nil {
				t.Fatal(err)
			}
			want := slices.Sorted(maps.Keys(w.read(t).Data))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("keys (-Secret +page):\n%s", diff)
			}
		})
	}
}

// keysIn are the keys that a text names.
func keysIn(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile("`([A-Z][A-Z0-9_]+|client[.][a-z0-9.]+)`").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
