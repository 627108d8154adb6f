// Package service puts the program together: clients, caches, middleware, controllers and the janitor under one manager.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/giantswarm/k8sclient/v7/pkg/k8srestconfig"
	"github.com/giantswarm/micrologger"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/keysmith-io/keysmith/flag"
	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	framework "github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/project"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/resource/janitor"
	"github.com/keysmith-io/keysmith/resource/secret"
	"github.com/keysmith-io/keysmith/service/controller"
)

const (
	// grace is how long running passes have to finish after the process was asked to stop; the manager waits a little longer.
	grace        = 20 * time.Second
	shutdownTime = 25 * time.Second
	// probeInterval is how often the Aiven API is asked whether it is there.
	probeInterval = 30 * time.Second
)

// Surroundings are what the operator has of its process. Run gives it those of a process of its own; tests give others, to move the time.
type Surroundings struct {
	// Clock tells the time of all that lasts longer than a pass. Short waits within one are real.
	Clock clock.PassiveClock
	// NewQueue makes the queues, which keep the time between passes. nil: those of controller-runtime.
	NewQueue framework.NewQueue
	Registry prometheus.Registerer
	// Stopping is closed when the operator is asked to stop, which lets running passes finish. Where ctx ends without it, they are cancelled.
	Stopping <-chan struct{}
	// Manager changes the manager's options. nil: nothing is changed.
	Manager func(*manager.Options)
}

// Run runs the operator until ctx ends, which lets running passes finish.
func Run(ctx context.Context, f flag.Flags, logger logr.Logger) error {
	return RunIn(ctx, Surroundings{Clock: clock.RealClock{}, Registry: crmetrics.Registry, Stopping: ctx.Done()}, f, logger)
}

// RunIn is Run in surroundings of the caller's choice.
func RunIn(ctx context.Context, s Surroundings, f flag.Flags, logger logr.Logger) error {
	config, err := restConfig(f, logger)
	if err != nil {
		return err
	}
	metrics := framework.NewMetrics(s.Registry)
	promauto.With(s.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "keysmith_build_info", Help: "1; its labels say which build runs.",
		ConstLabels: prometheus.Labels{"version": project.Version(), "commit": project.Commit()},
	}).Set(1)
	var mayWrite func() error
	if f.LeaderElection {
		l := newLease(project.Name)
		config.Wrap(l.guard)
		mayWrite = l.check
	}
	mapper, kinds, err := instanceKinds(config, logger)
	if err != nil {
		return err
	}
	options := managerOptions(f, Scheme(), kinds, logger)
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
	options.Cache.DefaultWatchErrorHandler = metrics.WatchErrorHandler(logger)
	if s.Manager != nil {
		s.Manager(&options)
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	api, err := newAiven(s, f, aiven.Options{MayWrite: mayWrite})
	if err != nil {
		return err
	}
	defer api.Close()
	if f.ClusterName == "" {
		if f.ClusterName, err = clusterUID(ctx, mgr.GetAPIReader()); err != nil {
			return err
		}
	}
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := addControllers(ctx, mgr, s, f, api, kinds, metrics); err != nil {
		return err
	}
	if err := addHealth(mgr, api); err != nil {
		return err
	}
	logger.Info("starting", "version", project.Version(), "commit", project.Commit(), "cluster", f.ClusterName,
		"projects", f.Projects, "mainProject", f.MainProject, "aiven", f.AivenURL)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// Scheme knows every type that the operator reads or writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two types of one name: a mistake that every test would see
		}
	}
	return scheme
}

func managerOptions(f flag.Flags, scheme *runtime.Scheme, kinds []binding.Kind, logger logr.Logger) manager.Options {
	shutdown := shutdownTime
	return manager.Options{
		Scheme: scheme,
		Logger: logger,
		Cache:  cacheOptions(f.Namespaces, kinds),
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},

		LeaderElection:                f.LeaderElection,
		LeaderElectionID:              project.Name,
		LeaderElectionNamespace:       leaseNamespace(f),
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &shutdown,

		Metrics:                metricsserver.Options{BindAddress: f.MetricsAddress},
		HealthProbeBindAddress: f.HealthAddress,
	}
}

