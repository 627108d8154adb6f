// Package world gives an integration test a world of its own: a namespace of the cluster, a simulated Aiven, and an operator that works in that
// namespace and with that Aiven alone. Tests in different worlds can run at the same time.
package world

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/service"
	"github.com/keysmith-io/keysmith/service/controller"
)

// The Aiven projects of every world: Pool holds Kafka, Main the rest.
const (
	Pool = "dev"
	Main = "main"
)

// Deadline is how long conditions are waited for. It is generous: machines that run tests are slow at times.
const Deadline = 90 * time.Second

// Token is what the operator authenticates with.
const Token = "avnT_world_token"

// World is the surroundings of one test.
type World struct {
	client.Client // reads from the API server

	Namespace string
	Sim       *aivensim.Simulator
	Kafka     *aivensim.Service
	Operator  *operator.Process // nil while none runs

	t          testing.TB
	url        string
	kubeconfig string // of Kubeconfig, once it was asked for
}

// New makes a world with a Kafka service in Pool, and no operator yet.
func New(t testing.TB) *World {
	t.Helper()
	return newWorld(t, aivensim.Options{})
}

func newWorld(t testing.TB, o aivensim.Options) *World {
	t.Helper()
	o.Token, o.KeySize, o.ECDSA, o.Seed = Token, 2048, true, 1
	scheme := service.Scheme()
	if err := errors.Join(eventsv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := env.Client(t, scheme)
	w := &World{Client: c, t: t, Namespace: env.Namespace(t, c)}
	w.Sim = aivensim.New(o)
	w.Kafka = w.Sim.AddProject(Pool).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	w.Sim.AddProject(Main)
	server := httptest.NewServer(w.Sim)
	w.url = server.URL
	t.Cleanup(func() {
		w.leave()
		server.Close()
	})
	return w
}

// URL is the address of the world's Aiven.
func (w *World) URL() string { return w.url }

// leave stops the operator, and lets everything go that its finalizers would hold for ever.
func (w *World) leave() {
	if w.Operator != nil {
		if w.t.Failed() {
			w.t.Logf("the operator's log:\n%s", w.Operator.Log())
		}
		w.Kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 { // a write of the operator may have been on its way when it ended
		w.release(ctx)
	}
}

func (w *World) release(ctx context.Context) {
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &v1.AivenApplicationList{}} {
		if err := w.List(ctx, list, client.InNamespace(w.Namespace)); err != nil {
			w.t.Errorf("clean up: %v", err)
			continue
		}
		for _, obj := range items(list) {
			if len(obj.GetFinalizers()) == 0 {
				continue
			}
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := client.IgnoreNotFound(w.Patch(ctx, obj, patch)); err != nil {
				w.t.Errorf("clean up %s: %v", obj.GetName(), err)
			}
		}
	}
}

func items(list client.ObjectList) []client.Object {
	var out []client.Object
	switch l := list.(type) {
	case *corev1.SecretList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *v1.AivenApplicationList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	}
	return out
}

var build = sync.OnceValues(func() (string, error) {
	if os.Getenv(operator.BinaryVariable) != "" {
		return operator.Build(context.Background(), "")
	}
	dir, err := os.MkdirTemp("", "keysmith-operator-")
	if err != nil {
		return "", err
	}
	return operator.Build(context.Background(), dir, race...)
})

// Run runs the tests of a package, and removes the operator that was built for them.
func Run(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // that of the libraries in this process; the operator has its own
	status := m.Run()
	if path, err := build(); err == nil && os.Getenv(operator.BinaryVariable) == "" {
		_ = os.RemoveAll(filepath.Dir(path)) // a leftover in the temporary directory is no failure
	}
	os.Exit(status)
}

// Binary is the path of the operator, for tests that run it in ways of their own.
func Binary(t testing.TB) string {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Options are how the operator of this world is run: with the rights that the chart gives, and no others. More flags may be given; the janitor is quick unless they say otherwise.
func (w *World) Options(args ...string) operator.Options {
	w.t.Helper()
	return operator.Options{
		Binary:     Binary(w.t),
		Kubeconfig: w.Kubeconfig(),
		Args:       append(append(w.args(), "--janitor-grace=1s", "--janitor-period=2s"), args...),
		Env:        []string{"AIVENATOR_AIVEN_TOKEN=" + Token},
	}
}

func (w *World) args() []string {
	return []string{
		// A lease is lost where the API server stands still for a moment, as it does on a busy machine.
		"--leader-election=false", "--leader-election-namespace=" + w.Namespace, "--namespaces=" + w.Namespace,
		"--aiven-url=" + w.url, "--projects=" + Pool, "--main-project=" + Main, "--cluster-name=world",
		"--log-level=debug", "--workers=10",
	}
}

// Start starts the operator with Options.
func (w *World) Start(args ...string) {
	w.t.Helper()
	w.Run(w.Options(args...))
}

// Run starts the operator in a way of the test's own.
func (w *World) Run(o operator.Options) {
	w.t.Helper()
	p, err := operator.Start(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Operator = p
}

// Stop asks the operator to stop and waits for it. The test fails if it does not end well.
func (w *World) Stop() {
	w.t.Helper()
	status, err := w.Operator.Stop(30 * time.Second)
	if err != nil || status != 0 {
		w.t.Errorf("stop the operator: status %d, %v\n%s", status, err, w.Operator.Log())
	}
	w.ended()
}

// Kill ends the operator as a crash does.
func (w *World) Kill() {
	w.Operator.Kill()
	w.ended()
}

// ended looks for what the race detector said.
func (w *World) ended() {
	if strings.Contains(w.Operator.Log(), "DATA RACE") {
		w.t.Errorf("the operator has a data race:\n%s", w.Operator.Log())
	}
	w.Operator = nil
}

// Apply creates an application.
func (w *World) Apply(name string, spec v1.AivenApplicationSpec) *v1.AivenApplication {
	w.t.Helper()
	app := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: spec}
	if err := w.Create(w.t.Context(), app); err != nil {
		w.t.Fatalf("create application %s: %v", name, err)
	}
	return app
}

// Change edits an application, again if somebody else was faster.
func (w *World) Change(name string, edit func(*v1.AivenApplication)) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error {
		app := &v1.AivenApplication{}
		if err := w.Get(ctx, w.Key(name), app); err != nil {
			return err
		}
		edit(app)
		return w.Update(ctx, app)
	})
}

