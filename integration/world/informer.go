package world

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

// caughtUp tells what of these objects is not as the cache and every handler have it.
func (i *informer) caughtUp(want map[client.ObjectKey]string, in string) error {
	stored := map[client.ObjectKey]string{}
	for _, obj := range i.GetStore().List() {
		if o, ok := obj.(client.Object); ok {
			stored[client.ObjectKeyFromObject(o)] = o.GetResourceVersion()
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, got := range append(i.versions(), stored) {
		maps.DeleteFunc(got, func(k client.ObjectKey, _ string) bool { return k.Namespace != in })
		if !maps.Equal(want, got) {
			return fmt.Errorf("the operator knows the versions %v of %s, which has %v", got, i.kind.Kind, want)
		}
	}
	return nil
}

func (i *informer) versions() []map[client.ObjectKey]string {
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
