package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// immutableWait is how often an immutable Secret is looked at again. Only somebody's hand can mend it.
const immutableWait = 10 * time.Minute

// EnsureCreated writes the Secret, if it has to. What works is written although other bindings failed; what failed keeps the keys
// that the Secret had before.
func (r *Resource) EnsureCreated(ctx context.Context, set *binding.Set) error {
	contents := make(map[*binding.Binding]content, len(set.Bindings))
	for _, b := range append(set.Alive(), set.Successors()...) {
		if b.Err != nil {
			continue
		}
		c, err := r.content(ctx, b, set.Current)
		if err != nil {
			b.Err = err
			continue
		}
		contents[b] = c
	}
	if len(set.Alive()) == 0 {
		return set.Err()
	}
	ca, err := r.services.CA(ctx, r.settings.Project)
	if err != nil {
		return errors.Join(err, set.Err())
	}
	now, next := r.clock.Now(), set
	for b := range contents {
		if b.IssuedAt.IsZero() && set.Interval > 0 {
			b.IssuedAt = now.Truncate(time.Second)
		}
	}
	if rotates(set, contents) {
		next = set.Rotated(now)
		for i, b := range set.Bindings {
			if b.Successor != nil && !b.Successor.Waits {
				contents[next.Bindings[i]] = contents[b.Successor]
			}
		}
	}
	want := desired(next, contents, ca, r.settings.Finalizer, now)
	if err := r.write(ctx, next, want); err != nil {
		return errors.Join(err, set.Err())
	}
	*set = *next
	for _, b := range set.Bindings {
		_, b.Published = contents[b]
		if b.Published && b.User.IsExpired(now) {
			b.Err = expired(b)
		}
	}
	if set.Due {
		return errors.Join(immutable(set), set.Err())
	}
	return resource.Partial(set.Err())
}

// expiredWait is how often a user whose certificate has expired is looked at until it is replaced.
const expiredWait = time.Minute

func expired(b *binding.Binding) error {
	return binding.Waiting(binding.ReasonExpired, expiredWait, "the certificate of user %s of %s expired at %s and Aiven has made no other: the user is to be replaced",
		b.Username, b.Ref.Service, b.User.CertificateExpires.UTC().Format(time.RFC3339))
}

// rotates tells whether there are successors and all of them can be published: the users of a Secret are replaced in one write.
func rotates(set *binding.Set, contents map[*binding.Binding]content) bool {
	successors := set.Successors()
	return len(successors) > 0 && !slices.ContainsFunc(successors, func(b *binding.Binding) bool {
		_, ok := contents[b]
		return !ok
	})
}

func immutable(set *binding.Set) error {
	return binding.Waiting(binding.ReasonSecretImmutable, immutableWait,
		"Secret %s is immutable and cannot be brought up to date: delete it, and it is made again", set.Secret)
}

func (r *Resource) write(ctx context.Context, set *binding.Set, want *corev1.Secret) error {
	current := set.Current
	if current == nil {
		return r.create(ctx, set, want)
	}
	if equality.Semantic.DeepEqual(current, want) {
		r.skipped.WithLabelValues(set.Namespace, "Secret").Inc()
		return nil
	}
	if current.Immutable != nil && *current.Immutable && !equality.Semantic.DeepEqual(current.Data, want.Data) {
		return immutable(set)
	}
	if err := r.client.Patch(ctx, want, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch Secret %s: %w", set.Secret, err)
	}
	set.Written = changes(current, want)
	r.wrote(ctx, set, want, "secret changed")
	return nil
}

func (r *Resource) create(ctx context.Context, set *binding.Set, want *corev1.Secret) error {
	err := r.client.Create(ctx, want)
	if apierrors.IsAlreadyExists(err) {
		// A stranger's, or our own that the cache does not show yet. The next pass looks at the API server.
		return resource.RequeueAfter(time.Second, "Secret %s appeared in the meantime", set.Secret)
	}
	if err != nil {
		return fmt.Errorf("create Secret %s: %w", set.Secret, err)
	}
	set.Written = "all of it"
	r.wrote(ctx, set, want, "secret created")
	return nil
}

func (r *Resource) wrote(ctx context.Context, set *binding.Set, s *corev1.Secret, message string) {
	r.written.WithLabelValues(set.Namespace, "Secret").Inc()
	log.FromContext(ctx).Info(message, "secret", set.Secret, "resourceVersion", s.ResourceVersion)
}

// named is how many keys are named to people.
const named = 5

// changes says to people what differs between two states of a Secret. Keys of others, which go, are not named.
func changes(before, after *corev1.Secret) string {
	var parts []string
	removed := 0
	for k := range before.Data {
		if _, ok := after.Data[k]; !ok {
			removed++
		}
	}
	for _, k := range slices.Sorted(maps.Keys(after.Data)) {
		if k != key.SecretUpdated && k != key.KafkaSecretUpdated && !bytes.Equal(before.Data[k], after.Data[k]) {
			parts = append(parts, k)
		}
	}
	if more := len(parts) - named; more > 0 {
		parts = append(parts[:named], fmt.Sprintf("%d more", more))
	}
	if removed > 0 {
		parts = append(parts, fmt.Sprintf("keys of others removed: %d", removed))
	}
	if len(parts) == 0 {
		return "labels and annotations"
	}
	return strings.Join(parts, ", ")
}

// skeleton is what a Secret of ours is before it holds anything.
func skeleton(set *binding.Set) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Secret},
		Type:       corev1.SecretTypeOpaque,
	}
}
