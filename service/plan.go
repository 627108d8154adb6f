package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/keysmith-io/keysmith/flag"
	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	framework "github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/service/plan"
)

// Plan finds out what Run would do with these settings, and does nothing of it: it takes no lease, writes no object, sends no event, and changes
// nothing at Aiven. It needs those of the operator's rights that only read, and its token. It fails where the cluster or the Aiven API cannot be read.
func Plan(ctx context.Context, f flag.Flags, logger logr.Logger) (*plan.Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	config, err := restConfig(f, logger)
	if err != nil {
		return nil, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	own := Surroundings{Clock: clock.RealClock{}, Registry: prometheus.NewRegistry(), Stopping: ctx.Done()}
	api, err := newAiven(own, f, aiven.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer api.Close()
	if err := api.Probe(ctx); err != nil {
		return nil, err
	}
	mapper, kinds, err := instanceKinds(config, logger)
	if err != nil {
		return nil, err
	}
	manager := managerOptions(f, Scheme(), kinds, logger)
	manager.Cache.DefaultWatchErrorHandler = giveUp(cancel)
	c, err := cluster.New(config, func(o *cluster.Options) {
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
		o.Scheme, o.Logger, o.Cache, o.Client = manager.Scheme, manager.Logger, manager.Cache, manager.Client
	})
	if err != nil {
		return nil, fmt.Errorf("set up the Kubernetes client: %w", err)
	}
	report, err := planOf(ctx, c, own, f, api, kinds)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, cause
	}
	return report, err
}

// giveUp ends a plan, with the reason, where something cannot be read: nobody waits here until it can.
func giveUp(cancel context.CancelCauseFunc) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		cancel(fmt.Errorf("read the cluster: %w", err))
	}
}

func planOf(ctx context.Context, c cluster.Cluster, s Surroundings, f flag.Flags, api *aiven.Client, kinds []binding.Kind) (*plan.Report, error) {
	if f.ClusterName == "" {
		var err error
		if f.ClusterName, err = clusterUID(ctx, c.GetAPIReader()); err != nil {
			return nil, err
		}
	}
	if err := index(ctx, c.GetFieldIndexer()); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		_ = c.Start(ctx) // one that fails never syncs, which is noticed
	}()
	defer func() {
		cancel()
		<-ended
	}()

	if !c.GetCache().WaitForCacheSync(ctx) {
		return nil, errors.New("read the cluster: the cache did not start")
	}
	p := plan.New(c.GetClient(), c.GetAPIReader(), api, indexes)
	built := parts{
		Surroundings: s, client: p.Client(), server: p.Server(), aiven: p.Services(), events: p.Events(), kinds: kinds,
		metrics: framework.NewMetrics(s.Registry),
	}
	applications, secrets, err := built.controllers(f, built.publisher(f), func() {})
	if err != nil {
		return nil, err
	}
	f.JanitorGrace = 0 // what is unused now would go after the grace
	return p.Run(ctx, applications, secrets, built.janitor(f), f.Workers)
}

// readOnly refuses what would go past the record of a plan.
type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return nil, fmt.Errorf("%s %s: a plan changes nothing", req.Method, req.URL.Path)
	}
	return r.next.RoundTrip(req)
}
