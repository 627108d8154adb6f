package controllertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/giantswarm/microerror"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// publish is a resource as an author may write it: it keeps a ConfigMap with the host of a Service.
type publish struct{ client client.Client }

func (p publish) EnsureCreated(ctx context.Context, s *corev1.Service) error {
	switch s.Spec.ExternalName {
	case "":
		return resource.RequeueAfter(10*time.Second, "Service %s has no name yet", s.Name)
	case "never":
		return reconcile.TerminalError(&microerror.Error{Kind: "BadName", Desc: "never is no name"})
	}
	err := p.client.Create(ctx, published(s.Spec.ExternalName))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

func (p publish) EnsureDeleted(ctx context.Context, _ *corev1.Service) error {
	if err := p.client.Delete(ctx, published("")); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	return nil
}

func (publish) Name() string { return "publish" }

func published(host string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "published"}, Data: map[string]string{"host": host}}
}

func service(host string, finalizers ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc", Finalizers: finalizers},
		Spec:       corev1.ServiceSpec{ExternalName: host},
	}
}

var suite = Suite[*corev1.Service]{
	Config: func(b *Bed) controller.Config[*corev1.Service] {
		return controller.Config[*corev1.Service]{
			Resources: []resource.Interface{resource.Adapt(publish{b.Client}, resource.Object[*corev1.Service])},
			Report: func(s *corev1.Service, results []resource.Result) {
				s.Status.Conditions = []metav1.Condition{{Type: "Published", Reason: string(results[0].Outcome()), LastTransitionTime: metav1.NewTime(b.Clock.Now())}}
			},
		}
	},
	Status: func(s *corev1.Service) any {
		var reasons []string
		for _, c := range s.Status.Conditions {
			reasons = append(reasons, c.Reason)
		}
		return strings.Join(reasons, " ")
	},
}

