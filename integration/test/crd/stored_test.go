//go:build k8srequired

package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// TestStored stores objects under a schema that accepts everything, installs the shipped
// one in its place and works on them as users and operators do.
func TestStored(t *testing.T) {
	const (
		group     = "stored.keysmith.test"
		finalizer = "keysmith.test/finalizer"
	)
	tests := map[string]struct {
		spec string // what the shipped schema refuses
		// touch is a merge patch of the part that is wrong, which does not repair it.
		touch string
	}{
		"wrong Secret name":       {`{kafka: {pool: dev, secretName: Under_Score}}`, `{"kafka":{"secretName":"Other_Score"}}`},
		"no Secret name":          {`{kafka: {pool: dev}, openSearch: {instance: o}, valkey: [{instance: v}]}`, `{"kafka":{"pool":"prod"}}`},
		"no Secret for Valkey":    {`{valkey: [{instance: v}, {instance: w, secretName: w}]}`, `{"valkey":[{"instance":"v","access":"write"},{"instance":"w","secretName":"w"}]}`},
		"empty pool":              {`{kafka: {pool: "", secretName: a}}`, ``},
		"no pool":                 {`{kafka: {secretName: a}}`, `{"kafka":{"secretName":"b"}}`},
		"wrong topic":             {`{kafka: {pool: dev, secretName: a, acl: [{topic: a b}]}}`, `{"kafka":{"acl":[{"topic":"c d"}]}}`},
		"unknown access level":    {`{openSearch: {instance: o, access: superuser, secretName: a}}`, `{"openSearch":{"access":"root"}}`},
		"one instance twice":      {`{valkey: [{instance: v, secretName: a}, {instance: v, access: write, secretName: b}]}`, ``},
		"two that become one":     {`{valkey: [{instance: my-cache, secretName: a}, {instance: my_cache, secretName: a}]}`, `{"valkey":[{"instance":"my-cache","secretName":"b"},{"instance":"my_cache","secretName":"b"}]}`},
		"unreadable expiry":       {`{expiresAt: next week}`, `{"expiresAt":"next year"}`},
		"undecodable expiry":      {`{expiresAt: "2030-01-31t12:00:00z"}`, `{"expiresAt":"2031-01-31t12:00:00z"}`},
		"unreadable interval":     {`{rotation: {interval: 1 week, overlap: 1 day}}`, `{"rotation":{"interval":"2 weeks"}}`},
		"overlap over interval":   {`{rotation: {interval: 1h, overlap: 2h}}`, `{"rotation":{"overlap":"3h"}}`},
		"fields that are no more": {`{redis: [{instance: r}], influxDB: {instance: i}, userSpec: {a: b}}`, ``},
	}

	ctx := t.Context()
	c := connect(t)
	crd := lax(t, group)
	c.install(t, crd)
	names := map[string]string{}
	for name, tt := range tests {
		u := application(t, group, "v1", fmt.Sprintf("app-%d", len(names)), tt.spec)
		u.SetFinalizers([]string{finalizer})
		if err := c.Create(ctx, u); err != nil {
			t.Fatal(err)
		}
		status := `{"status":{"synchronizedSecretName":"a","conditions":[{"type":"Invented","status":"Perhaps"},{"type":"Invented","status":"True"}]}}`
		if err := c.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
			t.Fatal(err)
		}
		names[name] = u.GetName()
	}
	c.tighten(t, crd)

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			v1app := application(t, group, "v1", names[name], "")
			v2app := application(t, group, "v2", names[name], "")
			merge := func(u *unstructured.Unstructured, patch string) error {
				return c.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(patch)))
			}

			for _, u := range []*unstructured.Unstructured{v1app, v2app} {
				if err := merge(u, `{"metadata":{"labels":{"a":"`+u.GroupVersionKind().Version+`"}}}`); err != nil {
					t.Errorf("label: %v", err)
				}
				if err := merge(u, `{"metadata":{"annotations":{"operatorkit.giantswarm.io/paused":"true"}}}`); err != nil {
					t.Errorf("pause: %v", err)
				}
				if err := merge(u, `{"spec":{"protected":true}}`); err != nil {
					t.Errorf("change what is not wrong: %v", err)
				}
				if tt.touch == "" {
					continue
				}
				if err := merge(u, `{"spec":`+tt.touch+`}`); !apierrors.IsInvalid(err) {
					t.Errorf("change what is wrong: %v, want a refusal", err)
				}
			}

			// A label through server-side apply, which reads the whole stored object.
			label := application(t, group, "v2", names[name], "")
			label.SetLabels(map[string]string{"b": "c"})
			if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(label), client.FieldOwner("test")); err != nil {
				t.Errorf("apply a label: %v", err)
			}

			// The operator decodes the object, replaces the status and takes its finalizer off.
			if err := c.Get(ctx, client.ObjectKeyFromObject(v1app), v1app); err != nil {
				t.Fatal(err)
			}
			app := decode(t, v1app)
			status, err := json.Marshal(map[string]any{"status": v1.AivenApplicationStatus{
				SynchronizationState: v1.RolloutFailed,
				Conditions:           append([]v1.Condition{{Type: v1.ConditionReady, Status: "False"}}, app.Status.Conditions[:1]...),
				Bindings:             []v1.Binding{{Kind: "kafka"}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Status().Patch(ctx, v1app, client.RawPatch(types.MergePatchType, status)); err != nil {
				t.Errorf("patch the status: %v", err)
			}
			if got := decode(t, v1app).Status.SynchronizationState; got != v1.RolloutFailed {
				t.Errorf("state = %q, want %q", got, v1.RolloutFailed)
			}
			if err := c.Delete(ctx, v2app); err != nil {
				t.Errorf("delete: %v", err)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(v1app), v1app); err != nil {
				t.Fatal(err)
			}
			locked := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"finalizers":null}}`, v1app.GetResourceVersion())
			if err := merge(v1app, locked); err != nil {
				t.Errorf("remove the finalizer: %v", err)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(v1app), v1app); !apierrors.IsNotFound(err) {
				t.Errorf("get after deletion: %v, want not found", err)
			}
		})
	}
}

// TestStoredFields reads what was stored with fields that the schema no longer has.
func TestStoredFields(t *testing.T) {
	const group = "storedfields.keysmith.test"
	ctx := t.Context()
	c := connect(t)
	crd := lax(t, group)
	c.install(t, crd)
	u := application(t, group, "v1", "app", `{redis: [{instance: r}], influxDB: {instance: i}, userSpec: {a: b}, kafka: {pool: dev, secretName: a, old: 1}}`)
	if err := c.Create(ctx, u); err != nil {
		t.Fatal(err)
	}
	c.tighten(t, crd)
	if err := c.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"kafka": map[string]any{"pool": "dev", "secretName": "a"}}
	if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// decode reads an object as a typed client does.
func decode(t *testing.T, u *unstructured.Unstructured) *v1.AivenApplication {
	t.Helper()
	app := &v1.AivenApplication{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, app); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return app
}

// tighten puts the shipped schema in the place of a lax one and waits until it is in force.
func (c *cluster) tighten(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	ctx := t.Context()
	if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Fatal(err)
	}
	crd.Spec = shipped(t, crd.Spec.Group).Spec
	if err := c.Update(ctx, crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		env.Eventually(t, deadline, func(ctx context.Context) error {
			u := application(t, crd.Spec.Group, v.Name, "probe", `{rotation: {interval: never}}`)
			return refused(c.Create(ctx, u, client.DryRunAll), []string{"spec.rotation.interval"})
		})
	}
}
