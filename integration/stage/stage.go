// Package stage is what the demo and the benchmark stand on: namespaces of a cluster, with instances that are running, that go
// without a trace.
package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	v2 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v2"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/service/controller"
)

const (
	// interval is the time between two checks of Await.
	interval = 100 * time.Millisecond
	// closeTime is how long Close waits for namespaces to be gone. A cluster takes seconds.
	closeTime = time.Minute
)

// Stage is a cluster, with the namespaces that were made in it. Its client reads from the API server, not from a cache.
type Stage struct {
	client.WithWatch
	// Config is how it is connected.
	Config *rest.Config

	namespaces []string
}

// Open connects to the cluster that E2E_KUBECONFIG names, and makes sure that it knows the custom resources. The error says what
// to do for one.
func Open(ctx context.Context) (*Stage, error) {
	path := os.Getenv(env.Kubeconfig)
	if path == "" {
		return nil, fmt.Errorf("%s is not set: it names the kubeconfig of the cluster to use; make demo and make bench start one", env.Kubeconfig)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", env.Kubeconfig, err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // v1 is deprecated, and read on purpose
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster of %s: %w", env.Kubeconfig, err)
	}
	err = c.List(ctx, &v1.AivenApplicationList{}, client.Limit(1))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the cluster of %s has no AivenApplications: make demo and make bench install them", env.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster of %s: %w", env.Kubeconfig, err)
	}
	return &Stage{WithWatch: c, Config: config}, nil
}

func scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, v1.AddToScheme, v2.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two types of one name: a mistake that every run would see
		}
	}
	return scheme
}

// Namespace makes a namespace whose name starts with a prefix and was never used before. Close removes it.
func (s *Stage) Namespace(ctx context.Context, prefix string) (string, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	if err := s.Create(ctx, ns); err != nil {
		return "", fmt.Errorf("create a namespace: %w", err)
	}
	s.namespaces = append(s.namespaces, ns.Name)
	return ns.Name, nil
}

// Instance makes the object of an instance and says in its status, as Aiven's operator does, that it is running.
func (s *Stage) Instance(ctx context.Context, kind binding.Kind, namespace, service string) error {
	obj := controller.Instance(kind)
	obj.SetNamespace(namespace)
	obj.SetName(service)
	if err := s.Create(ctx, obj); err != nil {
		return fmt.Errorf("create %s %s: %w", kind, service, err)
	}
	running := client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"RUNNING"}}`))
	if err := s.Status().Patch(ctx, obj, running); err != nil {
		return fmt.Errorf("set the state of %s %s: %w", kind, service, err)
	}
	return nil
}

// Close removes the namespaces with all that is in them. No operator may work in them any more: what its finalizers hold is let go.
func (s *Stage) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	errs := make([]error, len(s.namespaces))
	var wg sync.WaitGroup
	for i, name := range s.namespaces {
		wg.Go(func() { errs[i] = s.Remove(ctx, name) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Remove removes a namespace with all that is in it, as Close does.
func (s *Stage) Remove(ctx context.Context, namespace string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := client.IgnoreNotFound(s.Delete(ctx, ns)); err != nil {
		return fmt.Errorf("delete namespace %s: %w", namespace, err)
	}
	if err := s.letGo(ctx, namespace); err != nil {
		return err
	}
	return Await(ctx, closeTime, func(ctx context.Context) error {
		err := s.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && isHeld(ns) {
			// What an operator has sent before it was ended can arrive after that.
			err = s.letGo(ctx, namespace)
		}
		return errors.Join(err, fmt.Errorf("namespace %s is still being deleted", namespace))
	})
}

// isHeld tells whether finalizers are all that keeps a namespace from being gone.
func isHeld(ns *corev1.Namespace) bool {
	return slices.ContainsFunc(ns.Status.Conditions, func(c corev1.NamespaceCondition) bool {
		return c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue
	})
}

// letGo takes the finalizers off everything that an operator puts them on.
func (s *Stage) letGo(ctx context.Context, namespace string) error {
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, list := range []client.ObjectList{&v1.AivenApplicationList{}, &corev1.SecretList{}} {
		if err := s.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list what is held in namespace %s: %w", namespace, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.(client.Object)
			if !ok || len(obj.GetFinalizers()) == 0 {
				return nil
			}
			return client.IgnoreNotFound(s.Patch(ctx, obj, free))
		})
		if err != nil {
			return fmt.Errorf("let go what is held in namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// Await calls check every 100 milliseconds until it returns nil. When the limit or ctx is over, it says so, and what check returned last.
func Await(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		err := check(limited)
		if err == nil {
			return nil
		}
		if last == nil || limited.Err() == nil { // an error that only says that the time is up says less than the one before it
			last = err
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("%w: %w", context.Cause(ctx), last)
			}
			return fmt.Errorf("not so after %s: %w", limit, last)
		case <-ticker.C:
		}
	}
}

// Tail is the end of a log, at most so many lines of it.
func Tail(log string, lines int) string {
	all := strings.Split(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