// cacheOptions keep of the cluster what the operator needs: managed Secrets, and of everything else as little as possible.
func cacheOptions(namespaces []string, kinds []binding.Kind) cache.Options {
	byObject := map[client.Object]cache.ByObject{
		&corev1.Secret{}:    {Label: labels.SelectorFromSet(labels.Set{key.LabelType: key.TypeAivenator})},
		&corev1.Namespace{}: {Transform: stripNamespace},
	}
	for _, workload := range janitor.Workloads() {
		byObject[workload] = cache.ByObject{Transform: janitor.Strip}
	}
	for _, kind := range kinds {
		byObject[controller.Instance(kind)] = cache.ByObject{Transform: controller.StripInstance}
	}
	options := cache.Options{ByObject: byObject, DefaultTransform: cache.TransformStripManagedFields()}
	for _, name := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[name] = cache.Config{}
	}
	return options
}

// stripNamespace keeps a namespace's name and whether it is going away.
func stripNamespace(obj any) (any, error) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return obj, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: ns.Name, UID: ns.UID, ResourceVersion: ns.ResourceVersion, DeletionTimestamp: ns.DeletionTimestamp,
	}}, nil
}

// leaseNamespace is where the lease is: inside a cluster the manager knows better.
func leaseNamespace(f flag.Flags) string {
	if f.LeaderElectionNamespace != "" || f.KubernetesInCluster {
		return f.LeaderElectionNamespace
	}
	return "default"
}

// restConfig makes the configuration of the Kubernetes client. The API server's own flow control limits us better than a
// number in this program.
func restConfig(f flag.Flags, logger logr.Logger) (*rest.Config, error) {
	silent, err := micrologger.New(micrologger.Config{IOWriter: io.Discard})
	if err != nil {
		return nil, fmt.Errorf("set up the Kubernetes client: %w", err)
	}
	kubeconfig, err := readKubeconfig(f.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := k8srestconfig.New(k8srestconfig.Config{
		Logger:     silent,
		Address:    f.KubernetesAddress,
		InCluster:  f.KubernetesInCluster,
		KubeConfig: kubeconfig,
		TLS: k8srestconfig.ConfigTLS{
			CAFile: f.TLSCAFile, CrtFile: f.TLSCertFile, KeyFile: f.TLSKeyFile,
			CAData: []byte(f.TLSCAData), CrtData: []byte(f.TLSCertData), KeyData: []byte(f.TLSKeyData.Reveal()),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the Kubernetes client: %w", err)
	}
	config.QPS = -1
	config.DisableCompression = true // each watch would keep a decompressor; the API server is near
	config.Timeout = 0               // it would end watches; every call has a context with a deadline
	config.UserAgent = project.Name + "/" + project.Version()
	config.WarningHandler = warnings{logger}
	return config, nil
}

// readKubeconfig reads a kubeconfig file, with the files that it names beside it.
func readKubeconfig(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	loaded, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := clientcmd.ResolveLocalPaths(loaded); err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	raw, err := clientcmd.Write(*loaded)
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	return string(raw), nil
}

// warnings logs what the API server warns of, but for the version that the operator reads on purpose.
type warnings struct{ logger logr.Logger }

// HandleWarningHeader takes one warning.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	if code == 299 && !strings.Contains(text, "deprecated, use v2") {
		w.logger.Info("the API server warns", "warning", text)
	}
}

// NewAiven makes the client of the Aiven API that the flags describe.
func NewAiven(s Surroundings, f flag.Flags) (*aiven.Client, error) {
	return newAiven(s, f, aiven.Options{})
}

// newAiven makes such a client; the flags fill in the options.
func newAiven(s Surroundings, f flag.Flags, o aiven.Options) (*aiven.Client, error) {
	o.Token = f.AivenToken.Reveal
	if f.AivenTokenFile != "" {
		file, err := flag.NewTokenFile(f.AivenTokenFile)
		if err != nil {
			return nil, err
		}
		o.Token = file.Reveal
	}
	if f.AivenCAFile != "" {
		var err error
		if o.RootCAs, err = os.ReadFile(f.AivenCAFile); err != nil {
			return nil, fmt.Errorf("read the CA of the Aiven API: %w", err)
		}
	}
	o.URL, o.UserAgent, o.Clock, o.Registry = f.AivenURL, project.Name+"/"+project.Version(), s.Clock, s.Registry
	o.Timeout, o.Parallel, o.QPS, o.Burst, o.MaxAge = f.AivenTimeout, f.AivenParallel, f.AivenQPS, f.AivenBurst, f.SnapshotAge
	api, err := aiven.New(o)
	if err != nil {
		return nil, fmt.Errorf("set up the Aiven client: %w", err)
	}
	return api, nil
}

// instanceKinds are the kinds of instances that the API server knows. Where the Aiven operator is not installed there are none, and none
// can be waited for. The mapper that it asks serves the manager too.
func instanceKinds(config *rest.Config, logger logr.Logger) (meta.RESTMapper, []binding.Kind, error) {
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the API server: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, c)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the API server: %w", err)
	}
	var kinds []binding.Kind
	for kind, gvk := range controller.InstanceKinds {
		_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		switch {
		case err == nil:
			kinds = append(kinds, kind)
		case meta.IsNoMatchError(err):
			logger.Info("no instances of this kind can be used until its definition is installed and the operator is started again", "kind", gvk.String())
		default:
			return nil, nil, fmt.Errorf("look up %s: %w", gvk, err)
		}
	}
	return mapper, kinds, nil
}

