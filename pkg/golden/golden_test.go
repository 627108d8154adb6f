package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// asked stands for a test, and notes that it failed.
type asked struct {
	testing.TB
	failed bool
}

func (a *asked) Errorf(string, ...any) { a.failed = true }

func TestCompare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.golden")
	if err := os.WriteFile(path, []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for got, fails := range map[string]bool{"right\n": false, "right": true, "": true} {
		a := &asked{TB: t}
		if Compare(a, path, got); a.failed != fails {
			t.Errorf("%q fails: %t, want %t", got, a.failed, fails)
		}
	}
	*update = true
	defer func() { *update = false }()
	a := &asked{TB: t}
	if Compare(a, path, "new"); a.failed {
		t.Error("it fails although the file was to be written anew")
	}
	*update = false
	if Compare(a, path, "new"); a.failed {
		t.Error("the file was not written anew")
	}
}
