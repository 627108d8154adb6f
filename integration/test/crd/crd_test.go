//go:build k8srequired

// Package crd tests the schema of the AivenApplication on a real API server: what it
// refuses and with what words, and that it leaves alone what was stored before it.
//
// It installs copies of the CRD under groups of its own, so that no operator sees its objects.
package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/keysmith-io/keysmith/integration/env"
)

const (
	crdFile   = "../../../helm/keysmith/crds/aiven.nais.io_aivenapplications.yaml"
	namespace = "default"
	deadline  = time.Minute
)

// cluster is a client for the cluster that keeps the warnings of the API server.
type cluster struct {
	client.Client
	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (c *cluster) HandleWarningHeader(_ int, _ string, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, text)
}

// takeWarnings returns the warnings since the last call.
func (c *cluster) takeWarnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.warnings
	c.warnings = nil
	return w
}

func connect(t *testing.T) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	config := env.Config(t)
	config.WarningHandler = c
	var err error
	if c.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return c
}

// shipped returns the CRD of the chart under another group.
func shipped(t *testing.T, group string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	b, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(b, crd); err != nil {
		t.Fatal(err)
	}
	crd.Spec.Group = group
	crd.Name = crd.Spec.Names.Plural + "." + group
	return crd
}

// lax returns a CRD like the shipped one that accepts and keeps everything.
func lax(t *testing.T, group string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := shipped(t, group)
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
			Type:       "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
		}
	}
	return crd
}

// install creates the CRD and waits until it is served. At the end of the test it is
// deleted, with all its objects.
func (c *cluster) install(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	c.remove(t, t.Context(), crd.Name)
	env.Eventually(t, deadline, func(ctx context.Context) error {
		err := c.Create(ctx, crd)
		if apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("the CRD of the test before is still there: %w", err)
		}
		return err
	})
	t.Cleanup(func() { c.remove(t, context.Background(), crd.Name) })
	for _, v := range crd.Spec.Versions {
		env.Eventually(t, deadline, func(ctx context.Context) error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.ListKind})
			return c.List(ctx, list, client.InNamespace(namespace))
		})
	}
}

func (c *cluster) remove(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = name
	if err := client.IgnoreNotFound(c.Delete(ctx, crd)); err != nil {
		t.Errorf("delete %s: %v", name, err)
	}
}

// application returns an object with the spec and, maybe, the status given as JSON or YAML.
func application(t *testing.T, group, version, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != "" {
		b, err := yaml.YAMLToJSON([]byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		u.Object["spec"] = v
	}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: "AivenApplication"})
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// refused reports whether err is a refusal by the schema that says each of the texts. No
// texts stand for success.
func refused(err error, want []string) error {
	switch {
	case len(want) == 0 && err != nil:
		return fmt.Errorf("refused: %w", err)
	case len(want) == 0:
		return nil
	case err == nil:
		return fmt.Errorf("accepted, want a refusal with %q", want)
	case !apierrors.IsInvalid(err):
		return fmt.Errorf("not a refusal by the schema: %w", err)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("refusal does not say %q: %w", text, err)
		}
	}
	return nil
}
