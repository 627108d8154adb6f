package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// The kinds of objects that the operator writes. All others are read past the record.
const (
	kindApplication = "AivenApplication"
	kindSecret      = "Secret"
)

// id names an object of one of these kinds.
type id struct {
	kind string
	client.ObjectKey
}

func idOf(obj client.Object) id { return id{kindOf(obj), client.ObjectKeyFromObject(obj)} }

func kindOf(obj client.Object) string {
	switch o := obj.(type) {
	case *v1.AivenApplication:
		return kindApplication
	case *corev1.Secret:
		return kindSecret
	case *metav1.PartialObjectMetadata:
		return o.Kind
	default:
		return ""
	}
}

// get reads an object as it would be by now.
func (r *record) get(ctx context.Context, from client.Reader, at client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	name := id{kindOf(obj), at}
	r.mu.Lock()
	is, ok := r.objects[name]
	r.mu.Unlock()
	switch {
	case !ok:
		return from.Get(ctx, at, obj, opts...)
	case is == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: name.kind}, at.Name)
	}
	copyTo(obj, is)
	return nil
}

// copyTo makes dst what src is, as far as dst has room.
func copyTo(dst, src client.Object) {
	src = src.DeepCopyObject().(client.Object)
	switch to := dst.(type) {
	case *v1.AivenApplication:
		*to = *src.(*v1.AivenApplication)
	case *corev1.Secret:
		*to = *src.(*corev1.Secret)
	case *metav1.PartialObjectMetadata:
		switch from := src.(type) {
		case *v1.AivenApplication:
			to.ObjectMeta = from.ObjectMeta
		case *corev1.Secret:
			to.ObjectMeta = from.ObjectMeta
		}
	}
}

// list reads objects as they would be by now. A Secret that would be new is in no list: nobody looks for it there.
func (r *record) list(ctx context.Context, from client.Reader, list client.ObjectList, opts ...client.ListOption) error {
	if err := from.List(ctx, list, opts...); err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch l := list.(type) {
	case *v1.AivenApplicationList:
		l.Items = current(r, l.Items, o, func(a *v1.AivenApplication) client.Object { return a })
		l.Items = append(l.Items, r.found(l.Items, o)...)
	case *corev1.SecretList:
		l.Items = current(r, l.Items, o, func(s *corev1.Secret) client.Object { return s })
	}
	return nil
}

// current puts what was written in the place of what was read. The caller holds the lock.
func current[T any](r *record, items []T, o client.ListOptions, object func(*T) client.Object) []T {
	out := items[:0] // a list's items are its own, even where what they point to is the cache's
	for i := range items {
		obj := object(&items[i])
		is, ok := r.objects[idOf(obj)]
		switch {
		case ok && is == nil, ok && !r.matches(is, o):
			continue
		case ok:
			copyTo(obj, is)
		}
		out = append(out, items[i])
	}
	return out
}

// found are the applications that match by now what a list asks for, and that the cache does not find yet. The caller holds the lock.
func (r *record) found(known []v1.AivenApplication, o client.ListOptions) []v1.AivenApplication {
	if o.FieldSelector == nil {
		return nil // the list has all
	}
	var out []v1.AivenApplication
	for _, obj := range r.objects {
		app, ok := obj.(*v1.AivenApplication)
		if !ok || o.Namespace != "" && app.Namespace != o.Namespace || !r.matches(app, o) {
			continue
		}
		same := func(a v1.AivenApplication) bool { return a.Namespace == app.Namespace && a.Name == app.Name }
		if !slices.ContainsFunc(known, same) {
			out = append(out, *app.DeepCopy())
		}
	}
	return out
}

// matches tells whether an object is under the indexed fields that a list asks for.
func (r *record) matches(obj client.Object, o client.ListOptions) bool {
	if o.FieldSelector == nil {
		return true
	}
	for _, field := range o.FieldSelector.Requirements() {
		if index, ok := r.indexes[field.Field]; ok && !slices.Contains(index(obj), field.Value) {
			return false
		}
	}
	return true
}

// server reads from the API server.
type server struct {
	client.Reader
	*record
}

// Get reads an object.
func (s *server) Get(ctx context.Context, at client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return s.get(ctx, s.Reader, at, obj, opts...)
}

// List reads objects.
func (s *server) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return s.list(ctx, s.Reader, list, opts...)
}

// cluster reads from the cache, and keeps what is written to itself. What the operator does not use goes through to a client
// that must refuse it.
type cluster struct {
	client.Client
	server *server
	*record
}

// Get reads an object.
func (c *cluster) Get(ctx context.Context, at client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.get(ctx, c.Client, at, obj, opts...)
}

// List reads objects.
func (c *cluster) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.list(ctx, c.Client, list, opts...)
}