// Key is the key of an object in the world's namespace.
func (w *World) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.Namespace, Name: name}
}

// App reads an application.
func (w *World) App(name string) *v1.AivenApplication {
	w.t.Helper()
	app := &v1.AivenApplication{}
	if err := w.Get(w.t.Context(), w.Key(name), app); err != nil {
		w.t.Fatalf("read application %s: %v", name, err)
	}
	return app
}

// Ready waits until an application is ready in its current generation.
func (w *World) Ready(name string) *v1.AivenApplication {
	w.t.Helper()
	return w.Condition(name, corev1.ConditionTrue, "")
}

// NotReady waits until an application, in its current generation, is not ready for a reason.
func (w *World) NotReady(name, reason string) *v1.AivenApplication {
	w.t.Helper()
	return w.Condition(name, corev1.ConditionFalse, reason)
}

// Condition waits for a status and, unless it is empty, a reason of the condition Ready that speaks of the current generation.
func (w *World) Condition(name string, status corev1.ConditionStatus, reason string) *v1.AivenApplication {
	w.t.Helper()
	app := &v1.AivenApplication{}
	w.Eventually(func(ctx context.Context) error {
		if err := w.Get(ctx, w.Key(name), app); err != nil {
			return err
		}
		for _, c := range app.Status.Conditions {
			if c.Type == v1.ConditionReady && c.Status == status && (reason == "" || c.Reason == reason) &&
				app.Status.ObservedGeneration == app.Generation {
				return nil
			}
		}
		return fmt.Errorf("application %s (generation %d): want Ready=%s %s, got %+v", name, app.Generation, status, reason, app.Status)
	})
	return app
}

// Secret reads a Secret.
func (w *World) Secret(name string) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	if err := w.Get(w.t.Context(), w.Key(name), s); err != nil {
		w.t.Fatalf("read Secret %s: %v", name, err)
	}
	return s
}

// Gone waits until an object is gone.
func (w *World) Gone(obj client.Object, name string) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error {
		err := w.Get(ctx, w.Key(name), obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("%s is still there, with finalizers %v", name, obj.GetFinalizers()))
	})
}

// Eventually waits until check returns nil.
func (w *World) Eventually(check func(ctx context.Context) error) {
	w.t.Helper()
	env.Eventually(w.t, Deadline, check)
}

// Instance adds an instance: a service of Main, and the object in the namespace that says it is running.
func (w *World) Instance(kind binding.Kind, name string, config aivensim.ServiceConfig) *aivensim.Service {
	w.t.Helper()
	full := string(kind) + "-" + w.Namespace + "-" + name
	config.Type = aivensim.ServiceType(kind)
	s := w.Sim.Project(Main).AddService(full, config)
	w.State(kind, full, "RUNNING")
	return s
}

// State makes the object of an instance, if there is none yet, and sets its state.
func (w *World) State(kind binding.Kind, fullName, state string) {
	w.t.Helper()
	obj := controller.Instance(kind)
	obj.SetNamespace(w.Namespace)
	obj.SetName(fullName)
	if err := w.Create(w.t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatalf("create %s %s: %v", kind, fullName, err)
	}
	patch := []byte(fmt.Sprintf(`{"status":{"state":%q}}`, state))
	if err := w.Status().Patch(w.t.Context(), obj, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		w.t.Fatalf("set the state of %s %s: %v", kind, fullName, err)
	}
}

// Users are the names of a service's users, less the built-in ones.
func Users(s *aivensim.Service) []string {
	var names []string
	for _, u := range s.Users() {
		if u.Type == "normal" {
			names = append(names, u.Username)
		}
	}
	slices.Sort(names)
	return names
}

// Events are the events about an object of the namespace, as "Type Reason note".
func (w *World) Events(ctx context.Context, name string) ([]string, error) {
	var list eventsv1.EventList
	if err := w.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Name == name {
			out = append(out, e.Type+" "+e.Reason+" "+e.Note)
		}
	}
	return out, nil
}

// Event waits for an event about an object that contains a text.
func (w *World) Event(name, text string) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error {
		events, err := w.Events(ctx, name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, text) }) {
			return fmt.Errorf("no event about %s contains %q: %q", name, text, events)
		}
		return nil
	})
}
