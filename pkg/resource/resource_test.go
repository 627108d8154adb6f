package resource

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// echo is a typed resource that says what it was called with.
type echo[T any] struct{ calls *[]string }

func (e echo[T]) EnsureCreated(_ context.Context, in T) error { return e.note("create", in) }
func (e echo[T]) EnsureDeleted(_ context.Context, in T) error { return e.note("delete", in) }
func (e echo[T]) Name() string                                { return "echo" }

func (e echo[T]) note(what string, in T) error {
	*e.calls = append(*e.calls, what+" "+text(in))
	return errors.New("from " + what)
}

func text(in any) string {
	if cm, ok := in.(*corev1.ConfigMap); ok {
		return cm.Name
	}
	return in.(string)
}

func TestAdapt(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	tests := map[string]struct {
		make      func(*[]string) Interface
		ctx       context.Context
		obj       any
		wantCalls []string
		wantErrs  []string
	}{
		"passes the object": {
			make: func(calls *[]string) Interface {
				return Adapt(echo[*corev1.ConfigMap]{calls}, Object[*corev1.ConfigMap])
			},
			ctx:       t.Context(),
			obj:       cm,
			wantCalls: []string{"create a", "delete a"},
			wantErrs:  []string{"from create", "from delete"},
		},
		"refuses an object of another type": {
			make: func(calls *[]string) Interface {
				return Adapt(echo[*corev1.ConfigMap]{calls}, Object[*corev1.ConfigMap])
			},
			ctx:      t.Context(),
			obj:      &corev1.Secret{},
			wantErrs: []string{"read object: got *v1.Secret, want *v1.ConfigMap", "read object: got *v1.Secret, want *v1.ConfigMap"},
		},
		"refuses to run without an object": {
			make: func(calls *[]string) Interface {
				return Adapt(echo[*corev1.ConfigMap]{calls}, Object[*corev1.ConfigMap])
			},
			ctx:      t.Context(),
			wantErrs: []string{"read object: got <nil>, want *v1.ConfigMap", "read object: got <nil>, want *v1.ConfigMap"},
		},
		"passes the scope": {
			make:      func(calls *[]string) Interface { return Adapt(echo[string]{calls}, Scope[string]) },
			ctx:       WithScope(WithScope(t.Context(), 1), "s"),
			obj:       cm,
			wantCalls: []string{"create s", "delete s"},
			wantErrs:  []string{"from create", "from delete"},
		},
		"finds a scope that was stored untyped": {
			make:      func(calls *[]string) Interface { return Adapt(echo[string]{calls}, Scope[string]) },
			ctx:       WithScope(t.Context(), any("s")),
			wantCalls: []string{"create s", "delete s"},
			wantErrs:  []string{"from create", "from delete"},
		},
		"refuses to run without a scope": {
			make:     func(calls *[]string) Interface { return Adapt(echo[string]{calls}, Scope[string]) },
			ctx:      t.Context(),
			wantErrs: []string{"read scope: got <nil>, want string", "read scope: got <nil>, want string"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var calls []string
			r := tc.make(&calls)
			errs := []string{r.EnsureCreated(tc.ctx, tc.obj).Error(), r.EnsureDeleted(tc.ctx, tc.obj).Error()}
			if diff := cmp.Diff(tc.wantCalls, calls); diff != "" {
				t.Errorf("calls: %s", diff)
			}
			if diff := cmp.Diff(tc.wantErrs, errs); diff != "" {
				t.Errorf("errors: %s", diff)
			}
			if r.Name() != "echo" {
				t.Errorf("name: got %q", r.Name())
			}
		})
	}
}

func TestWrap(t *testing.T) {
	var calls []string
	note := func(name string) Middleware {
		return Around(func(ctx context.Context, c Call) error {
			calls = append(calls, name+" before "+c.Resource+" "+string(c.Operation))
			err := c.Run(WithScope(ctx, "from "+name))
			calls = append(calls, name+" after "+err.Error())
			return err
		})
	}
	rs := []Interface{Adapt(echo[string]{&calls}, Scope[string])}
	wrapped := Wrap(rs, note("outer"), note("inner"))

	_ = wrapped[0].EnsureCreated(t.Context(), nil)
	_ = wrapped[0].EnsureDeleted(t.Context(), nil)

	want := []string{
		"outer before echo create", "inner before echo create", "create from inner", "inner after from create", "outer after from create",
		"outer before echo delete", "inner before echo delete", "delete from inner", "inner after from delete", "outer after from delete",
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
	if wrapped[0].Name() != "echo" {
		t.Errorf("it keeps the name: got %q", wrapped[0].Name())
	}
	if _, ok := rs[0].(adapted[string]); !ok {
		t.Errorf("it leaves the slice alone: got a %T", rs[0])
	}
}