// Create notes a new object.
func (c *cluster) Create(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
	there := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kindOf(obj)}}
	err := c.server.Get(ctx, client.ObjectKeyFromObject(obj), there)
	switch {
	case err == nil:
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: kindOf(obj)}, obj.GetName())
	case !apierrors.IsNotFound(err):
		return err
	}
	c.store(idOf(obj), obj)
	c.add(ctx, idOf(obj), Step{Action: Create, Kind: kindOf(obj), Name: obj.GetName(), Changes: differences(nil, obj)})
	return nil
}

// Patch notes a change of an object, and answers what it would then be. Its lock always holds: nobody else writes here.
func (c *cluster) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	before, after, err := c.patched(ctx, obj, patch)
	if err != nil {
		return err
	}
	copyTo(obj, after)
	at := idOf(obj)
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		c.gone(ctx, at)
		return nil
	}
	c.store(at, after)
	if changes := differences(before, after); len(changes) > 0 {
		c.add(ctx, at, Step{Action: Update, Kind: at.kind, Name: at.Name, Changes: changes})
	}
	return nil
}

// patched returns an object before and after a patch.
func (c *cluster) patched(ctx context.Context, obj client.Object, patch client.Patch) (before, after client.Object, err error) {
	data, err := patch.Data(obj)
	if err != nil {
		return nil, nil, err
	}
	if before, err = c.latest(ctx, obj); err != nil {
		return nil, nil, err
	}
	after = empty(obj)
	raw, err := json.Marshal(before)
	if err == nil {
		raw, err = apply(patch.Type(), raw, data)
	}
	if err == nil {
		err = json.Unmarshal(raw, after)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("patch %s %s: %w", kindOf(obj), obj.GetName(), err)
	}
	after.SetResourceVersion(before.GetResourceVersion())
	return before, after, nil
}

// latest reads an object where it is: the cache has managed Secrets only.
func (c *cluster) latest(ctx context.Context, obj client.Object) (client.Object, error) {
	at, is := client.ObjectKeyFromObject(obj), empty(obj)
	err := c.Get(ctx, at, is)
	if apierrors.IsNotFound(err) {
		err = c.server.Get(ctx, at, is)
	}
	return is, err
}

// empty is an object of the same type.
func empty(obj client.Object) client.Object {
	if _, ok := obj.(*v1.AivenApplication); ok {
		return &v1.AivenApplication{}
	}
	return &corev1.Secret{}
}

// apply patches as the API server does.
func apply(kind types.PatchType, doc, patch []byte) ([]byte, error) {
	switch kind {
	case types.MergePatchType:
		return jsonpatch.MergePatch(doc, patch)
	case types.JSONPatchType:
		p, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, err
		}
		return p.Apply(doc)
	default:
		return nil, fmt.Errorf("a plan does not know patches of type %s", kind)
	}
}

// Delete notes a deletion, which finalizers hold.
func (c *cluster) Delete(ctx context.Context, obj client.Object, _ ...client.DeleteOption) error {
	is, err := c.latest(ctx, obj)
	if err != nil {
		return err
	}
	at := idOf(obj)
	c.mu.Lock()
	again := c.deleted[at]
	c.deleted[at] = true
	c.mu.Unlock()
	if again || is.GetDeletionTimestamp() != nil {
		return nil
	}
	c.add(ctx, at, Step{Action: Delete, Kind: at.kind, Name: at.Name, Message: originOf(ctx).why})
	if len(is.GetFinalizers()) == 0 {
		c.store(at, nil)
		return nil
	}
	is.SetDeletionTimestamp(new(metav1.NewTime(time.Now())))
	c.store(at, is)
	return nil
}

// gone notes that nothing holds a deleted object any more.
func (c *cluster) gone(ctx context.Context, at id) {
	c.store(at, nil)
	c.mu.Lock()
	told := c.deleted[at]
	c.mu.Unlock()
	if !told {
		c.add(ctx, at, Step{Action: Delete, Kind: at.kind, Name: at.Name, Message: "it is being deleted already"})
	}
}

func (r *record) store(at id, obj client.Object) {
	if obj != nil {
		obj = obj.DeepCopyObject().(client.Object)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects[at] = obj
}

// Status writes to the status.
func (c *cluster) Status() client.SubResourceWriter { return status{c.Client.Status(), c} }

type status struct {
	client.SubResourceWriter
	cluster *cluster
}

// Patch keeps a change of the status, which is the operator's own bookkeeping and no step.
func (s status) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	before, after, err := s.cluster.patched(ctx, obj, patch)
	if err != nil {
		return err
	}
	app, ok := after.(*v1.AivenApplication)
	if !ok {
		return fmt.Errorf("patch the status of %s %s: a plan does not know it", kindOf(obj), obj.GetName())
	}
	is := before.(*v1.AivenApplication)
	is.Status = app.Status
	s.cluster.store(idOf(obj), is)
	copyTo(obj, is)
	return nil
}
