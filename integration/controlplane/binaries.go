package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The versions that are downloaded or built. Programs from KUBEBUILDER_ASSETS may be of others.
const (
	// KubernetesVersion is the version of kube-apiserver and kube-controller-manager, unless KEYSMITH_CONTROLPLANE_VERSION names another.
	KubernetesVersion = "1.37.2"
	// EtcdVersion is the version of etcd.
	EtcdVersion = "3.7.3"
)

// Environment variables that say which programs to take, all optional.
const (
	// EnvAssets is envtest's variable. It names a folder with etcd, kube-apiserver and, maybe, kube-controller-manager.
	EnvAssets = "KUBEBUILDER_ASSETS"
	// EnvCache names the folder that keeps downloaded and built programs, instead of keysmith/controlplane in the user's cache folder.
	EnvCache = "KEYSMITH_CONTROLPLANE_CACHE"
	// EnvVersion names the version of Kubernetes to take, such as 1.37.2, in place of KubernetesVersion and of KUBEBUILDER_ASSETS.
	EnvVersion = "KEYSMITH_CONTROLPLANE_VERSION"
)

const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
)

// Binaries are the paths of the three programs of a control plane.
type Binaries struct {
	Etcd, APIServer, ControllerManager string
}

// Find returns the programs of a control plane: those in KUBEBUILDER_ASSETS unless a version is named, else in setup-envtest's store, else in keysmith's
// cache. What is missing is downloaded into the cache, and what cannot be downloaded is built there by the go
// command, from the module proxy; log gets lines of progress.
//
// setup-envtest brings etcd and kube-apiserver. The kube-controller-manager to go with them is that of the same version in
// the cache.
//
// It fails if KUBEBUILDER_ASSETS names a folder without etcd or kube-apiserver, if KEYSMITH_CONTROLPLANE_VERSION is not the full
// number of a version, and if the build fails.
func Find(ctx context.Context, log io.Writer) (Binaries, error) {
	return find(ctx, log, obtain(official().download, build))
}

// Cached returns nil if Find has all programs at hand, and else an error that names those it would download or build.
func Cached() error {
	_, err := find(context.Background(), io.Discard, func(_ context.Context, _ io.Writer, dir, _ string, _ []string) error {
		return fmt.Errorf("not in %s", dir)
	})
	return err
}

// step puts what it can of the missing programs into dir, with Kubernetes in the given version.
type step func(ctx context.Context, log io.Writer, dir, version string, missing []string) error

// find calls get for the programs that are in no folder.
func find(ctx context.Context, log io.Writer, get step) (Binaries, error) {
	version, assets, err := installed()
	if err != nil {
		return Binaries{}, err
	}
	if assets != "" && !has(assets, controllerManager) {
		if version, err = versionOf(ctx, filepath.Join(assets, apiServer)); err != nil {
			return Binaries{}, err
		}
	}
	cache, err := cacheDir(version)
	if err != nil {
		return Binaries{}, err
	}

	var missing []string
	locate := func(name string) string {
		if assets != "" && has(assets, name) {
			return filepath.Join(assets, name)
		}
		if !has(cache, name) {
			missing = append(missing, name)
		}
		return filepath.Join(cache, name)
	}
	b := Binaries{Etcd: locate(etcd), APIServer: locate(apiServer), ControllerManager: locate(controllerManager)}
	if len(missing) == 0 {
		return b, nil
	}
	if err := get(ctx, log, cache, version, missing); err != nil {
		return Binaries{}, fmt.Errorf("get %s: %w", strings.Join(missing, ", "), err)
	}
	return b, nil
}

