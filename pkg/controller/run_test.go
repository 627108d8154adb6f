package controller_test

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// What operatorkit promises of its signals, raised by resource b of a, b and c.
func TestSignals(t *testing.T) {
	raise := func(signals ...func(context.Context)) func(*bed, *config) {
		return inB(func(ctx context.Context, _ string) error {
			for _, signal := range signals {
				signal(ctx)
			}
			return nil
		})
	}
	forwards, backwards := []string{"create a", "create b", "create c"}, []string{"delete c", "delete b", "delete a"}
	suite(nil).Run(t, tests{
		"cancelling the reconcile ends the slice": {
			Object: service(finalizers(own)), Configure: raise(reconciliationcanceledcontext.SetCanceled),
			Want: want{Outcome: resource.Waiting, Journal: forwards[:2], Check: noErrors},
		},
		"cancelling the reconcile of a deleted object keeps the finalizer": {
			Object: service(), Deleted: true, Configure: raise(reconciliationcanceledcontext.SetCanceled),
			Want: want{Outcome: resource.Waiting, Journal: backwards[:2], Check: noErrors},
		},
		"cancelling the resource lets the others run": {
			Object: service(finalizers(own)), Configure: raise(resourcecanceledcontext.SetCanceled),
			Want: want{Journal: forwards, Check: noErrors},
		},
		"cancelling the resource of a deleted object removes the finalizer": {
			Object: service(), Deleted: true, Configure: raise(resourcecanceledcontext.SetCanceled),
			Want: want{Gone: true, Journal: append(backwards[:3:3], patch), Check: noErrors},
		},
		"keeping finalizers lets the others run": {
			Object: service(), Deleted: true, Configure: raise(finalizerskeptcontext.SetKept),
			Want: want{Outcome: resource.Waiting, Journal: backwards, Check: noErrors},
		},
		"keeping finalizers means nothing to a live object": {
			Object: service(finalizers(own)), Configure: raise(finalizerskeptcontext.SetKept),
			Want: want{Journal: forwards, Check: noErrors},
		},
		"both together end the resource and keep the finalizer": {
			Object: service(), Deleted: true, Configure: raise(finalizerskeptcontext.SetKept, resourcecanceledcontext.SetCanceled),
			Want: want{Outcome: resource.Waiting, Journal: backwards, Check: noErrors},
		},
	})
}

// A failure is told, whatever else was asked for.
func TestSignalsDoNotHideAPartialError(t *testing.T) {
	raise := func(signal func(context.Context)) func(*bed, *config) {
		return inA(func(ctx context.Context, _ string) error {
			signal(ctx)
			return resource.Partial(errBoom)
		})
	}
	suite(nil).Run(t, tests{
		"is told though the reconcile was cancelled": {
			Object: service(), Deleted: true, Configure: raise(reconciliationcanceledcontext.SetCanceled),
			Want: want{Outcome: resource.Failed, Error: "boom"},
		},
		"is told though the finalizer was to be kept": {
			Object: service(), Deleted: true, Configure: raise(finalizerskeptcontext.SetKept),
			Want: want{Outcome: resource.Failed, Error: "boom"},
		},
	})
}

// Signals reach the resources of the same run, and no others, also with scopes side by side.
func TestSignalsBelongToOneRun(t *testing.T) {
	var mu sync.Mutex
	keys := map[string]string{} // to scopes
	raise := func(ctx context.Context, scope string) error {
		key, _ := cachekeycontext.FromContext(ctx)
		mu.Lock()
		keys[key] = scope
		mu.Unlock()
		if scope == "x" {
			updateallowedcontext.SetUpdateAllowed(ctx)
			resourcecanceledcontext.SetCanceled(ctx)
		}
		return nil
	}
	see := func(ctx context.Context, scope string) error {
		key, _ := cachekeycontext.FromContext(ctx)
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
	}
	suite(nil).Run(t, tests{"each run of each pass has its own": {
		Object: service(), Plan: &controller.Plan{Ensure: []any{"x", "y", "z"}}, Passes: 2,
		Configure: func(b *bed, cfg *config) {
			cfg.Resources = []resource.Interface{step{b, "a", raise}, step{b, "b", see}}
		},
		Want: want{Check: func(b *bed) {
			noErrors(b)
			if len(keys) != 6 {
				b.T.Errorf("cache keys: got %v", keys)
			}
		}},
	}})
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
	made := []client.Object{
		&corev1.ConfigMap{ObjectMeta: service().ObjectMeta},
		&corev1.Secret{ObjectMeta: service().ObjectMeta, StringData: map[string]string{"host": ""}},
	}
	for name, ms := range map[string][]resource.Middleware{
		"as they are": nil,
		"wrapped":     {middleware.Logging(nil), middleware.Retry(nil, nil)},
	} {
		var stepped *steppedResource
		s := suite(func(b *bed, cfg *config) {
			stepped = &steppedResource{client: b.Client}
			inSteps, err := crud.NewResource(crud.ResourceConfig{CRUD: stepped, Logger: microloggertest.New()})
			if err != nil {
				b.T.Fatal(err)
			}
			cfg.Resources = resource.Wrap([]resource.Interface{&plainResource{b.Client}, inSteps}, ms...)
		})
		t.Run(name, func(t *testing.T) {
			s.Run(t, tests{
				"create": {
					Object: service(), Passes: 2,
					Want: want{Objects: made, Check: func(b *bed) {
						labels := map[string]string{
							"controller": "test", "event": "update", "function": "GetCurrentState", "loop": "2", "object": "ns/svc", "resource": "stepped",
						}
						if stepped.labels["version"] == "" {
							b.T.Error("log labels: there is no version")
						}
						delete(stepped.labels, "version")
						if diff := cmp.Diff(labels, stepped.labels); diff != "" {
							b.T.Errorf("log labels (-want +got):\n%s", diff)
						}
					}},
				},
				"delete": {
					Object: service(), Deleted: true, Given: made,
					Want: want{Gone: true, Absent: made},
				},
			})
		})
	}
}

// An operatorkit resource may write the status itself, on the object that it was given.
func TestResourceThatWritesTheObject(t *testing.T) {
	suite(nil).Run(t, tests{"leaves the controller nothing to write but the finalizer": {
		Object: service(), Deleted: true,
		Configure: func(b *bed, cfg *config) {
			cfg.Report = func(*corev1.Service, []resource.Result) {}
			cfg.Resources = []resource.Interface{resource.Adapt(writer{b.Client}, resource.Object[*corev1.Service])}
		},
		Want: want{Gone: true, Journal: []string{"update status Service ns/svc", patch}},
	}})
}

type writer struct{ client client.Client }

func (w writer) EnsureCreated(context.Context, *corev1.Service) error { return nil }

func (w writer) EnsureDeleted(ctx context.Context, s *corev1.Service) error {
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	return w.client.Status().Update(ctx, s)
}

func (w writer) Name() string { return "writer" }
