package controlplane

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bundleOf returns an archive as setup-envtest's index has them, with programs that contain their names and the version.
func bundleOf(t *testing.T, version string) []byte {
	t.Helper()
	archive := &bytes.Buffer{}
	zipped := gzip.NewWriter(archive)
	files := tar.NewWriter(zipped)
	for _, name := range []string{etcd, apiServer, "kubectl"} {
		content := name + " " + version
		if err := files.WriteHeader(&tar.Header{Name: "controller-tools/envtest/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func TestDownload(t *testing.T) {
	for name, tc := range map[string]struct {
		bundles []string // versions in the index
		spoil   string   // path whose content is not that of its checksum
		want    map[string]string
		log     string
	}{
		"it takes the version itself": {
			bundles: []string{"1.36.9", "1.37.1", "1.37.2", "1.37.3"},
			want:    map[string]string{etcd: "etcd 1.37.2", apiServer: "kube-apiserver 1.37.2", controllerManager: "manager"},
		},
		"it takes the newest of the same minor version": {
			bundles: []string{"1.37.0", "1.37.1", "1.38.0", "1.37.2-rc.1"},
			want:    map[string]string{etcd: "etcd 1.37.1", apiServer: "kube-apiserver 1.37.1", controllerManager: "manager"},
		},
		"it takes the manager alone if there is no bundle": {
			bundles: []string{"1.38.0"},
			want:    map[string]string{controllerManager: "manager"},
			log:     "not downloaded: find a bundle of Kubernetes 1.37",
		},
		"it takes nothing with a wrong checksum": {
			bundles: []string{"1.37.2"},
			spoil:   "/1.37.2.tar.gz",
			want:    map[string]string{controllerManager: "manager"},
			log:     "not downloaded: check http",
		},
		"it leaves what is not there to the build": {
			log: "404 Not Found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			content := map[string][]byte{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, ok := content[r.URL.Path]; !ok {
					http.NotFound(w, r)
					return
				}
				if _, err := w.Write(content[r.URL.Path]); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			if tc.want != nil {
				index := &strings.Builder{}
				index.WriteString("releases:\n")
				for _, v := range tc.bundles {
					path, bundle := "/"+v+".tar.gz", bundleOf(t, v)
					content[path] = bundle
					fmt.Fprintf(index, "  v%s:\n    envtest-v%[1]s-%s.tar.gz:\n      hash: %x\n      selfLink: %s\n", v, platform, sha512.Sum512(bundle), server.URL+path)
				}
				content["/index"] = []byte(index.String())
				manager := "/release/v1.37.2/bin/" + runtime.GOOS + "/" + runtime.GOARCH + "/kube-controller-manager"
				content[manager] = []byte("manager")
				content[manager+".sha256"] = fmt.Appendf(nil, "%x\n", sha256.Sum256([]byte("manager")))
				content[tc.spoil] = []byte("spoilt")
			}

			work, log := t.TempDir(), &bytes.Buffer{}
			m := mirror{index: server.URL + "/index", releases: server.URL + "/release", client: server.Client()}
			if err := m.download(t.Context(), log, work, "1.37.2", []string{etcd, apiServer, controllerManager}); err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			for _, name := range []string{etcd, apiServer, "kubectl", controllerManager} {
				if !has(work, name) {
					continue
				}
				text, err := os.ReadFile(filepath.Join(work, name))
				if err != nil {
					t.Fatal(err)
				}
				if got == nil {
					got = map[string]string{}
				}
				got[name] = string(text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
			if !strings.Contains(log.String(), tc.log) {
				t.Errorf("log is %q, want %q in it", log, tc.log)
			}
		})
	}
}
