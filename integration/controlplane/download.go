package controlplane

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// mirror is where released programs are downloaded from.
type mirror struct {
	index    string // setup-envtest's list of bundles with etcd and kube-apiserver
	releases string // Kubernetes' releases, with kube-controller-manager for Linux
	client   *http.Client
}

// official returns the mirror of the Kubernetes project, for which a server that does not answer within seconds is none.
func official() mirror {
	const patience = 3 * time.Second
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: patience}).DialContext
	transport.TLSHandshakeTimeout = patience
	transport.ResponseHeaderTimeout = patience
	return mirror{
		index:    envtest.DefaultBinaryAssetsIndexURL,
		releases: "https://dl.k8s.io/release",
		client:   &http.Client{Transport: transport},
	}
}

// download gets what it can of the missing programs into work; the rest is left to the build, with a line that says why. It
// fails only if ctx ends.
func (m mirror) download(ctx context.Context, log io.Writer, work, version string, missing []string) error {
	transfer, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	bundled := slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return name == controllerManager })
	if len(bundled) > 0 {
		report(log, "downloading %s %s", strings.Join(bundled, ", "), version)
		if err := m.bundle(transfer, work, version, bundled); err != nil {
			report(log, "not downloaded: %v", err)
		}
	}
	if slices.Contains(missing, controllerManager) {
		report(log, "downloading %s %s", controllerManager, version)
		if err := m.release(transfer, work, version, controllerManager); err != nil {
			report(log, "not downloaded: %v", err)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("download: %w", context.Cause(ctx))
	}
	return nil
}

// bundle unpacks programs of setup-envtest's bundle of a version, or of the newest one with the same minor version: not every
// version is bundled.
func (m mirror) bundle(ctx context.Context, work, version string, names []string) error {
	text, err := m.text(ctx, m.index)
	if err != nil {
		return err
	}
	var index struct {
		Releases map[string]map[string]struct{ Hash, SelfLink string }
	}
	if err := yaml.Unmarshal([]byte(text), &index); err != nil {
		return fmt.Errorf("read %s: %w", m.index, err)
	}
	rank := func(number string) int {
		if number == version {
			return math.MaxInt
		}
		return patch(number)
	}
	best, link, sum := "", "", ""
	for v, archives := range index.Releases {
		number := strings.TrimPrefix(v, "v")
		archive, ok := archives["envtest-"+v+"-"+platform+".tar.gz"]
		if ok && minor(number) == minor(version) && (best == "" || rank(number) > rank(best)) {
			best, link, sum = number, archive.SelfLink, archive.Hash
		}
	}
	if best == "" {
		return fmt.Errorf("find a bundle of Kubernetes %s for %s: %s has none", minor(version), platform, m.index)
	}

	file := filepath.Join(work, "bundle.tar.gz")
	if err := m.fetch(ctx, link, file, sha512.New(), sum); err != nil {
		return err
	}
	return unpack(file, work, names)
}

// release gets one program of a release of Kubernetes.
func (m mirror) release(ctx context.Context, work, version, name string) error {
	link := strings.Join([]string{m.releases, "v" + version, "bin", runtime.GOOS, runtime.GOARCH, name}, "/")
	sum, err := m.text(ctx, link+".sha256")
	if err != nil {
		return err
	}
	part := filepath.Join(work, name+".part")
	if err := m.fetch(ctx, link, part, sha256.New(), strings.TrimSpace(sum)); err != nil {
		return err
	}
	return install(part)
}

// text gets a small file.
func (m mirror) text(ctx context.Context, link string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := m.get(ctx, link)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", link, err)
	}
	return string(text), nil
}

// fetch gets a large file, and fails if its checksum, in hexadecimal, is not sum.
func (m mirror) fetch(ctx context.Context, link, file string, h hash.Hash, sum string) error {
	body, err := m.get(ctx, link)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("store %s: %w", link, err)
	}
	_, err = io.Copy(io.MultiWriter(f, h), body)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("store %s: %w", link, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return fmt.Errorf("check %s: the checksum is %s, not %s", link, got, sum)
	}
	return nil
}

func (m mirror) get(ctx context.Context, link string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", link, err)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, err // which names the method and the address
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("get %s: %s", link, resp.Status)
	}
	return resp.Body, nil
}

// unpack extracts the named programs of an archive, in whatever folder they are there, into dir.
func unpack(archive, dir string, names []string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("unpack the bundle: %w", err)
	}
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("unpack the bundle: %w", err)
	}
	for files := tar.NewReader(zipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack the bundle: %w", err)
		}
		name := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || !slices.Contains(names, name) {
			continue
		}
		out, err := os.Create(filepath.Join(dir, name+".part"))
		if err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		_, err = io.Copy(out, files)
		if err = errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		if err := install(out.Name()); err != nil {
			return err
		}
	}
}

// install makes a whole .part file the program that it is a part of.
func install(part string) error {
	if err := os.Chmod(part, 0o755); err != nil {
		return fmt.Errorf("install the program: %w", err)
	}
	if err := os.Rename(part, strings.TrimSuffix(part, ".part")); err != nil {
		return fmt.Errorf("install the program: %w", err)
	}
	return nil
}