// clusterUID tells clusters apart by what none of them shares with another.
func clusterUID(ctx context.Context, server client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := server.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &ns); err != nil {
		return "", fmt.Errorf("find out which cluster this is (--cluster-name says it too): %w", err)
	}
	return string(ns.UID), nil
}

// indexes are the fields under which the cache finds applications: by what they refer to, and by the users that their status records.
var indexes = map[string]client.IndexerFunc{
	janitor.SecretIndex: janitor.Index, controller.InstanceIndex: controller.Instances, controller.UserIndex: controller.Users,
}

// index lets the caches answer which object refers to which Secret, and which application to what.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, obj := range janitor.Workloads() {
		if err := indexer.IndexField(ctx, obj, janitor.SecretIndex, janitor.Index); err != nil {
			return fmt.Errorf("index what refers to Secrets: %w", err)
		}
	}
	if err := indexer.IndexField(ctx, &corev1.Secret{}, controller.UserIndex, controller.Users); err != nil {
		return fmt.Errorf("index which users Secrets record: %w", err)
	}
	for field, values := range indexes {
		if err := indexer.IndexField(ctx, &v1.AivenApplication{}, field, values); err != nil {
			return fmt.Errorf("index applications by %s: %w", field, err)
		}
	}
	return nil
}

func addControllers(
	ctx context.Context, mgr manager.Manager, s Surroundings, f flag.Flags, api *aiven.Client, kinds []binding.Kind, metrics *framework.Metrics,
) error {
	p := parts{
		Surroundings: s, client: mgr.GetClient(), server: mgr.GetAPIReader(), aiven: api, events: mgr.GetEventRecorder(project.Name),
		kinds: kinds, metrics: metrics, elected: mgr.Elected(),
	}
	clean := p.janitor(f)
	sweep, err := framework.NewPeriodic(framework.PeriodicConfig{
		Name: janitor.Name, Resource: clean,
		Interval: f.JanitorPeriod, Stopping: s.Stopping, Grace: grace, Clock: s.Clock, NewQueue: s.NewQueue, Metrics: metrics,
	})
	if err != nil {
		return fmt.Errorf("set up the janitor: %w", err)
	}
	publish := p.publisher(f)
	if err := onNamespaceGone(ctx, mgr.GetCache(), clean.ForgetNamespace, publish.ForgetNamespace); err != nil {
		return err
	}
	applications, secrets, err := p.controllers(f, publish, sweep.Trigger)
	if err != nil {
		return err
	}
	return errors.Join(applications.SetupWithManager(mgr), secrets.SetupWithManager(mgr), sweep.SetupWithManager(mgr))
}

