package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/keysmith-io/keysmith/hack/image/rootfs"
)

// committed is when the source of the tests was committed.
var committed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// checkouts are two clones of one commit, in which make image has been run.
type checkouts struct{ one, other string }

var buildBoth = sync.OnceValues(func() (checkouts, error) {
	dir, err := os.MkdirTemp("", "keysmith-image-test-")
	if err != nil {
		return checkouts{}, err
	}
	c := checkouts{one: filepath.Join(dir, "one"), other: filepath.Join(dir, "in", "another", "folder")}
	if err := commit(c.one); err != nil {
		return c, err
	}
	if err := command(dir, "git", "clone", "--quiet", c.one, c.other); err != nil {
		return c, err
	}
	for _, checkout := range []string{c.one, c.other} {
		if err := command(checkout, "make", "--no-print-directory", "image"); err != nil {
			return c, err
		}
	}
	return c, nil
})

// commit makes a repository of what git knows of this one, together with what is not committed yet.
func commit(dir string) error {
	out, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("list the source: %w", err)
	}
	for file := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join("../..", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		info, err := os.Stat(filepath.Join("../..", file))
		if err != nil {
			return err
		}
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"}, {"commit", "--quiet", "--message=Source"}, {"tag", "v1.2.3"}} {
		if err := command(dir, "git", args...); err != nil {
			return err
		}
	}
	return nil
}

func command(dir, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	for _, e := range os.Environ() {
		// Nothing of the make that runs this test, or of its user, decides on what is built.
		if k, _, _ := strings.Cut(e, "="); !strings.HasPrefix(k, "GIT_") && !slices.Contains([]string{
			"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "TESTFLAGS", "VERSION", "COMMIT", "IMAGE", "SOURCE_DATE_EPOCH",
		}, k) {
			cmd.Env = append(cmd.Env, e)
		}
	}
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		cmd.Env = append(cmd.Env, "GIT_"+who+"_NAME=test", "GIT_"+who+"_EMAIL=test@example.com", "GIT_"+who+"_DATE="+committed.Format(time.RFC3339))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

func TestMain(m *testing.M) {
	status := m.Run()
	if c, _ := buildBoth(); c.one != "" {
		_ = os.RemoveAll(filepath.Dir(c.one)) // a leftover in the temporary directory is no failure
	}
	os.Exit(status)
}

func built(t *testing.T) checkouts {
	t.Helper()
	c, err := buildBoth()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// archived is the image of an archive, and the descriptor that names it.
func archived(t *testing.T) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	dir := t.TempDir()
	for path, f := range files(t, openFile(t, filepath.Join(built(t).one, "bin/keysmith-image.tar"))) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("there are %d images in the archive, want one", len(manifest.Manifests))
	}
	image, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image, manifest.Manifests[0]
}

func openFile(t *testing.T, path string) io.Reader {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

type file struct {
	tar.Header

	data []byte
}

// files are the regular files of a tar archive; an archive with anything but files and folders fails the test.
func files(t *testing.T, archive io.Reader) map[string]file {
	t.Helper()
	out := map[string]file{}
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Typeflag != tar.TypeReg {
			t.Errorf("%s is neither a file nor a folder", h.Name)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(h.Name, "/")] = file{*h, data}
	}
}

// images are the images of an index by architecture.
func images(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		if out[m.Platform.Architecture], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestTwoBuildsOfACommitAreTheSame(t *testing.T) {
	c := built(t)
	for _, f := range []string{
		"keysmith-image.tar", "sbom/keysmith-index.spdx.json", "sbom/keysmith-linux-amd64.spdx.json", "sbom/keysmith-linux-arm64.spdx.json",
	} {
		one, err := os.ReadFile(filepath.Join(c.one, "bin", f))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(c.other, "bin", f))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, other) {
			t.Errorf("%s differs between two builds of a commit in different folders", f)
		}
	}
}

func TestArchive(t *testing.T) {
	index, descriptor := archived(t)
	want := map[string]string{"org.opencontainers.image.ref.name": "1.2.3", "io.containerd.image.name": "ghcr.io/keysmith-io/keysmith:1.2.3"}
	if diff := cmp.Diff(want, descriptor.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"amd64", "arm64"}, slices.Sorted(maps.Keys(images(t, index)))); diff != "" {
		t.Errorf("architectures (-want +got):\n%s", diff)
	}
}

func TestConfig(t *testing.T) {
	commit, err := exec.Command("git", "-C", built(t).one, "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	index, _ := archived(t)
	for arch, image := range images(t, index) {
		got, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got.OS != "linux" || got.Architecture != arch || !got.Created.Equal(committed) {
			t.Errorf("%s: image is for %s/%s, of %s", arch, got.OS, got.Architecture, got.Created)
		}
		want := v1.Config{
			User:       "65532:65532",
			Entrypoint: []string{"/ko-app/keysmith"},
			Env:        []string{"PATH=/ko-app", "KO_DATA_PATH=/var/run/ko"},
			Labels:     options{version: "v1.2.3", commit: strings.TrimSpace(string(commit)), created: committed}.labels(),
		}
		if diff := cmp.Diff(want, got.Config); diff != "" {
			t.Errorf("%s: config (-want +got):\n%s", arch, diff)
		}
	}
}

func TestContent(t *testing.T) {
	index, _ := archived(t)
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, image := range images(t, index) {
		content := mutate.Extract(image)
		got := files(t, content)
		_ = content.Close() // it has been read to its end
		modes := map[string]int64{}
		for path, f := range got {
			modes[path] = f.Mode
			if f.Uid != 0 || f.Gid != 0 {
				t.Errorf("%s: %s belongs to %d:%d, want root", arch, path, f.Uid, f.Gid)
			}
		}
		// There is no shell, no library, and nothing that the operator could change.
		want := map[string]int64{"ko-app/keysmith": 0o555, "etc/group": 0o444, "etc/passwd": 0o444, "etc/ssl/certs/ca-certificates.crt": 0o444}
		if diff := cmp.Diff(want, modes); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", arch, diff)
		}
		for _, f := range rootfs.Files() {
			if !bytes.Equal(f.Data, got[f.Path].data) {
				t.Errorf("%s: %s is not that of rootfs", arch, f.Path)
			}
		}
		program, err := elf.NewFile(bytes.NewReader(got["ko-app/keysmith"].data))
		if err != nil {
			t.Fatal(err)
		}
		if program.Machine != machines[arch] {
			t.Errorf("%s: program is for %s", arch, program.Machine)
		}
		if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("%s: program is not static", arch)
		}
	}
}

