//go:build k8srequired

// Package watch shows that a change of an object that is owned by another one, or related to it in a way that the operator's author defines, leads
// to the other's reconciliation, and to nobody else's.
package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// made has our finalizer already, so that the controller does not write it: there is one event of its creation, and no other.
func made(name string, edit ...func(*corev1.Secret)) *corev1.Secret {
	return counting.Secret(name, append(edit, func(s *corev1.Secret) { s.Finalizers = []string{controller.Finalizer("watch")} })...)
}

// child keeps a ConfigMap for each object, of the same name and owned by it.
func child(bed *counting.Bed) *counting.Resource {
	return counting.Named("child").Do(func(ctx context.Context, op resource.Operation, obj client.Object) error {
		if op == resource.Delete {
			return nil // the garbage collector does it
		}
		cm := configMap(obj.GetName())
		cm.Namespace = obj.GetNamespace()
		_, err := controllerutil.CreateOrUpdate(ctx, bed, cm, func() error {
			cm.Data = map[string]string{"for": obj.GetName()}
			return controllerutil.SetControllerReference(obj, cm, bed.Scheme())
		})
		return err
	})
}

// kept waits until the ConfigMap is as the resource wants it, and another one than that of the UID. It returns its UID.
func kept(bed *counting.Bed, name string, not types.UID) types.UID {
	cm := configMap(name)
	bed.Eventually(func(ctx context.Context) error {
		if err := bed.Get(ctx, bed.Key(name), cm); err != nil {
			return err
		}
		if cm.UID == not {
			return errors.New("the old one is still there")
		}
		if diff := cmp.Diff(map[string]string{"for": name}, cm.Data); diff != "" {
			return fmt.Errorf("data of %s: (-want +got)\n%s", name, diff)
		}
		return nil
	})
	return cm.UID
}

func TestOwnedObjectIsKept(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := child(bed)
	cfg := counting.Secrets("watch", r) // without a resync
	cfg.Watch = func(b *builder.Builder) { b.Owns(&corev1.ConfigMap{}) }
	op := bed.Start(counting.Controller(cfg))
	bed.Make(made("cart"), made("quiet"))
	kept(bed, "quiet", "")
	uid := kept(bed, "cart", "")

	for range 3 {
		bed.Remove(configMap("cart"))
		uid = kept(bed, "cart", uid)
	}
	counting.Change(bed, configMap("cart"), func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"for": "somebody else"} })
	kept(bed, "cart", "")
	bed.Make(configMap("free")) // nobody's
	counting.Change(bed, configMap("free"), func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"for": "cart"} })

	bed.Remove(counting.Secret("cart"))
	bed.Gone(counting.Secret("cart"))
	bed.Gone(configMap("cart"))
	// The other object was reconciled for its own creation and for that of its ConfigMap.
	if n := r.Created("quiet"); n > 2 {
		t.Errorf("%d passes of an object of which nothing changed", n)
	}
	op.Healthy()
}

// users is the annotation of a ConfigMap that names the Secrets which are made from it.
const users = "example.com/used-by"

// related finds the Secrets that a ConfigMap has to do with.
func related(_ context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for name := range strings.FieldsSeq(obj.GetAnnotations()[users]) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}})
	}
	return requests
}

func TestRelatedObjectLeadsToItsUsers(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	r := counting.Named("counter")
	cfg := counting.Secrets("watch", r)
	cfg.Selector = labels.SelectorFromSet(labels.Set{"ours": "yes"})
	cfg.Watch = func(b *builder.Builder) { b.Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(related)) }
	op := bed.Start(counting.Controller(cfg))
	ours := func(s *corev1.Secret) { s.Labels = map[string]string{"ours": "yes"} }
	stopped := func(s *corev1.Secret) { s.Annotations = map[string]string{"operatorkit.giantswarm.io/paused": "true"} }
	bed.Make(made("cart", ours), made("till", ours), made("quiet", ours), made("paused", ours, stopped), counting.Secret("foreign"))
	again := func(did string, change func()) {
		t.Helper()
		cart, till := r.Created("cart"), r.Created("till")
		change()
		bed.AtLeast(cart+1, "creations of cart after the settings were "+did, func() int { return r.Created("cart") })
		bed.AtLeast(till+1, "creations of till after the settings were "+did, func() int { return r.Created("till") })
	}
	bed.AtLeast(3, "creations", func() int { return r.Created("cart", "till", "quiet") })

	settings := configMap("settings")
	settings.Annotations = map[string]string{users: "cart till paused foreign missing"}
	again("made", func() { bed.Make(settings) })
	for i := range 5 {
		again("changed", func() {
			counting.Change(bed, settings, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"version": fmt.Sprint(i)} })
		})
	}
	again("deleted", func() { bed.Remove(settings) })

	if n := r.Created("quiet"); n != 1 {
		t.Errorf("%d passes of an object that has nothing to do with the settings, want that of its creation", n)
	}
	if n := r.Created("paused", "foreign", "missing") + r.Deleted(); n != 0 {
		t.Errorf("%d calls for objects that are paused, not ours or not there", n)
	}
	bed.Finalizers(counting.Secret("foreign"))
	op.Healthy()
}