func TestSuite(t *testing.T) {
	boom := errors.New("boom")
	suite.Run(t, map[string]Case[*corev1.Service]{
		"takes done for the usual": {
			Object: service("a"),
			Want:   Want{Status: "done", Objects: []client.Object{published("a")}},
		},
		"sees waiting": {
			Object: service(""),
			Want: Want{
				Outcome: resource.Waiting, After: 10 * time.Second, Error: "no name yet", Status: "waiting",
				Absent: []client.Object{published("")},
			},
		},
		"sees a terminal error and its event": {
			Object: service("never"), Passes: 2,
			Want: Want{Outcome: resource.Terminal, Status: "terminal", Events: []string{"Warning BadName never is no name"}},
		},
		"fails a call": {
			Object: service("a"),
			Calls:  []Call{{Verb: "create", Object: &corev1.ConfigMap{}, Err: boom}},
			Want: Want{
				Outcome: resource.Failed, Error: "publish: boom", Status: "failed", Absent: []client.Object{published("")},
				Check: func(b *Bed) {
					if n := b.Metric(`operatorkit_controller_errors_total{controller="test"}`); n != 1 {
						b.T.Errorf("errors: got %g", n)
					}
				},
			},
		},
		"fails a call once": {
			Object: service("a"), Passes: 2,
			Calls: []Call{{Verb: "create", Object: published(""), Times: 1, Err: boom}},
			Want:  Want{Status: "done", Objects: []client.Object{published("a")}},
		},
		"loses an answer": {
			Object: service("a"),
			Calls:  []Call{{Verb: "create", Lost: boom}},
			Want:   Want{Outcome: resource.Failed, Status: "failed", Objects: []client.Object{published("a")}},
		},
		"lets another client be faster": {
			Object: service("a"),
			Calls:  []Call{{Verb: "patch", Object: &corev1.Service{}, Times: 1, Before: addFinalizer}},
			Passes: 2,
			Want:   Want{Finalizers: []string{"x/y", controller.Finalizer("test")}, Status: "done"},
		},
		"sees a conflict as waiting": {
			Object: service("a"),
			Calls:  []Call{{Verb: "patch", Before: addFinalizer}},
			Want:   Want{Outcome: resource.Waiting, After: resource.ConflictDelay, Finalizers: []string{"x/y"}},
		},
		"deletes": {
			Object: service("a"), Deleted: true, Given: []client.Object{published("a")},
			Want: Want{Gone: true, Absent: []client.Object{published("")}},
		},
		"keeps the finalizer while deletion fails": {
			Object: service("a", "x/y"), Deleted: true, Given: []client.Object{published("a")},
			Calls: []Call{{Verb: "delete", Err: boom}},
			Want:  Want{Outcome: resource.Failed, Error: "withdraw", Status: "failed", Objects: []client.Object{published("a")}},
		},
		"lets time pass, and others do something, between the passes": {
			Object: service("a"),
			Meanwhile: []func(*Bed) error{
				func(b *Bed) error {
					b.Clock.SetTime(Now.Add(time.Hour))
					return b.Server.Delete(b.T.Context(), published(""))
				},
				func(b *Bed) error { return b.Server.Delete(b.T.Context(), service("")) },
			},
			Want: Want{Gone: true, Journal: []string{
				"patch Service ns/svc", "create ConfigMap ns/published", "patch status Service ns/svc",
				"create ConfigMap ns/published", "patch status Service ns/svc", // of a later time
				"delete ConfigMap ns/published", "patch Service ns/svc",
			}},
		},
		"makes no pass over an object that is gone": {
			Object: service("a"), Deleted: true, Passes: 3,
			Want: Want{Gone: true, Journal: []string{"delete ConfigMap ns/published", "patch status Service ns/svc", "patch Service ns/svc"}},
		},
		"changes the controller for one case": {
			Object: service("a"),
			Configure: func(b *Bed, cfg *controller.Config[*corev1.Service]) {
				cfg.Name = "other"
				cfg.Resources = append([]resource.Interface{resource.Adapt(outside{b}, resource.Object[*corev1.Service])}, cfg.Resources...)
			},
			Want: Want{
				Status: "done", Finalizers: []string{controller.Finalizer("other")},
				Journal: []string{"patch Service ns/svc", "POST a", "create ConfigMap ns/published", "patch status Service ns/svc"},
				Check: func(b *Bed) {
					if log := strings.Join(b.Log(), "\n"); strings.Count(log, `"password"="a"`) != 1 {
						b.T.Errorf("log: got %q", log)
					}
				},
			},
		},
		"does not store a status without Report": {
			Object: service("a"),
			Configure: func(_ *Bed, cfg *controller.Config[*corev1.Service]) {
				cfg.Report = nil
				cfg.Prepare = func(_ context.Context, s *corev1.Service) (controller.Plan, error) {
					s.Status.Conditions = []metav1.Condition{{Type: "Lost", Reason: "lost"}}
					return controller.Plan{}, nil
				}
			},
			Want: Want{Journal: []string{"patch Service ns/svc"}},
		},
		"takes no list for an empty one": {
			Object: service("a"), Plan: &controller.Plan{Release: true},
			Want: Want{Finalizers: []string{}, Events: []string{}},
		},
		"compares an object that is being deleted": {
			Object: service("a", "x/y"), Deleted: true,
			Want: Want{Finalizers: []string{"x/y"}, Status: "done", Objects: []client.Object{func() client.Object {
				s := service("a", "x/y")
				s.DeletionTimestamp = new(metav1.Now())
				s.Status.Conditions = []metav1.Condition{{Type: "Published", Reason: "done", LastTransitionTime: metav1.NewTime(Now.Local())}}
				return s
			}()}},
		},
		"gives resources the scopes of a plan": {
			Object: service("a"), Plan: &controller.Plan{Delete: []any{"scope"}}, Given: []client.Object{published("a")},
			Want: Want{Status: "done", Absent: []client.Object{published("")}},
		},
	})
}

