package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	const head = "\n| value | default | meaning |\n|---|---|---|\n"
	for name, tc := range map[string]struct{ values, want, failure string }{
		"it shows nothing of nothing": {want: head + "\n"},
		"it shows values by their paths": {
			values: "# About the page.\n\na:\n  # First,\n  # in two lines.\n  b: \"\"\n  c:\n    # A list | or not.\n    d: [1, x]\n# Last.\ne: {f: true}\n",
			want: head + "| `a.b` | `\"\"` | First, in two lines. |\n| `a.c.d` | `[1,\"x\"]` | A list \\| or not. |\n" +
				"| `e` | `{\"f\":true}` | Last. |\n\n",
		},
		"it misses a comment":        {values: "a:\n  # Known.\n  b: 1\n  c: 2\n", failure: "line 4 of the values: a.c has no comment"},
		"it misses one of an empty":  {values: "a: {}\n", failure: "a has no comment"},
		"it refuses what is no YAML": {values: "a: [", failure: "read the values"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Table([]byte(tc.values))
			if tc.failure != "" {
				if err == nil || !strings.Contains(err.Error(), tc.failure) {
					t.Fatalf("error is %v, want %q in it", err, tc.failure)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}
