package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/resource/janitor"
)

// named is how many workloads an event names.
const named = 5

// Secret prepares and reports the deletion of Secrets: their users are taken back before they go.
type Secret struct {
	client   client.Reader // reads come from the cache
	locator  *locator
	events   events.EventRecorder
	settings binding.Settings

	incomplete prometheus.Counter
	// failures has what holds a Secret's deletion, as its owner was told last.
	failures sync.Map // types.UID -> string
	// leftovers has what was said and counted of users that cannot be cleaned up. A pass may be repeated to its very end, so that
	// nothing tells when to forget; such Secrets are exceptions.
	leftovers sync.Map // leftover -> nil
}

type leftover struct {
	secret types.UID
	text   string
}

// Prepare plans the clean-up of a Secret that is being deleted, from its annotations and from the record of its application. A copy that somebody made
// of a Secret is let go: its users belong to the original.
func (c *Secret) Prepare(ctx context.Context, s *corev1.Secret) (controller.Plan, error) {
	owner := binding.Owner(s)
	if s.DeletionTimestamp.IsZero() {
		_, signed := s.Annotations[key.AnnotationOwner]
		return controller.Plan{Release: signed && owner == ""}, nil
	}
	if owner == "" {
		c.leave(s, "nothing proves that this Secret is the original of an application: the users that it records, if any, were left alone")
		return controller.Plan{Release: true}, nil
	}
	app, err := c.application(ctx, s.Namespace, owner)
	if err != nil {
		return controller.Plan{}, err
	}
	set := &binding.Set{Namespace: s.Namespace, Application: owner, Secret: s.Name, Current: s}
	if set.Bindings, err = c.recorded(ctx, s, owner, app); err != nil {
		return controller.Plan{}, err
	}
	for _, b := range set.Bindings {
		c.locator.complete(ctx, b)
	}
	return controller.Plan{Delete: []any{set}}, nil
}

// recorded are the users of a Secret. What its application's status records is taken from there, the rest from the annotations, as far as
// they are complete and name a user that can be the application's.
func (c *Secret) recorded(ctx context.Context, s *corev1.Secret, owner string, app *v1.AivenApplication) ([]*binding.Binding, error) {
	var bindings []*binding.Binding
	others := c.locator.namespaces(ctx)
	if app != nil {
		for _, r := range app.Status.Bindings {
			b := fromRecord(r)
			if r.SecretName != s.Name || r.Username == "" || isUnpublished(&r) || !mayHold(b, s.Namespace, owner, c.settings, others) {
				continue
			}
			foreign, err := c.locator.foreign(ctx, b, s.Namespace, owner, s.Name)
			if err != nil {
				return nil, err
			}
			if !foreign {
				bindings = append(bindings, b)
			}
		}
	}
	if !binding.IsRotationReadable(s) {
		c.leave(s, "users that were replaced may be left at Aiven: annotation "+key.AnnotationRotation+" cannot be read")
	}
	annotated := binding.FromSecret(s)
	for _, b := range annotated {
		known := slices.ContainsFunc(bindings, b.IsUser)
		switch {
		case known, isElsewhere(app, s.Name, b):
		case mayOwn(b, s.Namespace, owner, c.settings, others) && !c.locator.taken(ctx, b, s.Namespace, owner):
			bindings = append(bindings, b)
		default:
			c.leave(s, fmt.Sprintf(
				"user %q may be left at Aiven: annotations record it on project %q, service %q, and it cannot be a user of application %s there",
				b.Username, b.Ref.Project, b.Ref.Service, owner))
		}
	}
	if len(bindings) == 0 && len(annotated) == 0 {
		c.leave(s, "a user may be left at Aiven: no annotation records one")
	}
	return bindings, nil
}

// isElsewhere tells whether an application's status records a user for another Secret: this one is a copy. Secrets of the earlier operator
// have nothing else that tells a copy from the original.
func isElsewhere(app *v1.AivenApplication, secret string, b *binding.Binding) bool {
	return app != nil && slices.ContainsFunc(app.Status.Bindings, func(r v1.Binding) bool {
		return r.SecretName != secret && r.Project == b.Ref.Project && b.IsUser(fromRecord(r))
	})
}

func (c *Secret) application(ctx context.Context, namespace, name string) (*v1.AivenApplication, error) {
	app := &v1.AivenApplication{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, app)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read application %s: %w", name, err)
	}
	return app, nil
}

// Report tells the owner what holds a Secret's deletion, or that its credentials are gone.
func (c *Secret) Report(s *corev1.Secret, results []resource.Result) {
	if s.DeletionTimestamp.IsZero() || len(results) == 0 {
		return
	}
	revoked := false
	for _, r := range results {
		if r.Err != nil {
			c.fail(s, "credentials cannot be taken back yet: "+message(r.Err))
			return
		}
		set, ok := r.Scope.(*binding.Set)
		revoked = revoked || ok && len(set.Bindings) > 0
	}
	c.failures.Delete(s.UID)
	if !revoked {
		return
	}
	c.events.Eventf(s, nil, corev1.EventTypeNormal, "CredentialsRevoked", "Revoke", "The users of this Secret are gone from Aiven")
	c.announce(s)
}

// announce tells an application that still asks for the Secret which workloads hold credentials that no longer work.
func (c *Secret) announce(s *corev1.Secret) {
	ctx := context.Background() // reads a cache
	app, err := c.application(ctx, s.Namespace, binding.Owner(s))
	if err != nil || app == nil || !slices.Contains(janitor.Index(app), s.Name) {
		return
	}
	users, err := janitor.Users(ctx, c.client, s.Namespace, s.Name, named)
	if err != nil || len(users) == 0 {
		return
	}
	c.events.Eventf(app, nil, corev1.EventTypeWarning, "CredentialsRevoked", "Revoke",
		"Secret %s was deleted and its credentials with it; restart what still holds them: %s", s.Name, strings.Join(users, ", "))
}

func (c *Secret) fail(s *corev1.Secret, text string) {
	if last, ok := c.failures.Swap(s.UID, text); ok && last == text {
		return
	}
	c.events.Eventf(s, nil, corev1.EventTypeWarning, "CleanupFailed", "CleanUp", "%s", text)
}

// leave says and counts, once, that users may be left behind.
func (c *Secret) leave(s *corev1.Secret, text string) {
	text = shorten(text)
	if _, said := c.leftovers.LoadOrStore(leftover{s.UID, text}, nil); said {
		return
	}
	c.incomplete.Inc()
	c.events.Eventf(s, nil, corev1.EventTypeWarning, "NotCleanedUp", "CleanUp", "%s", text)
}
