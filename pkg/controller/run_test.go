package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/giantswarm/micrologger/loggermeta"
	"github.com/giantswarm/micrologger/microloggertest"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/cachekeycontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/finalizerskeptcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/reconciliationcanceledcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/resourcecanceledcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/controller/context/updateallowedcontext"
	"github.com/giantswarm/operatorkit/v7/pkg/resource/crud"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func parseSelector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What operatorkit promises of its signals, raised by resource b of a, b and c.
func TestSignals(t *testing.T) {
	live := func() *corev1.Service { return service(finalizers(theFinalizer)) }
	gone := func() *corev1.Service { return service(finalizers(theFinalizer), deleted) }
	tests := map[string]struct {
		obj       *corev1.Service
		raise     func(context.Context)
		wantCalls []string
		wantKept  bool
	}{
		"cancelling the reconcile ends the slice": {
			obj: live(), raise: reconciliationcanceledcontext.SetCanceled,
			wantCalls: []string{"create a", "create b"}, wantKept: true,
		},
		"cancelling the reconcile of a deleted object keeps the finalizer": {
			obj: gone(), raise: reconciliationcanceledcontext.SetCanceled,
			wantCalls: []string{"delete c", "delete b"}, wantKept: true,
		},
		"cancelling the resource lets the others run": {
			obj: live(), raise: resourcecanceledcontext.SetCanceled,
			wantCalls: []string{"create a", "create b", "create c"}, wantKept: true,
		},
		"cancelling the resource of a deleted object removes the finalizer": {
			obj: gone(), raise: resourcecanceledcontext.SetCanceled,
			wantCalls: []string{"delete c", "delete b", "delete a", "patch"},
		},
		"keeping finalizers lets the others run": {
			obj: gone(), raise: finalizerskeptcontext.SetKept,
			wantCalls: []string{"delete c", "delete b", "delete a"}, wantKept: true,
		},
		"keeping finalizers means nothing to a live object": {
			obj: live(), raise: finalizerskeptcontext.SetKept,
			wantCalls: []string{"create a", "create b", "create c"}, wantKept: true,
		},
		"both together end the resource and keep the finalizer": {
			obj: gone(), raise: func(ctx context.Context) {
				finalizerskeptcontext.SetKept(ctx)
				resourcecanceledcontext.SetCanceled(ctx)
			},
			wantCalls: []string{"delete c", "delete b", "delete a"}, wantKept: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tc.obj, func(b *bed, cfg *Config[*corev1.Service]) {
				cfg.Resources = []resource.Interface{
					b.step("a", nil),
					b.step("b", func(ctx context.Context, _ resource.Operation) error {
						tc.raise(ctx)
						return nil
					}),
					b.step("c", nil),
				}
			})
			b.mustPass(t)
			if diff := cmp.Diff(tc.wantCalls, b.calls); diff != "" {
				t.Error(diff)
			}
			if kept := b.object(t) != nil; kept != tc.wantKept {
				t.Errorf("finalizer kept: got %t", kept)
			}
			if n := b.metrics(t)["errors_total{test}"]; n != 0 {
				t.Errorf("a signal is no error: got %g", n)
			}
		})
	}
}

// A failure is told, whatever else was asked for.
func TestSignalsDoNotHideAPartialError(t *testing.T) {
	for name, raise := range map[string]func(context.Context){
		"cancel the reconcile": reconciliationcanceledcontext.SetCanceled,
		"keep the finalizer":   finalizerskeptcontext.SetKept,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, service(finalizers(theFinalizer), deleted), func(b *bed, cfg *Config[*corev1.Service]) {
				cfg.Resources = []resource.Interface{b.step("a", func(ctx context.Context, _ resource.Operation) error {
					raise(ctx)
					return resource.Partial(errBoom)
				})}
			})
			if _, err := b.pass(t.Context()); !errors.Is(err, errBoom) || b.object(t) == nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Signals reach the resources of the same run, and no others, also with scopes side by side.
func TestSignalsBelongToOneRun(t *testing.T) {
	var mu sync.Mutex
	keys := map[string]string{}
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Prepare = planned(Plan{Ensure: []any{"x", "y", "z"}})
		cfg.Resources = []resource.Interface{
			b.step("a", func(ctx context.Context, _ resource.Operation) error {
				key, _ := cachekeycontext.FromContext(ctx)
				scope, _ := resource.Scope[string](ctx, nil)
				mu.Lock()
				keys[key] = scope
				mu.Unlock()
				if scope == "x" {
					updateallowedcontext.SetUpdateAllowed(ctx)
					resourcecanceledcontext.SetCanceled(ctx)
				}
				return nil
			}),
			b.step("b", func(ctx context.Context, _ resource.Operation) error {
				key, _ := cachekeycontext.FromContext(ctx)
				scope, _ := resource.Scope[string](ctx, nil)
				mu.Lock()
				defer mu.Unlock()
				if keys[key] != scope {
					return fmt.Errorf("cache key %q of %s belongs to %q", key, scope, keys[key])
				}
				if updateallowedcontext.IsUpdateAllowed(ctx) != (scope == "x") {
					return fmt.Errorf("update allowed to %s: %t", scope, scope != "x")
				}
				if resourcecanceledcontext.IsCanceled(ctx) {
					return fmt.Errorf("resource b of %s starts cancelled", scope)
				}
				return nil
			}),
		}
	})
	for range 2 {
		b.mustPass(t)
	}
	if len(keys) != 6 {
		t.Errorf("each run of each pass has a cache key of its own: got %v", keys)
	}
}