// addFinalizer is what another client does.
func addFinalizer(b *Bed) error {
	return b.Server.Patch(b.T.Context(), service(""), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["x/y"]}}`)))
}

// outside is a resource that writes to something that is not the API server, and says too much of it.
type outside struct{ bed *Bed }

func (o outside) EnsureCreated(ctx context.Context, s *corev1.Service) error {
	o.bed.Note("POST " + s.Spec.ExternalName)
	log.FromContext(ctx).Info("posted", "password", s.Spec.ExternalName)
	return nil
}

func (outside) EnsureDeleted(context.Context, *corev1.Service) error { return nil }
func (outside) Name() string                                         { return "outside" }

// watcher is a test whose failures are looked at.
type watcher struct {
	testing.TB
	said []string
}

func (w *watcher) Errorf(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}
func (w *watcher) Error(args ...any) { w.said = append(w.said, fmt.Sprint(args...)) }

// Each case is wrong in one way, and that is what must be said.
func TestSuiteComplains(t *testing.T) {
	tests := map[string]struct {
		c    Case[*corev1.Service]
		want string
	}{
		"of another outcome":        {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done", Outcome: resource.Failed}}, "outcome: got done"},
		"of an outcome left out":    {Case[*corev1.Service]{Object: service("never"), Want: Want{Status: "terminal", Events: []string{"Warning BadName never is no name"}}}, "outcome: got terminal"},
		"of another time":           {Case[*corev1.Service]{Object: service(""), Want: Want{Status: "waiting", Outcome: resource.Waiting}}, "next pass: got after 10s, want 0s"},
		"of another text":           {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done", Error: "x"}}, `error: got ""`},
		"of an event too many":      {Case[*corev1.Service]{Object: service("never"), Want: Want{Status: "terminal", Outcome: resource.Terminal}}, "events (-want +got)"},
		"of an event that lacks":    {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done", Events: []string{"Warning A b"}}}, "events (-want +got)"},
		"of other finalizers":       {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done", Finalizers: []string{"x/y"}}}, "finalizers (-want +got)"},
		"of a finalizer left out":   {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done", Finalizers: []string{}}}, "finalizers (-want +got)"},
		"of an object that is gone": {Case[*corev1.Service]{Object: service("a"), Deleted: true}, "object: it is gone"},
		"of an object that is left": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done", Gone: true}}, "object: it is still there"},
		"of a changed status":       {Case[*corev1.Service]{Object: service("a")}, "status (-want +got)"},
		"of another object": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done",
			Objects: []client.Object{published("b")}}}, "object *v1.ConfigMap ns/published (-want +got)"},
		"of an object that lacks": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done",
			Objects: []client.Object{service("x", "y")}}}, "object *v1.Service ns/svc (-want +got)"},
		"of an object too many": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done",
			Absent: []client.Object{published("")}}}, "object *v1.ConfigMap ns/published: it is there"},
		"of a call that never happened": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done"},
			Calls: []Call{{Verb: "delete", Object: &corev1.Secret{}}}}, "call delete of *v1.Secret: it never happened"},
		"of another journal": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done", Journal: []string{}}}, "journal (-want +got)"},
		"of what went wrong between the passes": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done"},
			Meanwhile: []func(*Bed) error{func(*Bed) error { return errors.New("boom") }}}, "after pass 1: boom"},
		"of what went wrong before a call": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done"},
			Calls: []Call{{Verb: "create", Before: func(*Bed) error { return errors.New("boom") }}}}, "before create: boom"},
		"of an object that is not being deleted": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done", Objects: []client.Object{func() client.Object {
			cm := published("a")
			cm.DeletionTimestamp = new(metav1.Now())
			return cm
		}()}}}, "object *v1.ConfigMap ns/published (-want +got)"},
		"of what the test itself finds": {Case[*corev1.Service]{Object: service("a"), Want: Want{Status: "done",
			Check: func(b *Bed) { b.T.Error("found") }}}, "found"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := &watcher{TB: t}
			suite.run(w, tc.c)
			if len(w.said) != 1 || !strings.Contains(w.said[0], tc.want) {
				t.Errorf("got %q, want %q", w.said, tc.want)
			}
		})
	}
}
