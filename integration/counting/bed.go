package counting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
)

// Deadline is how long conditions are waited for. It is generous: machines that run tests are slow at times.
const Deadline = 90 * time.Second

// Grace is how long a test may hold a pass of an operator that stops, as its Config.Grace. Managers wait a little longer.
const Grace = time.Minute

// Bed is the namespace of one test, and what tests do there.
type Bed struct {
	client.WithWatch // reads from the API server; knows Kubernetes' own kinds

	Namespace string

	t     testing.TB
	at    *rest.Config // of the cluster
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]bool
}

var quiet = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) }) // controller-runtime complains where nobody does

// New makes a bed. At the end of the test, after its operators, all that is in the namespace goes. More kinds than Kubernetes' own are added
// by the functions.
func New(t testing.TB, more ...func(*runtime.Scheme) error) *Bed {
	t.Helper()
	return NewAt(t, env.Config(t), more...)
}

// NewAt is New in another cluster than that of the tests.
func NewAt(t testing.TB, cluster *rest.Config, more ...func(*runtime.Scheme) error) *Bed {
	t.Helper()
	quiet()
	scheme := runtime.NewScheme()
	for _, add := range append(more, clientgoscheme.AddToScheme) {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return newBed(t, cluster, scheme)
}

// Neighbour makes another bed, for operators of b that see both namespaces. It is made before they start.
func (b *Bed) Neighbour() *Bed {
	b.t.Helper()
	n := newBed(b.t, b.at, b.Scheme())
	n.kinds = b.kinds // is read when the operators are gone
	return n
}

func newBed(t testing.TB, cluster *rest.Config, scheme *runtime.Scheme) *Bed {
	t.Helper()
	api, err := client.NewWithWatch(cluster, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("connect to the cluster: %v", err)
	}
	b := &Bed{WithWatch: api, t: t, at: cluster, kinds: map[schema.GroupVersionKind]bool{}}
	b.Namespace = env.Namespace(t, b)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own is over
		defer cancel()
		if err := b.release(ctx); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return b
}

// Secret is a Secret to be made. Tests use Secrets, because nobody else makes them in a new namespace.
func Secret(name string, edit ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range edit {
		f(s)
	}
	return s
}

// Key is the key of an object in the bed's namespace.
func (b *Bed) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: b.Namespace, Name: name}
}

// Make creates objects in the bed's namespace.
func (b *Bed) Make(objs ...client.Object) {
	b.t.Helper()
	for _, obj := range objs {
		obj.SetNamespace(b.Namespace)
		if err := b.Create(b.t.Context(), obj); err != nil {
			b.t.Fatalf("create %s: %v", obj.GetName(), err)
		}
	}
}

// Read reads obj, of which the name is used, anew.
func (b *Bed) Read(obj client.Object) {
	b.t.Helper()
	if err := b.Get(b.t.Context(), b.Key(obj.GetName()), obj); err != nil {
		b.t.Fatalf("read %s: %v", obj.GetName(), err)
	}
}

// Remove deletes obj, of which the name is used, and does not wait until it is gone.
func (b *Bed) Remove(obj client.Object) {
	b.t.Helper()
	obj.SetNamespace(b.Namespace)
	if err := b.Delete(b.t.Context(), obj); err != nil {
		b.t.Fatalf("delete %s: %v", obj.GetName(), err)
	}
}

// Change reads obj, of which the name is used, edits it and writes it, again if somebody else was faster.
func Change[T client.Object](b *Bed, obj T, edit func(T)) {
	b.t.Helper()
	b.Eventually(func(ctx context.Context) error {
		if err := b.Get(ctx, b.Key(obj.GetName()), obj); err != nil {
			return err
		}
		edit(obj)
		return b.Update(ctx, obj)
	})
}

// Config returns the configuration of a client of the bed's cluster, to be changed at will. See StartAs.
func (b *Bed) Config() *rest.Config { return rest.CopyConfig(b.at) }

// Annotate sets an annotation of an object, and removes it if the value is "".
func (b *Bed) Annotate(obj client.Object, name, value string) {
	b.t.Helper()
	Change(b, obj, func(obj client.Object) {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[name] = value
		if value == "" {
			delete(annotations, name)
		}
		obj.SetAnnotations(annotations)
	})
}

// Gone waits until an object is gone.
func (b *Bed) Gone(obj client.Object) {
	b.t.Helper()
	b.Eventually(func(ctx context.Context) error {
		err := b.Get(ctx, b.Key(obj.GetName()), obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("%s is still there, with finalizers %v", obj.GetName(), obj.GetFinalizers()))
	})
}

// Finalizers waits until an object has these finalizers, in any order, and no others.
func (b *Bed) Finalizers(obj client.Object, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	b.Eventually(func(ctx context.Context) error {
		if err := b.Get(ctx, b.Key(obj.GetName()), obj); err != nil {
			return err
		}
		if got := slices.Sorted(slices.Values(obj.GetFinalizers())); !slices.Equal(want, got) {
			return fmt.Errorf("finalizers of %s: (-want +got)\n%s", obj.GetName(), cmp.Diff(want, got))
		}
		return nil
	})
}

// Events returns the events about the objects of that name in the bed's namespace.
func (b *Bed) Events(ctx context.Context, name string) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := b.List(ctx, &list, client.InNamespace(b.Namespace)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Name != name }), nil
}

// Event waits until the events about the objects of that name are these, in any order, each "Type Reason note" and told once.
func (b *Bed) Event(name string, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	b.Eventually(func(ctx context.Context) error {
		events, err := b.Events(ctx, name)
		if err != nil {
			return err
		}
		var got []string
		for _, e := range events {
			text := e.Type + " " + e.Reason + " " + e.Note
			if e.Series != nil {
				text += fmt.Sprintf(" (%d times)", e.Series.Count)
			}
			got = append(got, text)
		}
		slices.Sort(got)
		if !slices.Equal(want, got) {
			return fmt.Errorf("events about %s: (-want +got)\n%s", name, cmp.Diff(want, got))
		}
		return nil
	})
}

// AtLeast waits until a count has reached want. what names what is counted.
func (b *Bed) AtLeast(want int, what string, count func() int) {
	b.t.Helper()
	b.Eventually(func(context.Context) error {
		if got := count(); got < want {
			return fmt.Errorf("%d %s, want at least %d", got, what, want)
		}
		return nil
	})
}

// Eventually waits until check returns nil.
func (b *Bed) Eventually(check func(ctx context.Context) error) {
	b.t.Helper()
	env.Eventually(b.t, Deadline, check)
}

func partialList(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}
