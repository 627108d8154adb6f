package controller_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each package of the framework comes without the operator that it was made for, and without the packages that it does
// not need.
func TestStandsAlone(t *testing.T) {
	const (
		module = "github.com/keysmith-io/keysmith/"
		cr     = "sigs.k8s.io/controller-runtime/pkg/"
	)
	tests := map[string]struct {
		own     []string // packages of this module
		without []string // parts of paths
	}{
		"resource":   {[]string{"pkg/resource"}, []string{cr + "manager", cr + "controller", "prometheus/promauto", "giantswarm/micrologger", "cenkalti/backoff"}},
		"middleware": {[]string{"pkg/middleware", "pkg/resource"}, []string{cr + "manager", cr + "controller", "giantswarm/micrologger"}},
		"controller": {[]string{"pkg/controller", "pkg/resource"}, []string{"cenkalti/backoff"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"pkg/"+name).Output()
			if err != nil {
				t.Fatal(err)
			}
			deps := strings.Fields(string(out))
			if len(deps) < 100 {
				t.Fatalf("got only %d packages: %q", len(deps), deps)
			}
			own := map[string]bool{}
			for _, path := range tc.own {
				own[module+path] = true
			}
			for _, dep := range deps {
				if strings.HasPrefix(dep, module) && !own[dep] || strings.Contains(strings.TrimPrefix(dep, module), "aiven") {
					t.Errorf("it imports %s", dep)
				}
				for _, part := range tc.without {
					if strings.Contains(dep, part) {
						t.Errorf("it imports %s", dep)
					}
				}
			}
		})
	}
}

// Whoever imports a package must not get an effect with it.
func TestHasNoInit(t *testing.T) {
	for _, name := range []string{"resource", "middleware", "controller", "controller/controllertest"} {
		files, err := filepath.Glob(filepath.Join("..", name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("find the files of %s: got %q, %v", name, files, err)
		}
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range tree.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s has an init function", file)
				}
			}
		}
	}
}
