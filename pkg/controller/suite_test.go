package controller_test

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/controller/controllertest"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// The tests reconcile Services, whose status has conditions and is written apart from the rest.
type (
	bed    = controllertest.Bed
	call   = controllertest.Call
	want   = controllertest.Want
	tests  = map[string]controllertest.Case[*corev1.Service]
	config = controller.Config[*corev1.Service]
)

// Writes of the controller in the journal.
const (
	patch       = "patch Service ns/svc"
	patchStatus = "patch status Service ns/svc"
)

var (
	own     = controller.Finalizer("test")
	errBoom = errors.New("boom")
)

// suite is about a controller with the one step a, which change may change.
func suite(change func(b *bed, cfg *config)) controllertest.Suite[*corev1.Service] {
	return controllertest.Suite[*corev1.Service]{
		Config: func(b *bed) config {
			cfg := config{Resources: []resource.Interface{step{b, "a", nil}}}
			if change != nil {
				change(b, &cfg)
			}
			return cfg
		},
		Status: func(s *corev1.Service) any { return reported(s) },
	}
}

// service returns the object of the tests, changed by the given functions.
func service(changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc", UID: "1"}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func finalizers(names ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, names...) }
}

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

func labelled(s *corev1.Service) { s.Labels = map[string]string{"team": "a"} }

func deleted(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) }

// patched is what another client does to the object, by a merge patch.
func patched(text string) func(b *bed) error {
	return func(b *bed) error {
		return b.Server.Patch(b.T.Context(), service(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
}

func remove(b *bed) error { return b.Server.Delete(b.T.Context(), service()) }

// step is a resource that notes its calls, with the scope if there is one, and then does f, if that is not nil.
type step struct {
	bed  *bed
	name string
	f    func(ctx context.Context, scope string) error
}

func (s step) EnsureCreated(ctx context.Context, _ any) error { return s.run(ctx, "create ") }
func (s step) EnsureDeleted(ctx context.Context, _ any) error { return s.run(ctx, "delete ") }
func (s step) Name() string                                   { return s.name }

func (s step) run(ctx context.Context, verb string) error {
	line := verb + s.name
	scope, err := resource.Scope[string](ctx, nil)
	if err == nil {
		line += " of " + scope
	}
	s.bed.Note(line)
	if s.f == nil {
		return nil
	}
	return s.f(ctx, scope)
}

// inA makes the one step do f.
func inA(f func(ctx context.Context, scope string) error) func(*bed, *config) {
	return func(b *bed, cfg *config) { cfg.Resources = []resource.Interface{step{b, "a", f}} }
}

// inB makes the second of three steps do f.
func inB(f func(ctx context.Context, scope string) error) func(*bed, *config) {
	return func(b *bed, cfg *config) {
		cfg.Resources = []resource.Interface{step{b, "a", nil}, step{b, "b", f}, step{b, "c", nil}}
	}
}

// fails makes a step return each of errs once, then the last of them.
func fails(errs ...error) func(context.Context, string) error {
	return func(context.Context, string) error {
		err := errs[0]
		errs = errs[min(1, len(errs)-1):]
		return err
	}
}

// conditions makes Report write one condition per result: its type is the scope, its reason the outcome.
func conditions(s *corev1.Service, results []resource.Result) {
	s.Status.Conditions = nil
	for _, r := range results {
		c := metav1.Condition{Type: "Object", Reason: string(r.Outcome())}
		if r.Scope != nil {
			c.Type = r.Scope.(string)
		}
		if r.Err != nil {
			c.Message = r.Err.Error()
		}
		s.Status.Conditions = append(s.Status.Conditions, c)
	}
}

// reported returns those conditions as "type reason: message".
func reported(s *corev1.Service) []string {
	var all []string
	for _, c := range s.Status.Conditions {
		all = append(all, strings.TrimSuffix(c.Type+" "+c.Reason+": "+c.Message, ": "))
	}
	return all
}

// noErrors checks that nothing counts as an error, nor is logged as one.
func noErrors(b *bed) {
	if n := b.Metric(`operatorkit_controller_errors_total{controller="test"}`); n != 0 {
		b.T.Errorf("errors_total: got %g", n)
	}
	for _, line := range b.Log() {
		if strings.Contains(line, `"error"=`) {
			b.T.Errorf("logged as an error: %s", line)
		}
	}
}
