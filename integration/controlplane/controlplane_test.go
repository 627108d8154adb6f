package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/controlplane"
	"github.com/keysmith-io/keysmith/integration/env"
)

// deadline is how long anything may take in the cluster, on a machine that is busy with other things.
const deadline = 2 * time.Minute

// TestControlPlane goes through the life of one control plane.
func TestControlPlane(t *testing.T) {
	if err := controlplane.Cached(); err != nil {
		if testing.Short() {
			t.Skipf("NOT TESTED, because of -short: the control plane has to be built first: %v", err)
		}
		if end, ok := t.Deadline(); ok && time.Until(end) < 30*time.Minute {
			t.Skipf("NOT TESTED, because -timeout is too short to build the control plane first: go run ./integration/controlplane/cmd/controlplane -- true\n%v", err)
		}
	}
	ctrl.SetLogger(logr.Discard())
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	crds := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(crds, []byte(widgets), 0o644); err != nil {
		t.Fatal(err)
	}

	start := time.Now()
	c, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{crds}, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	running := true
	defer func() {
		if running {
			_ = c.Stop()
		}
	}()
	t.Logf("started in %s", time.Since(start))
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	t.Run("it serves the resources", func(t *testing.T) {
		ns := env.Namespace(t, api)
		for _, kind := range []schema.GroupVersionKind{
			{Group: "aiven.io", Version: "v1alpha1", Kind: "OpenSearch"},
			{Group: "aiven.io", Version: "v1alpha1", Kind: "Valkey"},
			{Group: "example.com", Version: "v1", Kind: "Widget"},
		} {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"plan": "startup-4", "cloudName": "google-europe-north1"}}}
			u.SetGroupVersionKind(kind)
			u.SetNamespace(ns)
			u.SetName("one")
			if err := api.Create(t.Context(), u); err != nil {
				t.Errorf("create a %s: %v", kind.Kind, err)
				continue
			}
			u.Object["status"] = map[string]any{"state": "RUNNING"}
			if err := api.Status().Update(t.Context(), u); err != nil {
				t.Errorf("update the status of a %s: %v", kind.Kind, err)
				continue
			}
			want := map[string]any{
				"spec":   map[string]any{"plan": "startup-4", "cloudName": "google-europe-north1"},
				"status": map[string]any{"state": "RUNNING"},
			}
			got := map[string]any{"spec": u.Object["spec"], "status": u.Object["status"]}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", kind.Kind, diff)
			}
		}
	})

	t.Run("it makes pods of a Deployment, and empties and removes a namespace", func(t *testing.T) {
		ns := env.Namespace(t, api)
		start := time.Now()
		deploy(t, api, ns)
		t.Logf("pods after %s", time.Since(start))
		start = time.Now()
		remove(t, api, ns)
		t.Logf("namespace removed after %s", time.Since(start))
	})

	t.Run("it removes an empty namespace", func(t *testing.T) {
		ns := env.Namespace(t, api)
		start := time.Now()
		remove(t, api, ns)
		t.Logf("namespace removed after %s", time.Since(start))
	})

	t.Run("it survives an outage of the API server", func(t *testing.T) {
		ns := env.Namespace(t, api)
		start := time.Now()
		if err := c.StopAPIServer(); err != nil {
			t.Fatal(err)
		}
		t.Logf("API server stopped in %s", time.Since(start))
		if err := api.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}); err == nil {
			t.Error("the API server still answers")
		}
		start = time.Now()
		if err := c.StartAPIServer(); err != nil {
			t.Fatal(err)
		}
		t.Logf("API server is back after %s", time.Since(start))
		deploy(t, api, ns)
		remove(t, api, ns)
	})

	t.Run("it does not replace a definition of Aiven's operator", func(t *testing.T) {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName("valkeys.aiven.io")
		mark := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"names":{"shortNames":["vk"]}}}`))
		if err := api.Patch(t.Context(), crd, mark); err != nil {
			t.Fatal(err)
		}
		if err := controlplane.InstallCRDs(t.Context(), c.Config(), []string{crds}); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			t.Fatal(err)
		}
		got, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "shortNames")
		if diff := cmp.Diff([]string{"vk"}, got); diff != "" {
			t.Errorf("short names (-want +got):\n%s", diff)
		}
	})

	t.Run("it leaves nothing behind", func(t *testing.T) {
		start := time.Now()
		running = false
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		t.Logf("stopped in %s", time.Since(start))
		left, err := os.ReadDir(temp)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("%s is left in the temporary folder", left[0].Name())
		}
	})
}

// deploy creates a Deployment and waits for its pod.
func deploy(t *testing.T, api client.Client, ns string) {
	t.Helper()
	app := map[string]string{"app": "one"}
	if err := api.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "example.com/one:1"}}},
			},
		},
	}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, deadline, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := api.List(ctx, pods, client.InNamespace(ns)); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("%d pods, want one", len(pods.Items))
		}
		return nil
	})
}

// remove deletes a namespace and waits until it is gone.
func remove(t *testing.T, api client.Client, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := api.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, deadline, func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("namespace %s is %s", name, ns.Status.Phase), err)
	})
}

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
