package clockwork

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// informer is an informer of the operator that tells what has reached its handlers: their queues know it then.
type informer struct {
	cache.SharedIndexInformer
	kind schema.GroupVersionKind

	mu       sync.Mutex
	handlers []*handler
}

func newInformer(scheme *runtime.Scheme) (func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer, func() []*informer) {
	var (
		mu  sync.Mutex
		all []*informer
	)
	build := func(lw cache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		kind, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			panic(fmt.Sprintf("the operator watches a kind that is not in its scheme: %v", err))
		}
		i := &informer{SharedIndexInformer: cache.NewSharedIndexInformer(lw, obj, resync, indexers), kind: kind}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, i)
		return i
	}
	return build, func() []*informer {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// AddEventHandler adds a handler.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(i.observe(h))
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, d time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.observe(h), d)
}

// AddEventHandlerWithOptions adds a handler.
func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.observe(h), o)
}

func (i *informer) observe(next cache.ResourceEventHandler) *handler {
	h := &handler{next: next, seen: map[client.ObjectKey]string{}}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, h)
	return h
}

// haveCaughtUp tells what of these objects is not as the informers of their kind, one for each namespace, and every handler have it.
// Other namespaces do not matter.
func haveCaughtUp(informers []*informer, want map[client.ObjectKey]string, namespaces []string) error {
	all := map[client.ObjectKey]string{}
	for _, i := range informers {
		stored := map[client.ObjectKey]string{}
		for _, obj := range i.GetStore().List() {
			if o, ok := obj.(client.Object); ok {
				stored[client.ObjectKeyFromObject(o)] = o.GetResourceVersion()
			}
		}
		for _, got := range i.versions() {
			if !maps.Equal(stored, got) {
				return fmt.Errorf("the operator has handled the versions %v of %s, and knows %v", got, i.kind.Kind, stored)
			}
		}
		maps.Copy(all, stored)
	}
	maps.DeleteFunc(all, func(k client.ObjectKey, _ string) bool { return !slices.Contains(namespaces, k.Namespace) })
	if !maps.Equal(want, all) {
		return fmt.Errorf("the operator knows the versions %v of %s, which has %v", all, informers[0].kind.Kind, want)
	}
	return nil
}

// seen is what the informer and all its handlers have of an object, nil where they have none. The error says that they differ.
func (i *informer) seen(k client.ObjectKey) (client.Object, error) {
	stored, ok, err := i.GetStore().GetByKey(k.String())
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", i.kind.Kind, k, err)
	}
	version := ""
	obj, _ := stored.(client.Object)
	if ok && obj != nil {
		version = obj.GetResourceVersion()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, h := range i.handlers {
		if got := h.version(k); got != version {
			return nil, fmt.Errorf("the operator has handled version %q of %s %s, and knows %q", got, i.kind.Kind, k, version)
		}
	}
	return obj, nil
}

// versions are those that each handler has seen.
func (i *informer) versions() []map[client.ObjectKey]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []map[client.ObjectKey]string
	for _, h := range i.handlers {
		h.mu.Lock()
		out = append(out, maps.Clone(h.seen))
		h.mu.Unlock()
	}
	return out
}

// handler notes what another one has handled.
type handler struct {
	next cache.ResourceEventHandler

	mu   sync.Mutex
	seen map[client.ObjectKey]string // versions
}

// version is the last one of an object that was handled; "" where there is none.
func (h *handler) version(k client.ObjectKey) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[k]
}

// OnAdd handles a new object.
func (h *handler) OnAdd(obj any, initial bool) {
	h.next.OnAdd(obj, initial)
	h.note(obj)
}

// OnUpdate handles a change.
func (h *handler) OnUpdate(before, after any) {
	h.next.OnUpdate(before, after)
	h.note(after)
}

// OnDelete handles the end of an object.
func (h *handler) OnDelete(obj any) {
	h.next.OnDelete(obj)
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if o, ok := obj.(metav1.Object); ok {
		delete(h.seen, client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetName()})
	}
}

func (h *handler) note(obj any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o, ok := obj.(metav1.Object); ok {
		h.seen[client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetName()}] = o.GetResourceVersion()
	}
}
