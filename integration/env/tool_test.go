package env

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTool(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for name, tt := range map[string]struct{ ci, program, path, message string }{
		"it finds a program":                   {program: "there", path: there},
		"it finds a program in CI":             {ci: "true", program: "there", path: there},
		"it skips what a missing one would do": {program: "gone", message: "NOT TESTED: gone is not on the PATH; Debian has it in package"},
		"it fails without one in CI":           {ci: "true", program: "gone", message: "gone is not on the PATH: install package, or unset CI to skip what needs it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", tt.ci)
			path := ""
			message := failure(t, func(t testing.TB) { path = Tool(t, tt.program, "package") })
			if diff := cmp.Diff([]string{tt.path, tt.message}, []string{path, message}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