// parts are what controllers and janitor are made of. What they read and write by is all that tells the daemon from a plan.
type parts struct {
	Surroundings
	client  client.Client
	server  client.Reader
	aiven   controller.Services
	events  events.EventRecorder
	kinds   []binding.Kind
	metrics *framework.Metrics
	elected <-chan struct{} // nil: never
}

func (p parts) janitor(f flag.Flags) *janitor.Resource {
	return janitor.New(p.client, p.server, p.events, p.Clock, p.Registry, janitor.Settings{
		Grace: f.JanitorGrace, Finalizer: framework.Finalizer(controller.SecretName), Namespaces: f.Namespaces,
	})
}

func (p parts) publisher(f flag.Flags) *secret.Resource {
	return secret.New(p.client, p.aiven, p.Clock, p.Registry, secret.Settings{
		Project: f.MainProject, Finalizer: framework.Finalizer(controller.SecretName),
		Stores: secret.Stores{
			Encoding: credstore.Encoding(f.StoreEncoding), Password: f.StorePassword.Reveal(), RandomPassword: f.StorePasswordRandom,
		},
	})
}

// controllers are made with the resource that publishes, and with what asks for a round of the janitor.
func (p parts) controllers(f flag.Flags, publish *secret.Resource, sweep func()) (
	*framework.Controller[*v1.AivenApplication], *framework.Controller[*corev1.Secret], error,
) {
	measure := middleware.NewMetrics(p.Registry, p.Clock)
	return controller.New(controller.Options{
		Client: p.client, Server: p.server, Aiven: p.aiven,
		Slice: resource.Wrap(controller.Resources(p.aiven, publish),
			middleware.Logging(p.Clock), measure.Middleware(project.Name), middleware.Retry(nil, nil)),
		Events: p.events, Clock: p.Clock, Registry: p.Registry, Metrics: p.metrics,
		Settings: binding.Settings{Project: f.MainProject, Pools: f.Projects, Cluster: f.ClusterName},
		Janitor:  sweep, Kinds: p.kinds, Elected: p.elected,
		Workers: f.Workers, Resync: f.Resync, Stopping: p.Stopping, NewQueue: p.NewQueue,
	})
}

// onNamespaceGone calls functions with the name of each namespace that disappears.
func onNamespaceGone(ctx context.Context, c cache.Cache, calls ...func(name string)) error {
	informer, err := c.GetInformer(ctx, &corev1.Namespace{})
	if err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		if ns, ok := obj.(*corev1.Namespace); ok {
			for _, call := range calls {
				call(ns.Name)
			}
		}
	}})
	if err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	return nil
}

// addHealth answers whether the process lives and whether it can do its work, which it cannot without the Aiven API.
func addHealth(mgr manager.Manager, api *aiven.Client) error {
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("aiven", func(*http.Request) error { return api.Ready() }),
		mgr.Add(prober{api, mgr.GetLogger()}),
	)
}

// prober asks the Aiven API now and then whether it is there, and logs it when the answer changes: what is refused to the token is nothing that the
// owners of applications could mend. It runs in every replica.
type prober struct {
	api    *aiven.Client
	logger logr.Logger
}

// NeedLeaderElection says that it runs in every replica.
func (prober) NeedLeaderElection() bool { return false }

// Start probes until ctx ends.
func (p prober) Start(ctx context.Context) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	last := ""
	for {
		err := cmp.Or(p.api.Probe(ctx), p.api.Refused())
		if ctx.Err() != nil {
			return nil
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		switch {
		case text == last:
		case err != nil:
			p.logger.Error(err, "the Aiven API cannot be used as it should")
		default:
			p.logger.Info("the Aiven API can be used again")
		}
		last = text
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
