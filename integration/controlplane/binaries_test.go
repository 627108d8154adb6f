package controlplane

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// place puts a program at path that prints what it is, as Kubernetes' programs do.
func place(t *testing.T, path, version string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho Kubernetes v"+version+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	cache := "cache/kubernetes-" + KubernetesVersion + "-etcd-" + EtcdVersion + "-" + platform + "/"
	older := "cache/kubernetes-1.36.4-etcd-" + EtcdVersion + "-" + platform + "/"
	inCache := Binaries{cache + etcd, cache + apiServer, cache + controllerManager}
	for name, tc := range map[string]struct {
		assets  string            // value of KUBEBUILDER_ASSETS, a folder in the root
		version string            // value of KEYSMITH_CONTROLPLANE_VERSION
		have    map[string]string // program in the root -> its version; store/ is that of setup-envtest
		want    Binaries
		missing []string // what is got, version first
		err     string
	}{
		"it takes all from KUBEBUILDER_ASSETS": {
			assets: "assets",
			have: map[string]string{
				"assets/etcd": "", "assets/kube-apiserver": "1.36.4", "assets/kube-controller-manager": "1.36.4",
				"store/1.37.2-" + platform + "/etcd": "", "store/1.37.2-" + platform + "/kube-apiserver": "1.37.2",
				cache + etcd: "", cache + apiServer: KubernetesVersion, cache + controllerManager: KubernetesVersion,
			},
			want: Binaries{"assets/etcd", "assets/kube-apiserver", "assets/kube-controller-manager"},
		},
		"it completes KUBEBUILDER_ASSETS with a manager of the same version": {
			assets: "assets",
			have: map[string]string{
				"assets/etcd": "", "assets/kube-apiserver": "1.36.4",
				cache + controllerManager: KubernetesVersion,
			},
			want:    Binaries{"assets/etcd", "assets/kube-apiserver", older + controllerManager},
			missing: []string{"1.36.4", controllerManager},
		},
		"it fails if KUBEBUILDER_ASSETS has no etcd": {
			assets: "assets",
			have:   map[string]string{"assets/kube-apiserver": "1.36.4", cache + etcd: ""},
			err:    "find etcd in KUBEBUILDER_ASSETS",
		},
		"it takes the newest of setup-envtest's store": {
			have: map[string]string{
				"store/1.36.0-" + platform + "/etcd": "", "store/1.36.0-" + platform + "/kube-apiserver": "1.36.0",
				"store/1.37.9-" + platform + "/etcd": "", "store/1.37.9-" + platform + "/kube-apiserver": "1.37.9",
				"store/1.37.10-" + platform + "/etcd": "", "store/1.37.10-" + platform + "/kube-apiserver": "1.37.10",
				"store/1.37.11-plan9-" + platform + "/etcd": "", "store/1.38.0-" + platform + "/kube-apiserver": "1.38.0",
				strings.Replace(cache, KubernetesVersion, "1.37.10", 1) + controllerManager: "1.37.10",
			},
			want: Binaries{
				"store/1.37.10-" + platform + "/etcd", "store/1.37.10-" + platform + "/kube-apiserver",
				strings.Replace(cache, KubernetesVersion, "1.37.10", 1) + controllerManager,
			},
		},
		"it takes the cache if the store lacks a program": {
			have: map[string]string{
				"store/1.37.2-" + platform + "/etcd": "",
				cache + etcd:                         "", cache + apiServer: KubernetesVersion, cache + controllerManager: KubernetesVersion,
			},
			want: inCache,
		},
		"it gets what the cache lacks": {
			have:    map[string]string{cache + etcd: ""},
			want:    inCache,
			missing: []string{KubernetesVersion, apiServer, controllerManager},
		},
		"it gets the version that is named, not KUBEBUILDER_ASSETS": {
			version: "1.36.4",
			assets:  "assets",
			have: map[string]string{
				"assets/etcd": "", "assets/kube-apiserver": KubernetesVersion,
				cache + etcd: "", cache + apiServer: KubernetesVersion, cache + controllerManager: KubernetesVersion,
				older + etcd: "", older + apiServer: "1.36.4",
			},
			want:    Binaries{older + etcd, older + apiServer, older + controllerManager},
			missing: []string{"1.36.4", controllerManager},
		},
		"it fails if the version is not complete": {
			version: "1.36",
			err:     `KEYSMITH_CONTROLPLANE_VERSION: "1.36" is not the full number of a version, such as ` + KubernetesVersion,
		},
		"it gets everything": {
			want:    inCache,
			missing: []string{KubernetesVersion, etcd, apiServer, controllerManager},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			t.Setenv("HOME", root)
			t.Setenv("XDG_DATA_HOME", "")
			t.Setenv(EnvCache, filepath.Join(root, "cache"))
			t.Setenv(EnvAssets, "")
			t.Setenv(EnvVersion, tc.version)
			if tc.assets != "" {
				t.Setenv(EnvAssets, filepath.Join(root, tc.assets))
			}
			store, err := envtest.SetupEnvtestDefaultBinaryAssetsDirectory()
			if err != nil {
				t.Fatal(err)
			}
			real := func(path string) string {
				if in, ok := strings.CutPrefix(path, "store/"); ok {
					return filepath.Join(store, in)
				}
				return filepath.Join(root, path)
			}
			for path, version := range tc.have {
				place(t, real(path), version)
			}

			var missing []string
			got, err := find(t.Context(), io.Discard, func(_ context.Context, _ io.Writer, _, version string, names []string) error {
				missing = append([]string{version}, names...)
				return nil
			})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error is %v, want %q in it", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Binaries{real(tc.want.Etcd), real(tc.want.APIServer), real(tc.want.ControllerManager)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.missing, missing); diff != "" {
				t.Errorf("programs got (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObtain(t *testing.T) {
	gives := func(names ...string) step {
		return func(_ context.Context, _ io.Writer, dir, version string, _ []string) error {
			for _, name := range names {
				place(t, filepath.Join(dir, name), version)
			}
			return nil
		}
	}
	fails := func(_ context.Context, _ io.Writer, dir, version string, _ []string) error {
		place(t, filepath.Join(dir, etcd), version)
		return errors.New("disk full")
	}
	for name, tc := range map[string]struct {
		have  []string
		steps []step
		want  []string
		err   string
	}{
		"it takes nothing that is there":                {have: []string{etcd, apiServer}, steps: []step{fails}, want: []string{etcd, apiServer}},
		"it leaves the rest to the next step":           {steps: []step{gives(apiServer), gives(etcd)}, want: []string{etcd, apiServer}},
		"it takes no step without need":                 {steps: []step{gives(apiServer, etcd), fails}, want: []string{etcd, apiServer}},
		"it keeps nothing of a step that failed":        {steps: []step{gives(apiServer), fails}, want: []string{apiServer}, err: "disk full"},
		"it clears what a killed process left":          {have: []string{"work/etcd"}, steps: []step{gives(apiServer)}, want: []string{apiServer}, err: "find etcd"},
		"it says what no step has":                      {steps: []step{gives(etcd)}, want: []string{etcd}, err: "find kube-apiserver"},
		"it does not take what was not asked for as it": {steps: []step{gives(controllerManager)}, err: "find etcd, kube-apiserver"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			for _, name := range tc.have {
				place(t, filepath.Join(dir, name), KubernetesVersion)
			}
			err := obtain(tc.steps...)(t.Context(), io.Discard, dir, KubernetesVersion, []string{etcd, apiServer})
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error is %v, want %q in it", err, tc.err)
			}
			var got []string
			for _, name := range []string{etcd, apiServer, controllerManager} {
				if has(dir, name) {
					got = append(got, name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(filepath.Join(dir, "work")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the work folder is left: %v", err)
			}
		})
	}

	t.Run("it takes the steps in one process at a time", func(t *testing.T) {
		dir := t.TempDir()
		var taken atomic.Int32
		get := obtain(func(ctx context.Context, log io.Writer, work, version string, missing []string) error {
			taken.Add(1)
			return gives(missing...)(ctx, log, work, version, missing)
		})
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if err := get(t.Context(), io.Discard, dir, KubernetesVersion, []string{etcd}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got := taken.Load(); got != 1 {
			t.Errorf("the step was taken %d times, want once", got)
		}
	})

	t.Run("it waits no longer than its context", func(t *testing.T) {
		dir := t.TempDir()
		unlock, err := lock(t.Context(), io.Discard, filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = obtain(gives(etcd))(ctx, io.Discard, dir, KubernetesVersion, []string{etcd})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want %v", err, context.Canceled)
		}
	})
}