// installed returns the version of Kubernetes that is wanted, and the folder with its programs: that of KUBEBUILDER_ASSETS, unless a
// version is named, else the newest of setup-envtest's store with the same minor version, else nothing.
func installed() (version, assets string, err error) {
	version = os.Getenv(EnvVersion)
	switch dir := os.Getenv(EnvAssets); {
	case version != "" && !complete.MatchString(version):
		return "", "", fmt.Errorf("read %s: %q is not the full number of a version, such as %s", EnvVersion, version, KubernetesVersion)
	case version != "":
	case dir != "":
		for _, name := range []string{etcd, apiServer} {
			if !has(dir, name) {
				return "", "", fmt.Errorf("find %s in %s: %s has no such program", name, EnvAssets, dir)
			}
		}
		return KubernetesVersion, dir, nil
	default:
		version = KubernetesVersion
	}
	store, err := envtest.SetupEnvtestDefaultBinaryAssetsDirectory()
	if err != nil {
		return version, "", nil //nolint:nilerr // no home folder, so no store
	}
	dirs, err := filepath.Glob(filepath.Join(store, minor(version)+".*-"+platform))
	if err != nil {
		return "", "", fmt.Errorf("list the store of setup-envtest: %w", err)
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !has(dir, etcd) || !has(dir, apiServer) })
	if len(dirs) == 0 {
		return version, "", nil
	}
	return version, slices.MaxFunc(dirs, func(a, b string) int {
		return patch(strings.TrimSuffix(a, "-"+platform)) - patch(strings.TrimSuffix(b, "-"+platform))
	}), nil
}

const platform = runtime.GOOS + "-" + runtime.GOARCH

// cacheDir returns the folder for downloaded and built programs of a version of Kubernetes.
func cacheDir(version string) (string, error) {
	root := os.Getenv(EnvCache)
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the cache folder (%s sets another): %w", EnvCache, err)
		}
		root = filepath.Join(user, "keysmith", "controlplane")
	}
	return filepath.Join(root, fmt.Sprintf("kubernetes-%s-etcd-%s-%s", version, EtcdVersion, platform)), nil
}

// obtain returns a step that takes the given steps in turn until no program is missing, and fails if one still is. One process
// at a time does so for a folder; the others wait and then find what it got.
func obtain(steps ...step) step {
	return func(ctx context.Context, log io.Writer, dir, version string, missing []string) error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the cache folder: %w", err)
		}
		unlock, err := lock(ctx, log, filepath.Join(dir, "lock"))
		if err != nil {
			return err
		}
		defer unlock()

		// Programs are renamed out of here, so that none is ever seen half written. A killed process may have left the folder.
		work := filepath.Join(dir, "work")
		defer func() { _ = os.RemoveAll(work) }()
		for _, take := range steps {
			if missing = absent(dir, missing); len(missing) == 0 {
				return nil
			}
			if err := os.RemoveAll(work); err != nil {
				return fmt.Errorf("clear the work folder: %w", err)
			}
			if err := os.Mkdir(work, 0o755); err != nil {
				return fmt.Errorf("make the work folder: %w", err)
			}
			if err := take(ctx, log, work, version, missing); err != nil {
				return err
			}
			for _, name := range missing {
				if !has(work, name) {
					continue
				}
				if err := os.Rename(filepath.Join(work, name), filepath.Join(dir, name)); err != nil {
					return fmt.Errorf("move %s into the cache: %w", name, err)
				}
			}
		}
		if missing = absent(dir, missing); len(missing) > 0 {
			return fmt.Errorf("find %s: neither downloaded nor built", strings.Join(missing, ", "))
		}
		return nil
	}
}

// absent returns the names that dir has no program of.
func absent(dir string, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return has(dir, name) })
}

// lock takes the lock file at path, and says so if it has to wait. The kernel frees the lock of a process that died.
func lock(ctx context.Context, log io.Writer, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !waiting {
			report(log, "another process is getting the programs of the control plane: waiting for it")
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for the lock %s: %w", path, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// has reports whether dir has an executable file of that name.
func has(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var (
	semantic = regexp.MustCompile(`v(\d+\.\d+\.\d+)`)
	complete = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
)

// versionOf asks a program of Kubernetes for its version, such as 1.37.2.
func versionOf(ctx context.Context, path string) (string, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	match := semantic.FindSubmatch(out)
	if match == nil {
		return "", fmt.Errorf("read the version of %s: there is none in %q", path, out)
	}
	return string(match[1]), nil
}

// minor returns 1.37 for 1.37.2.
func minor(version string) string {
	return strings.TrimSuffix(version, path.Ext(version))
}

// patch returns 2 for 1.37.2, and -1 if there is no such number.
func patch(version string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(path.Ext(version), "."))
	if err != nil {
		return -1
	}
	return n
}

// report writes one line of progress for people.
func report(log io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(log, "controlplane: "+format+"\n", args...)
}