// A resource written for operatorkit: plain.
type plainResource struct{ client client.Client }

func (r *plainResource) EnsureCreated(ctx context.Context, obj any) error {
	svc := obj.(*corev1.Service)
	cm := &corev1.ConfigMap{}
	cm.Namespace, cm.Name = svc.Namespace, svc.Name
	return client.IgnoreAlreadyExists(r.client.Create(ctx, cm))
}

func (r *plainResource) EnsureDeleted(ctx context.Context, obj any) error {
	svc := obj.(*corev1.Service)
	cm := &corev1.ConfigMap{}
	cm.Namespace, cm.Name = svc.Namespace, svc.Name
	return client.IgnoreNotFound(r.client.Delete(ctx, cm))
}

func (r *plainResource) Name() string { return "plain" }

// A resource written for operatorkit: in steps.
type steppedResource struct {
	client client.Client
	labels map[string]string // that operatorkit's log lines would carry
}

func (r *steppedResource) Name() string { return "stepped" }

func (r *steppedResource) GetCurrentState(ctx context.Context, obj any) (any, error) {
	if meta, ok := loggermeta.FromContext(ctx); ok {
		r.labels = maps.Clone(meta.KeyVals)
	}
	svc := obj.(*corev1.Service)
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(svc), secret)
	if apierrors.IsNotFound(err) {
		if svc.DeletionTimestamp != nil {
			resourcecanceledcontext.SetCanceled(ctx) // there is nothing left to delete
		}
		return (*corev1.Secret)(nil), nil
	}
	return secret, err
}

func (r *steppedResource) GetDesiredState(_ context.Context, obj any) (any, error) {
	svc := obj.(*corev1.Service)
	secret := &corev1.Secret{StringData: map[string]string{"host": svc.Spec.ExternalName}}
	secret.Namespace, secret.Name = svc.Namespace, svc.Name
	return secret, nil
}

func (r *steppedResource) NewUpdatePatch(_ context.Context, _, current, desired any) (*crud.Patch, error) {
	patch := crud.NewPatch()
	if current.(*corev1.Secret) == nil {
		patch.SetCreateChange(desired)
	}
	return patch, nil
}

func (r *steppedResource) NewDeletePatch(_ context.Context, _, current, _ any) (*crud.Patch, error) {
	patch := crud.NewPatch()
	patch.SetDeleteChange(current)
	return patch, nil
}

func (r *steppedResource) ApplyCreateChange(ctx context.Context, _, change any) error {
	return r.client.Create(ctx, change.(*corev1.Secret))
}

func (r *steppedResource) ApplyDeleteChange(ctx context.Context, _, change any) error {
	return r.client.Delete(ctx, change.(*corev1.Secret))
}

func (r *steppedResource) ApplyUpdateChange(context.Context, any, any) error {
	return nil
}

func TestOperatorkitResourcesRunUnchanged(t *testing.T) {
	tests := map[string][]resource.Middleware{
		"as they are": nil,
		"wrapped":     {middleware.Logging(nil), middleware.Retry(nil, nil)},
	}
	for name, ms := range tests {
		t.Run(name, func(t *testing.T) {
			var stepped *steppedResource
			b := newBed(t, service(), func(b *bed, cfg *Config[*corev1.Service]) {
				stepped = &steppedResource{client: b.client}
				inSteps, err := crud.NewResource(crud.ResourceConfig{CRUD: stepped, Logger: microloggertest.New()})
				if err != nil {
					t.Fatal(err)
				}
				cfg.Resources = resource.Wrap([]resource.Interface{&plainResource{b.client}, inSteps}, ms...)
			})
			exist := func() []bool {
				return []bool{
					b.client.Get(t.Context(), theKey, &corev1.ConfigMap{}) == nil,
					b.client.Get(t.Context(), theKey, &corev1.Secret{}) == nil,
				}
			}
			b.mustPass(t)
			b.mustPass(t)
			if diff := cmp.Diff([]bool{true, true}, exist()); diff != "" {
				t.Errorf("created: %s", diff)
			}
			wantLabels := map[string]string{
				"controller": "test", "event": "update", "function": "GetCurrentState", "loop": "2", "object": "ns/svc", "resource": "stepped",
			}
			if diff := cmp.Diff(wantLabels, stepped.labels); diff != "" {
				t.Errorf("log labels: %s", diff)
			}
			if err := b.client.Delete(t.Context(), service()); err != nil {
				t.Fatal(err)
			}
			b.mustPass(t)
			if diff := cmp.Diff([]bool{false, false}, exist()); diff != "" {
				t.Errorf("deleted: %s", diff)
			}
			if b.object(t) != nil {
				t.Error("the finalizer is still there")
			}
		})
	}
}

// An operatorkit resource may write the status itself, on the object that it was given.
func TestResourceThatWritesTheObject(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer), deleted), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Report = func(*corev1.Service, []resource.Result) {}
		cfg.Resources = []resource.Interface{resource.Adapt(writer{b.client}, resource.Object[*corev1.Service])}
	})
	b.mustPass(t)
	if diff := cmp.Diff([]string{"patch"}, b.calls); diff != "" {
		t.Errorf("the controller writes nothing but the finalizer: %s", diff)
	}
	if b.object(t) != nil {
		t.Error("the finalizer is still there")
	}
}

type writer struct{ client client.Client }

func (w writer) EnsureCreated(context.Context, *corev1.Service) error { return nil }

func (w writer) EnsureDeleted(ctx context.Context, s *corev1.Service) error {
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	return w.client.Status().Update(ctx, s)
}

func (w writer) Name() string { return "writer" }
