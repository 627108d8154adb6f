package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"runtime/debug"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/ko/pkg/build"

	"github.com/keysmith-io/keysmith/hack/image/rootfs"
)

// module is the operator, whose main package is at its root.
const module = "github.com/keysmith-io/keysmith"

// platforms are what the image is for.
var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// options are all that the image depends on, beside the version of Go.
type options struct {
	source  string    // folder of the operator's go.mod
	ldflags string    // for the Go linker
	version string    // of the operator
	commit  string    // of the source
	created time.Time // of the commit; nothing in the image has another time
	sbom    string    // folder for the bills of material; empty: there are none
}

// labels say what the image is. The Dockerfile has the same.
func (o options) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "keysmith",
		"org.opencontainers.image.description":   "Gives applications on Kubernetes credentials on shared Aiven services",
		"org.opencontainers.image.source":        "https://" + module,
		"org.opencontainers.image.documentation": "https://" + module + "/tree/main/docs",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.vendor":        "keysmith-io",
		"org.opencontainers.image.version":       o.version,
		"org.opencontainers.image.revision":      o.commit,
		"org.opencontainers.image.created":       o.created.UTC().Format(time.RFC3339),
	}
}

// buildImage compiles the operator for each platform and puts it on the base.
func buildImage(ctx context.Context, o options) (v1.ImageIndex, error) {
	base, err := baseIndex(o.created)
	if err != nil {
		return nil, fmt.Errorf("make the base: %w", err)
	}
	ko := []build.Option{
		build.WithBaseImages(func(context.Context, string) (name.Reference, build.Result, error) {
			scratch, err := name.ParseReference("scratch")
			return scratch, base, err
		}),
		build.WithPlatforms("all"), // those of the base
		build.WithUser(rootfs.User),
		build.WithCreationTime(v1.Time{Time: o.created}),
		build.WithKoDataCreationTime(v1.Time{Time: o.created}),
		build.WithTrimpath(true),
		build.WithDefaultFlags([]string{"-buildvcs=auto"}),
		build.WithLdflags([]string{o.ldflags}),
		// What could change the program and is a matter of whoever builds it.
		build.WithDefaultEnv([]string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0"}),
	}
	if o.sbom == "" {
		ko = append(ko, build.WithDisabledSBOM())
	} else {
		ko = append(ko, build.WithSBOMDir(o.sbom), build.WithSPDX(koVersion()))
	}
	for k, v := range o.labels() {
		ko = append(ko, build.WithLabel(k, v))
	}
	builder, err := build.NewGo(ctx, o.source, ko...)
	if err != nil {
		return nil, fmt.Errorf("set up ko: %w", err)
	}
	result, err := builder.Build(ctx, build.StrictScheme+module)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", module, err)
	}
	index, ok := result.(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("build %s: got a %T, want an image for each platform", module, result)
	}
	return index, nil
}

// koVersion is what the bills of materials name as the tool that made them.
func koVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/google/ko" {
				return d.Version
			}
		}
	}
	return "unknown"
}

// baseIndex has an image for each platform, with the files of rootfs. ko would pull one from a registry: this one is made here, from what go.sum pins,
// so that a build needs no registry, and nobody has to trust one or to follow its updates.
func baseIndex(created time.Time) (v1.ImageIndex, error) {
	layer, err := rootLayer(created)
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
			&v1.ConfigFile{OS: p.OS, Architecture: p.Architecture, RootFS: v1.RootFS{Type: "layers"}})
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: created}, CreatedBy: module + "/hack/image/rootfs"},
		})
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &p}})
	}
	return index, nil
}

func rootLayer(created time.Time) (v1.Layer, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	made := map[string]bool{".": true}
	var folder func(dir string) error
	folder = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := folder(path.Dir(dir)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: created})
	}
	for _, f := range rootfs.Files() {
		if err := folder(path.Dir(f.Path)); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: f.Path, Mode: 0o444, Size: int64(len(f.Data)), ModTime: created}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
