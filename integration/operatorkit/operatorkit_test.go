package operatorkit

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/giantswarm/operatorkit/v7/pkg/resource"
	"github.com/giantswarm/operatorkit/v7/pkg/resource/crud"

	"github.com/keysmith-io/keysmith/integration/operatorkit/rolebinding"
	"github.com/keysmith-io/keysmith/integration/operatorkit/serviceaccount"
)

var (
	_ resource.Interface = (*serviceaccount.Resource)(nil)
	_ crud.Interface     = (*rolebinding.Resource)(nil)
)

// TestImports shows that the operator is written for operatorkit alone: of our module it imports only its own packages.
func TestImports(t *testing.T) {
	const (
		module = "github.com/keysmith-io/keysmith"
		own    = module + "/integration/operatorkit/"
		theirs = "github.com/giantswarm/operatorkit/v7/"
	)
	using := map[string]bool{} // resources that import operatorkit
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || filepath.Dir(path) == "." {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if imported == module || strings.HasPrefix(imported, module+"/") && !strings.HasPrefix(imported, own) {
				t.Errorf("%s imports %s", path, imported)
			}
			if strings.HasPrefix(imported, theirs) {
				using[filepath.Dir(path)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{serviceaccount.Name, rolebinding.Name} {
		if !using[dir] {
			t.Errorf("%s imports nothing of operatorkit", dir)
		}
	}
}