func TestCertificates(t *testing.T) {
	for _, f := range rootfs.Files() {
		if f.Path != "etc/ssl/certs/ca-certificates.crt" {
			continue
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(f.Data) {
			t.Fatal("there is no certificate")
		}
		if n := bytes.Count(f.Data, []byte("BEGIN CERTIFICATE")); n < 100 {
			t.Errorf("there are %d roots, want those of Mozilla, more than 100", n)
		}
	}
}

func TestProgramRuns(t *testing.T) {
	index, _ := archived(t)
	image, ok := images(t, index)[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		t.Skipf("the image is not for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	path := extract(t, image)
	cmd := exec.Command(path, "version")
	cmd.Env = []string{} // as in the image
	got, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run keysmith version: %v\n%s", err, got)
	}
	want := "keysmith v1.2.3 (commit " + config.Config.Labels["org.opencontainers.image.revision"] + ", "
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("keysmith version says %q, want %q first", got, want)
	}
}

// extract writes the program of an image to a file.
func extract(t *testing.T, image v1.Image) string {
	t.Helper()
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	path := filepath.Join(t.TempDir(), "keysmith")
	if err := os.WriteFile(path, files(t, content)["ko-app/keysmith"].data, 0o500); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSBOMListsWhatIsInTheProgram(t *testing.T) {
	index, _ := archived(t)
	for arch, image := range images(t, index) {
		info, err := buildinfo.ReadFile(extract(t, image))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{module + "@"}
		for _, d := range info.Deps {
			if d.Replace != nil {
				d = d.Replace
			}
			want = append(want, d.Path+"@"+d.Version)
		}
		data, err := os.ReadFile(filepath.Join(built(t).one, "bin/sbom/keysmith-linux-"+arch+".spdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			SPDXVersion string `json:"spdxVersion"`
			Packages    []struct {
				Name    string `json:"name"`
				Version string `json:"versionInfo"`
				Refs    []struct {
					Locator string `json:"referenceLocator"`
				} `json:"externalRefs"`
			} `json:"packages"`
		}
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		if doc.SPDXVersion != "SPDX-2.3" {
			t.Errorf("%s: SBOM is in format %q", arch, doc.SPDXVersion)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if doc.Packages[0].Name != digest.String() {
			t.Errorf("%s: SBOM describes %s, want the image, %s", arch, doc.Packages[0].Name, digest)
		}
		var got []string
		for _, p := range doc.Packages {
			if !strings.HasPrefix(p.Refs[0].Locator, "pkg:golang/") {
				continue // the image and its base
			}
			got = append(got, p.Name+"@"+p.Version)
			if locator := "pkg:golang/" + module + "@v1.2.3?type=module"; p.Name == module && p.Refs[0].Locator != locator {
				t.Errorf("%s: SBOM has %s, want %s", arch, p.Refs[0].Locator, locator)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: modules (-want +got):\n%s", arch, diff)
		}
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/keysmith:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	index, descriptor := archived(t)
	if err := pushImage(t.Context(), tag, index); err != nil {
		t.Fatal(err)
	}
	got, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := got.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if digest != descriptor.Digest {
		t.Errorf("the registry has %s, want that of the archive, %s", digest, descriptor.Digest)
	}
	for arch, image := range images(t, got) {
		if _, err := image.ConfigFile(); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
	}
}

func TestUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		epoch string
		want  string
	}{
		"it wants to know where to write": {
			want: "image: say with -o where to write the image, or with -push to push it; there are no arguments\n",
		},
		"it takes no arguments": {
			args: []string{"-o=x.tar", "y"},
			want: "image: say with -o where to write the image, or with -push to push it; there are no arguments\n",
		},
		"it refuses a version that is no tag": {
			args: []string{"-o=x.tar", "-version=v1.0.0+dirty"},
			want: "image: -image or -version: tag can only contain the characters `abcdefghijklmnopqrstuvwxyz0123456789_-.ABCDEFGHIJKLMNOPQRSTUVWXYZ`: 1.0.0+dirty\n",
		},
		"it refuses a time that is no number": {
			args:  []string{"-o=x.tar"},
			epoch: "yesterday",
			want:  "image: read SOURCE_DATE_EPOCH: \"yesterday\" is not a number of seconds\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", tc.epoch)
			var stderr bytes.Buffer
			if status := run(context.Background(), tc.args, io.Discard, &stderr); status != badUsage {
				t.Errorf("exit status is %d, want %d", status, badUsage)
			}
			if diff := cmp.Diff(tc.want, stderr.String()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}
