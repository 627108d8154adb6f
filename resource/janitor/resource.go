// Package janitor removes the Secrets that nobody uses. It runs periodically and when an application goes; it never calls Aiven:
// deleting a Secret is enough, its finalizer does the rest.
package janitor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Name is the resource's name in logs and metrics.
const Name = "janitor"

// Reason and action of the event that tells when a Secret was first found unused.
const (
	ReasonUnused = "Unused"
	ActionJudge  = "Judge"
)

// Resource is the janitor. One round runs at a time.
type Resource struct {
	client   client.Client // reads come from caches with SecretIndex
	server   client.Reader // reads come from the API server
	events   events.EventRecorder
	clock    clock.PassiveClock
	settings Settings

	managed *prometheus.GaugeVec
	deleted *prometheus.CounterVec

	// unused has when a Secret was first seen unused; unreadable, whose time limit has been complained about. Both forget
	// what is gone. A restart begins the grace anew.
	unused     map[types.UID]time.Time
	unreadable map[types.UID]bool
}

// Settings are what the janitor goes by.
type Settings struct {
	Grace      time.Duration // a Secret goes once it has been unused for so long
	Finalizer  string        // ours on Secrets
	Namespaces []string      // those that we work in; none: all
}

// New makes the janitor.
func New(c client.Client, server client.Reader, recorder events.EventRecorder, clk clock.PassiveClock, reg prometheus.Registerer, s Settings) *Resource {
	r := &Resource{
		client: c, server: server, events: recorder, clock: clk, settings: s,
		managed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aivenator_secrets_managed",
			Help: "Managed Secrets by the verdict of the last round of the janitor.",
		}, []string{"state"}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aivenator_kubernetes_resources_deleted",
			Help: "Kubernetes objects that were deleted.",
		}, []string{"namespace", "resource_type"}),
		unused:     map[types.UID]time.Time{},
		unreadable: map[types.UID]bool{},
	}
	reg.MustRegister(r.managed, r.deleted)
	return r
}

// ForgetNamespace drops the series of a namespace that is gone.
func (r *Resource) ForgetNamespace(name string) {
	r.deleted.DeletePartialMatch(prometheus.Labels{"namespace": name})
}

// Name is the resource's name in logs and metrics.
func (r *Resource) Name() string { return Name }

// EnsureDeleted does nothing: a periodic resource is never deleted.
func (r *Resource) EnsureDeleted(context.Context, any) error { return nil }

// EnsureCreated is one round: it judges every managed Secret and deletes those that have been unused for the grace period. It also restores
// what others took away that their clean-up needs: finalizers, and in namespaces that are going labels.
func (r *Resource) EnsureCreated(ctx context.Context, _ any) error {
	var secrets corev1.SecretList
	err := r.client.List(ctx, &secrets, client.MatchingLabels{key.LabelType: key.TypeAivenator}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list managed Secrets: %w", err)
	}
	now := r.clock.Now()
	counts := map[Verdict]int{InUse: 0, Protected: 0, NotExpired: 0, Unused: 0, NotOwned: 0, Leaving: 0}
	seen := make(map[types.UID]bool, len(secrets.Items))
	due := map[string][]*corev1.Secret{} // by namespace
	var next time.Duration
	var errs []error
	for i := range secrets.Items {
		s := &secrets.Items[i]
		seen[s.UID] = true
		verdict, err := r.verdict(ctx, s, now)
		if err != nil {
			return err
		}
		counts[verdict]++
		if verdict != NotOwned && verdict != Leaving {
			restored, err := r.hold(ctx, s)
			errs = append(errs, err)
			if restored {
				continue
			}
		}
		if verdict != Unused {
			delete(r.unused, s.UID)
			continue
		}
		since, ok := r.unused[s.UID]
		if !ok {
			since = now
			r.unused[s.UID] = since
		}
		if wait := r.settings.Grace - now.Sub(since); wait > 0 {
			if !ok {
				r.events.Eventf(s.DeepCopy(), nil, corev1.EventTypeNormal, ReasonUnused, ActionJudge,
					"No application asks for this Secret and no workload refers to it: it goes in %s unless that changes", wait)
			}
			next = earliest(next, wait)
			continue
		}
		due[s.Namespace] = append(due[s.Namespace], s)
	}
	r.forget(seen)
	for verdict, n := range counts {
		r.managed.WithLabelValues(string(verdict)).Set(float64(n))
	}
	if err := errors.Join(append(errs, r.remove(ctx, due), r.restore(ctx))...); err != nil {
		return err
	}
	if next > 0 {
		return resource.RequeueAfter(next, "a Secret has been unused for less than %s", r.settings.Grace)
	}
	return nil
}

func earliest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// verdict judges a Secret by what the caches know.
func (r *Resource) verdict(ctx context.Context, s *corev1.Secret, now time.Time) (Verdict, error) {
	j, err := Judge(s, func(owner string) (bool, error) {
		inUse, err := isRequested(ctx, r.client, s.Namespace, s.Name, owner)
		if err != nil || inUse {
			return inUse, err
		}
		users, err := Users(ctx, r.client, s.Namespace, s.Name, 1)
		return len(users) > 0, err
	}, now)
	if err != nil {
		return "", err
	}
	if j.Unreadable != nil && !r.unreadable[s.UID] {
		r.unreadable[s.UID] = true
		r.events.Eventf(s, nil, corev1.EventTypeWarning, "TimeLimitUnreadable", ActionJudge, "%s", j.Unreadable)
	}
	return j.Verdict, nil
}

// remove deletes Secrets, after it has asked the API server once more what refers to them. One that cannot be deleted does not
// hold back the others.
func (r *Resource) remove(ctx context.Context, due map[string][]*corev1.Secret) error {
	var errs []error
	for _, namespace := range slices.Sorted(maps.Keys(due)) {
		used, err := referred(ctx, r.server, namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, s := range due[namespace] {
			if used.of(s.Name, binding.Owner(s)) {
				delete(r.unused, s.UID)
				continue
			}
			errs = append(errs, r.delete(ctx, s))
		}
	}
	return errors.Join(errs...)
}

func (r *Resource) delete(ctx context.Context, s *corev1.Secret) error {
	err := r.client.Delete(ctx, s.DeepCopy(), client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // gone, or changed: the next round judges anew
	case err != nil:
		return fmt.Errorf("delete Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	r.deleted.WithLabelValues(s.Namespace, "Secret").Inc()
	log.FromContext(ctx).Info("unused secret deleted", "namespace", s.Namespace, "secret", s.Name)
	r.events.Eventf(s.DeepCopy(), nil, corev1.EventTypeNormal, ReasonUnused, "Delete", "No application asks for this Secret and no workload refers to it")
	return nil
}

func (r *Resource) forget(seen map[types.UID]bool) {
	maps.DeleteFunc(r.unused, func(uid types.UID, _ time.Time) bool { return !seen[uid] })
	maps.DeleteFunc(r.unreadable, func(uid types.UID, _ bool) bool { return !seen[uid] })
}
