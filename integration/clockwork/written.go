package clockwork

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// written is what an operator has written and its caches may not have seen yet. To ask it costs nothing, other than the API server. It knows the calls
// that the operator makes.
type written struct {
	mu   sync.Mutex
	last map[object]write
}

// object is what was written.
type object struct {
	kind string
	key  client.ObjectKey
}

// write is the state of an object after a write.
type write struct {
	uid     types.UID
	version uint64
	deleted bool // it has been deleted, and may still be there, held by finalizers
	gone    bool // its last finalizer has been removed after that
}

func newWritten() *written { return &written{last: map[object]write{}} }

// client makes the client of an operator, which takes note of what is written.
func (w *written) client(config *rest.Config, options client.Options) (client.Client, error) {
	next, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(next, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return w.note(c, obj, c.Create(ctx, obj, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return w.note(c, obj, c.Update(ctx, obj, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return w.note(c, obj, c.Patch(ctx, obj, patch, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.note(c, obj, c.SubResource(name).Patch(ctx, obj, patch, opts...))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return w.note(c, obj, c.SubResource(name).Update(ctx, obj, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			err := c.Delete(ctx, obj, opts...)
			if err == nil {
				w.set(c, obj, write{uid: obj.GetUID(), deleted: true})
			}
			return err
		},
	}), nil
}

// note takes note of a write unless it failed.
func (w *written) note(c client.Client, obj client.Object, err error) error {
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("read the version of %s: %w", obj.GetName(), err)
	}
	w.set(c, obj, write{
		uid: obj.GetUID(), version: version, gone: !obj.GetDeletionTimestamp().IsZero() && len(obj.GetFinalizers()) == 0,
	})
	return nil
}

func (w *written) set(c client.Client, obj client.Object, is write) {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return // the write would have failed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[object{gvk.Kind, client.ObjectKeyFromObject(obj)}] = is
}

// caughtUp tells what the informers and their handlers have not seen yet, and forgets the rest.
func (w *written) caughtUp(informers []*informer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for o, is := range w.last {
		for _, i := range informers {
			if i.kind.Kind != o.kind {
				continue
			}
			switch obj, err := i.seen(o.key); {
			case err != nil:
				return err
			case is.isIn(obj):
				delete(w.last, o)
			}
		}
		if _, open := w.last[o]; open {
			return fmt.Errorf("the operator does not know yet what it has written to %s %s", o.kind, o.key)
		}
	}
	return nil
}

// isIn tells whether a write can be seen in an object as a cache has it, nil where it has none.
func (is write) isIn(obj client.Object) bool {
	if obj == nil {
		return is.deleted || is.gone
	}
	version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	switch {
	case err != nil:
		return false
	case obj.GetUID() != is.uid:
		return (is.deleted || is.gone) && version > is.version
	case is.gone:
		return false
	case is.deleted:
		return !obj.GetDeletionTimestamp().IsZero()
	default:
		return version >= is.version
	}
}
