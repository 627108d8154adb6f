package controllertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Call says what happens at a call to the API server: something before it, an error in its place, or an error after it.
type Call struct {
	// Verb is get, list, watch, create, update, patch, apply, delete or deletecollection, followed by the subresource if
	// there is one: "patch status".
	Verb string
	// Object is like the object of the call: of the same type, and of the same name and namespace where it has one; for
	// the verbs list and watch like the list. nil: any. An apply shows no object, so that only nil fits it.
	Object runtime.Object
	// Times is how many calls it is about. Default: all.
	Times int
	// Before happens right before the call, such as what another client does at that moment. nil: nothing.
	Before func(b *Bed) error
	// Err is the answer, and the call is not made. nil: it is made.
	Err error
	// Lost is the answer, although the call was made and took effect. nil: the answer is the real one.
	Lost error
}

// expected is a Call and how often it happened.
type expected struct {
	Call
	happened int
}

// checkCalls complains of calls that never happened: what the case says of them was not tested.
func (b *Bed) checkCalls() {
	b.T.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.calls {
		if e.happened == 0 {
			b.T.Errorf("call %s of %T: it never happened", e.Verb, e.Object)
		}
	}
}

// matches tells whether a call with this object is meant. obj is nil where the client's call has none to show.
func (e *expected) matches(verb string, obj runtime.Object, key client.ObjectKey) bool {
	if e.Verb != verb || e.Times > 0 && e.happened >= e.Times {
		return false
	}
	if e.Object == nil {
		return true
	}
	if reflect.TypeOf(e.Object) != reflect.TypeOf(obj) {
		return false
	}
	like, ok := e.Object.(client.Object)
	return !ok || like.GetName() == "" || client.ObjectKeyFromObject(like) == key
}

// at makes a call, with all that the case says of it.
func (b *Bed) at(verb string, obj runtime.Object, key client.ObjectKey, call func() error) error {
	b.noteWrite(verb, obj, key)
	b.mu.Lock()
	var found *expected
	for _, e := range b.calls {
		if e.matches(verb, obj, key) {
			e.happened++
			found = e
			break
		}
	}
	b.mu.Unlock()
	if found == nil {
		return call()
	}
	if found.Before != nil {
		if err := found.Before(b); err != nil {
			b.T.Errorf("before %s: %v", verb, err)
		}
	}
	if found.Err != nil {
		return found.Err
	}
	if err := call(); err != nil || found.Lost == nil {
		return err
	}
	return found.Lost
}

func (b *Bed) noteWrite(verb string, obj runtime.Object, key client.ObjectKey) {
	switch main, _, _ := strings.Cut(verb, " "); main {
	case "get", "list", "watch":
		return
	case "apply":
		b.Note(verb)
		return
	}
	kind := fmt.Sprintf("%T", obj)
	if gvk, err := b.Server.GroupVersionKindFor(obj); err == nil {
		kind = gvk.Kind
	}
	b.Note(verb + " " + kind + " " + strings.TrimPrefix(key.String(), "/"))
}

// intercept returns a client at whose calls happens what is said.
func (b *Bed) intercept(calls []Call) client.WithWatch {
	for _, c := range calls {
		b.calls = append(b.calls, &expected{Call: c})
	}
	of := func(verb string, obj client.Object, call func() error) error {
		return b.at(verb, obj, client.ObjectKeyFromObject(obj), call)
	}
	sub := func(verb, sub string) string { return verb + " " + sub }
	return interceptor.NewClient(b.Server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return b.at("get", obj, key, func() error { return c.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return b.at("list", list, client.ObjectKey{}, func() error { return c.List(ctx, list, opts...) })
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (w watch.Interface, err error) {
			err = b.at("watch", list, client.ObjectKey{}, func() error {
				w, err = c.Watch(ctx, list, opts...)
				return err
			})
			return w, err
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return of("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return of("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return of("patch", obj, func() error { return asServer(patch, c.Patch(ctx, obj, patch, opts...)) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return b.at("apply", nil, client.ObjectKey{}, func() error { return c.Apply(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return of("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteAllOfOption) error {
			return of("deletecollection", obj, func() error { return c.DeleteAllOf(ctx, obj, opts...) })
		},
		SubResourceGet: func(ctx context.Context, c client.Client, name string, obj, to client.Object, opts ...client.SubResourceGetOption) error {
			return of(sub("get", name), obj, func() error { return c.SubResource(name).Get(ctx, obj, to, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, name string, obj, with client.Object, opts ...client.SubResourceCreateOption) error {
			return of(sub("create", name), obj, func() error { return c.SubResource(name).Create(ctx, obj, with, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return of(sub("update", name), obj, func() error { return c.SubResource(name).Update(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return of(sub("patch", name), obj, func() error { return asServer(patch, c.SubResource(name).Patch(ctx, obj, patch, opts...)) })
		},
	})
}

// asServer answers a JSON patch that does not fit as a real API server does, with 422. The fake one returns the error of the
// library that applies it.
func asServer(patch client.Patch, err error) error {
	var status apierrors.APIStatus
	if err == nil || patch.Type() != types.JSONPatchType || errors.As(err, &status) {
		return err
	}
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}
