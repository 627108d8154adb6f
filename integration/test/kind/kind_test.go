//go:build k8srequired

// Package kind shows that make integration-kind runs the tests on the cluster that kind has made. A stub stands for kind and hands out the cluster of this
// test; all else is real.
package kind

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keysmith-io/keysmith/integration/env"
)

func TestIntegrationKindRunsTheTests(t *testing.T) {
	config := env.Config(t)
	bin := t.TempDir()
	stub := `#!/bin/sh
case "$*" in
"get clusters" | "create cluster --name keysmith-test --wait 5m") ;;
"get kubeconfig --name keysmith-test") cat "` + os.Getenv(env.Kubeconfig) + `" ;;
*) echo "kind: unexpected: $*" >&2; exit 1 ;;
esac
`
	if err := os.WriteFile(filepath.Join(bin, "kind"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", "integration-kind", "FOLDER=crd", "TESTFLAGS=-v -run=^TestVersions$")
	cmd.Dir = filepath.Join("..", "..", "..")
	// What is left is what somebody has who calls make in a new shell.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{env.Kubeconfig, "KUBECONFIG", "KEYSMITH_BINARY", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}, name) ||
			strings.HasPrefix(name, "KIND_")
	})
	cmd.Env = append(cmd.Env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make integration-kind: %v\n%s", err, out)
	}
	for _, want := range []string{"using the cluster of E2E_KUBECONFIG, " + config.Host, "--- PASS: TestVersions"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("make integration-kind did not say %q:\n%s", want, out)
		}
	}
}
