package env

import (
	"os"
	"os/exec"
	"testing"
)

// Tool returns the path of a program that stands for one of our users' clients. Where it is missing the test is skipped, and says which package
// of Debian has it; in continuous integration, where the variable CI is set, it fails, so that nothing is left untested unseen.
func Tool(t testing.TB, program, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("%s is not on the PATH: install %s, or unset CI to skip what needs it", program, debianPackage)
	default:
		t.Skipf("NOT TESTED: %s is not on the PATH; Debian has it in %s", program, debianPackage)
	}
	return ""
}
