package controlplane

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// aiven are minimal definitions of the resources of Aiven's operator that keysmith reads.
//
//go:embed crds/*.yaml
var aiven embed.FS

// InstallCRDs creates or updates the custom resource definitions in the given files and folders (nil stands for keysmith's chart,
// as in Options), and returns when they are served. Aiven's are added where the cluster does not have them: those of a real operator stay.
func InstallCRDs(ctx context.Context, config *rest.Config, paths []string) error {
	if paths == nil {
		chart, err := chartCRDs()
		if err != nil {
			return err
		}
		paths = []string{chart}
	}
	config = rest.CopyConfig(config)
	config.Timeout = startTimeout // envtest takes no context
	absent, err := absentAivenCRDs(ctx, config)
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths:              paths,
		CRDs:               absent,
		ErrorIfPathMissing: true,
		MaxTime:            startTimeout,
	}); err != nil {
		return fmt.Errorf("install the custom resource definitions: %w", err)
	}
	return nil
}

// chartCRDs returns the folder of the definitions in keysmith's chart.
func chartCRDs() (string, error) {
	work, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the custom resource definitions: %w", err)
	}
	in := filepath.Join("helm", "keysmith", "crds")
	for dir := work; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(filepath.Join(dir, in)); err == nil && info.IsDir() {
			return filepath.Join(dir, in), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the custom resource definitions: no %s in %s or above it", in, work)
		}
	}
}

// absentAivenCRDs returns those of Aiven's definitions that the cluster does not have.
func absentAivenCRDs(ctx context.Context, config *rest.Config) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the custom resource definitions: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	files, err := fs.Glob(aiven, "crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list Aiven's custom resource definitions: %w", err)
	}
	var absent []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := aiven.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		err = api.Get(ctx, client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{})
		switch {
		case apierrors.IsNotFound(err):
			absent = append(absent, crd)
		case err != nil:
			return nil, fmt.Errorf("look for %s: %w", crd.Name, err)
		}
	}
	return absent, nil
}
