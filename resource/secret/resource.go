// Package secret publishes credentials: it builds the Secret of a set from its bindings and writes it when its content differs.
package secret

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/credstore"
)

// Name is the resource's name in logs and metrics.
const Name = "secret"

// Services is the part of the Aiven API that this resource uses.
type Services interface {
	Service(ctx context.Context, ref aiven.Ref) (*aiven.Service, error)
	CA(ctx context.Context, project string) (string, error)
}

// Settings are what an installation decides.
type Settings struct {
	Project   string // the project whose CA is published
	Finalizer string // put on every Secret
	Stores    Stores
}

// Stores says how key stores and trust stores are made.
type Stores struct {
	Encoding       credstore.Encoding
	Password       string // of all stores
	RandomPassword bool   // in place of that, each Secret has a password of its own

	trust *trust // filled in by New
}

// trust is the trust store that all Secrets have whose password is the common one: to make another takes milliseconds.
type trust struct {
	mu    sync.Mutex
	ca    string // that it was made of
	store []byte
}

// trustStore is the store of a CA. The one made last is used again.
func (s Stores) trustStore(ca string, bundle *credstore.CA, password string) ([]byte, error) {
	if s.trust == nil || password != s.Password {
		return s.Encoding.TrustStore(bundle, password)
	}
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	if s.trust.ca == ca {
		return s.trust.store, nil
	}
	store, err := s.Encoding.TrustStore(bundle, password)
	if err == nil {
		s.trust.ca, s.trust.store = ca, store
	}
	return store, err
}

// Resource ensures the Secret of a set.
type Resource struct {
	client   client.Client
	services Services
	clock    clock.PassiveClock
	settings Settings
	written  *prometheus.CounterVec
	skipped  *prometheus.CounterVec
}

// New makes the resource.
func New(c client.Client, services Services, clk clock.PassiveClock, reg prometheus.Registerer, s Settings) *Resource {
	s.Stores.trust = &trust{}
	labels := []string{"namespace", "resource_type"}
	r := &Resource{client: c, services: services, clock: clk, settings: s,
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aivenator_kubernetes_resources_written",
			Help: "Kubernetes objects that were created or changed.",
		}, labels),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aivenator_kubernetes_resources_not_written",
			Help: "Kubernetes objects that were left alone because they were as they should be.",
		}, labels),
	}
	reg.MustRegister(r.written, r.skipped)
	return r
}

// ForgetNamespace drops the series of a namespace that is gone.
func (r *Resource) ForgetNamespace(name string) {
	r.written.DeletePartialMatch(prometheus.Labels{"namespace": name})
	r.skipped.DeletePartialMatch(prometheus.Labels{"namespace": name})
}

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return Name }

// EnsureDeleted does nothing: whoever deletes a Secret does so before its credentials are taken back, and the finalizer holds it
// until they are.
func (r *Resource) EnsureDeleted(context.Context, *binding.Set) error { return nil }
