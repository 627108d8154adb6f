//go:build k8srequired

// Package operatorkit shows that resources which were written for operatorkit v7.2.0, those of integration/operatorkit,
// run unchanged on our controller: created, repaired after a drift, deleted with a finalizer, through errors of the API;
// bare, in our middleware, and in operatorkit's own wrappers.
//
// operatorkit's wrapper/metricsresource registers its metrics on Prometheus' global registry when it is imported, so that
// all tests of this package share them. Its wrapper/retryresource logs each repetition through micrologger.
package operatorkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/giantswarm/micrologger"
	"github.com/giantswarm/operatorkit/v7/pkg/resource/crud"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/operatorkit/key"
	"github.com/keysmith-io/keysmith/integration/operatorkit/rolebinding"
	"github.com/keysmith-io/keysmith/integration/operatorkit/serviceaccount"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const (
	controllerName = "tenant-operator"
	finalizer      = "operatorkit.giantswarm.io/tenant-operator"
	holder         = "tenant-operator.example.com/hold" // a finalizer of somebody else, on what the resources made
)

// tenants is a namespace with ConfigMaps that describe tenants, and the operator that works on them.
type tenants struct {
	*counting.Bed
	t      *testing.T
	api    *api
	log    *log
	logger micrologger.Logger
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	w := &tenants{Bed: counting.New(t), t: t, api: &api{}, log: &log{}}
	var err error
	if w.logger, err = micrologger.New(micrologger.Config{IOWriter: w.log}); err != nil {
		t.Fatal(err)
	}
	return w
}

// serviceAccount makes the simple resource.
func (w *tenants) serviceAccount() resource.Interface {
	w.t.Helper()
	config := env.Config(w.t)
	config.Wrap(w.api.through)
	c, err := client.New(config, client.Options{Scheme: w.Scheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := serviceaccount.New(serviceaccount.Config{CtrlClient: c, Logger: w.logger})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// roleBinding makes the resource that goes through operatorkit's crud.
func (w *tenants) roleBinding() resource.Interface {
	w.t.Helper()
	config := env.Config(w.t)
	config.Wrap(w.api.through)
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	ops, err := rolebinding.New(rolebinding.Config{K8sClient: c, Logger: w.logger})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := crud.NewResource(crud.ResourceConfig{CRUD: ops, Logger: w.logger})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// run starts the operator. It looks at every tenant once a second, because resources for operatorkit count on resyncs.
func (w *tenants) run(cfg controller.Config[*corev1.ConfigMap]) *counting.Operator {
	w.t.Helper()
	return w.runIn(func(*counting.Operator) controller.Config[*corev1.ConfigMap] { return cfg })
}

// runIn is run, for what needs the operator.
func (w *tenants) runIn(configure func(*counting.Operator) controller.Config[*corev1.ConfigMap]) *counting.Operator {
	w.t.Helper()
	return w.Start(func(o *counting.Operator) error {
		cfg := configure(o)
		cfg.Name = controllerName
		cfg.Selector = labels.SelectorFromSet(labels.Set{key.LabelConfig: "true"})
		cfg.Resync = time.Second
		return counting.Controller(cfg)(o)
	})
}

func tenant(name, pullSecret, roles string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key.LabelConfig: "true"}},
		Data:       map[string]string{"pullSecret": pullSecret, "roles": roles},
	}
}

func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func roleBinding(name string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// inNamespace returns obj with the namespace of w.
func inNamespace[T client.Object](w *tenants, obj T) T {
	obj.SetNamespace(w.Namespace)
	return obj
}

// become waits until exactly this has been made for tenants, in any order.
func (w *tenants) become(want ...string) {
	w.t.Helper()
	slices.Sort(want)
	w.Eventually(func(ctx context.Context) error {
		ours := []client.ListOption{client.InNamespace(w.Namespace), client.MatchingLabels{key.LabelManagedBy: key.ManagedBy}}
		var accounts corev1.ServiceAccountList
		var bindings rbacv1.RoleBindingList
		if err := errors.Join(w.List(ctx, &accounts, ours...), w.List(ctx, &bindings, ours...)); err != nil {
			return err
		}
		var got []string
		for _, a := range accounts.Items {
			text := "ServiceAccount " + a.Name + " pulls with nothing"
			if len(a.ImagePullSecrets) > 0 {
				text = "ServiceAccount " + a.Name + " pulls with " + a.ImagePullSecrets[0].Name
			}
			if a.DeletionTimestamp != nil {
				text += ", and is being deleted"
			}
			got = append(got, text)
		}
		for _, b := range bindings.Items {
			got = append(got, "RoleBinding "+b.Name+" gives "+b.RoleRef.Name+" to "+b.Subjects[0].Name)
		}
		slices.Sort(got)
		if !slices.Equal(want, got) {
			return fmt.Errorf("what was made for tenants: (-want +got)\n%s", cmp.Diff(want, got))
		}
		return nil
	})
}

// hold keeps the ServiceAccount of that name from going when it is deleted.
func (w *tenants) hold(name string) {
	w.t.Helper()
	counting.Change(w.Bed, account(name), func(a *corev1.ServiceAccount) { a.Finalizers = append(a.Finalizers, holder) })
	w.t.Cleanup(func() { // else a test that failed would leave its namespace behind
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		_ = w.Patch(context.Background(), inNamespace(w, account(name)), patch)
	})
}

func (w *tenants) release(name string) {
	w.t.Helper()
	counting.Change(w.Bed, account(name), func(a *corev1.ServiceAccount) {
		a.Finalizers = slices.DeleteFunc(a.Finalizers, func(f string) bool { return f == holder })
	})
}

// api stands between the resources and the API server.
type api struct {
	mu      sync.Mutex
	refused string         // method of the request that is refused next, "" for none
	counts  map[string]int // of requests, by method
}

// refuse refuses the next request of that method, with the status 500.
func (a *api) refuse(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = method
}

// refusing tells whether the request that was to be refused is still to come.
func (a *api) refusing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused != ""
}

// count returns the number of requests of that method, refused ones among them.
func (a *api) count(method string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[method]
}

func (a *api) through(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if a.counted(req.Method) {
			return next.RoundTrip(req)
		}
		if req.Body != nil {
			_ = req.Body.Close()
		}
		const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"refused by the test","code":500}`
		return &http.Response{
			StatusCode: http.StatusInternalServerError,
			Proto:      req.Proto, ProtoMajor: req.ProtoMajor, ProtoMinor: req.ProtoMinor,
			Header:  http.Header{"Content-Type": {"application/json"}},
			Body:    io.NopCloser(strings.NewReader(status)),
			Request: req,
		}, nil
	})
}

// counted tells whether the request passes.
func (a *api) counted(method string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts = map[string]int{}
	}
	a.counts[method]++
	if a.refused != method {
		return true
	}
	a.refused = ""
	return false
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// log is what the resources write through micrologger.
type log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// line is a log line, as far as tests look at it.
type line struct {
	Controller, Object, Loop, Resource, Event, Function, Message string
}

// lines returns the lines with that message, all if it is empty.
func (l *log) lines(t *testing.T, message string) []line {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []line
	decoder := json.NewDecoder(bytes.NewReader(l.all.Bytes()))
	for {
		var got line
		err := decoder.Decode(&got)
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatalf("read the log: %v", err)
		}
		if message == "" || got.Message == message {
			lines = append(lines, got)
		}
	}
}
