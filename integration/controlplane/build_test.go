package controlplane

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// publish adds a version of a module to a module proxy in a folder.
func publish(t *testing.T, proxy, module, version string, files map[string]string) {
	t.Helper()
	archive := &bytes.Buffer{}
	zipped := zip.NewWriter(archive)
	for name, text := range files {
		f, err := zipped.Create(module + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(proxy, module, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for ext, text := range map[string]string{
		".info": `{"Version":"` + version + `"}`,
		".mod":  files["go.mod"],
		".zip":  archive.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, version+ext), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBuild(t *testing.T) {
	root := t.TempDir()
	proxy := filepath.Join(root, "proxy")
	// The module and its sibling are developed in one repository, and published apart.
	server := map[string]string{
		"go.mod": "module example.com/server\n\ngo 1.26.0\n\nrequire example.com/sibling v0.0.0\n\nreplace example.com/sibling => ./staging/sibling\n",
		"cmd/kube-apiserver/main.go": `package main

import "example.com/sibling"

var version string

func main() { print(sibling.Name, " ", version) }
`,
	}
	publish(t, proxy, "example.com/server", "v1.2.3", server)
	publish(t, proxy, "example.com/sibling", "v0.2.3", map[string]string{
		"go.mod":     "module example.com/sibling\n\ngo 1.26.0\n",
		"sibling.go": "package sibling\n\nconst Name = \"sibling\"\n",
	})
	broken := maps.Clone(server)
	broken["cmd/kube-apiserver/main.go"] = "package main\n\nfunc main() { undefined() }\n"
	publish(t, proxy, "example.com/server", "v1.2.4", broken)
	t.Setenv("GOPROXY", "file://"+proxy)
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOMODCACHE", filepath.Join(root, "modules"))
	t.Setenv("GOFLAGS", "-modcacherw")

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx     context.Context
		version string
		missing []string
		want    string // what the program prints
		err     string
	}{
		"it builds with the published sibling":  {version: "v1.2.3", missing: []string{apiServer}, want: "sibling 1"},
		"it builds nothing that is not missing": {version: "v1.2.3", missing: []string{etcd}},
		"it shows what the compiler says":       {version: "v1.2.4", missing: []string{apiServer}, err: "undefined: undefined"},
		"it names what is not published":        {version: "v1.2.5", missing: []string{apiServer}, err: "example.com/server@v1.2.5"},
		"it ends with its context":              {ctx: canceled, version: "v1.2.3", missing: []string{apiServer}, err: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.ctx != nil {
				ctx = tc.ctx
			}
			s := source{
				module: "example.com/server", version: tc.version, siblings: "v0.2.3",
				packages: map[string]string{apiServer: "example.com/server/cmd/kube-apiserver"},
				ldflags:  "-X main.version=1",
			}
			work := t.TempDir()
			err := s.build(ctx, t.Output(), work, tc.missing)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error is %v, want %q in it", err, tc.err)
			}
			out, err := exec.Command(filepath.Join(work, apiServer)).CombinedOutput()
			if tc.want == "" {
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("there is a program: %v", err)
				}
				return
			}
			if err != nil || string(out) != tc.want {
				t.Errorf("the program says %q, %v, want %q", out, err, tc.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	p := &progress{}
	for _, part := range []string{"go: downloading a v1\ngo: down", "loading b v1\nexample.com/a\n# example.com/b\n", "b.go:1:2: undefined: x\n"} {
		if _, err := p.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if p.downloads != 2 || p.packages != 1 {
		t.Errorf("%d downloads and %d packages, want 2 and 1", p.downloads, p.packages)
	}
	if got, want := p.end(), "# example.com/b\nb.go:1:2: undefined: x"; got != want {
		t.Errorf("the last messages are %q, want %q", got, want)
	}
}
