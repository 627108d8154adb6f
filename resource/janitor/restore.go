package janitor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// hold gives a Secret that records users its finalizer back, if somebody took it away, and tells whether it did. Without it the Secret would go at once, and
// its users would stay.
func (r *Resource) hold(ctx context.Context, s *corev1.Secret) (bool, error) {
	held := slices.Contains(s.Finalizers, r.settings.Finalizer) || slices.Contains(s.Finalizers, key.FinalizerAivenator)
	if held || len(binding.FromSecret(s)) == 0 {
		return false, nil
	}
	patched := s.DeepCopy()
	patched.Finalizers = append(patched.Finalizers, r.settings.Finalizer)
	err := r.client.Patch(ctx, patched, client.MergeFromWithOptions(s, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true, nil // gone, or changed: the next round looks anew
	case err != nil:
		return true, fmt.Errorf("restore the finalizer of Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	log.FromContext(ctx).Info("finalizer of secret restored", "namespace", s.Namespace, "secret", s.Name)
	return true, nil
}

// restore gives Secrets with our finalizer the type label back that somebody took away, in namespaces that are going. Nobody sees them without it, and
// they would hold their namespace for ever. What becomes of their users is decided as for any Secret.
func (r *Resource) restore(ctx context.Context) error {
	var namespaces corev1.NamespaceList
	if err := r.client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	var errs []error
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		mine := len(r.settings.Namespaces) == 0 || slices.Contains(r.settings.Namespaces, ns.Name)
		if mine && !ns.DeletionTimestamp.IsZero() {
			errs = append(errs, r.restoreIn(ctx, ns.Name))
		}
	}
	return errors.Join(errs...)
}

func (r *Resource) restoreIn(ctx context.Context, namespace string) error {
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		if err := r.server.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(next)); err != nil {
			return fmt.Errorf("list Secrets of namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			m := &list.Items[i]
			if m.Labels[key.LabelType] == key.TypeAivenator || !slices.Contains(m.Finalizers, r.settings.Finalizer) {
				continue
			}
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.Name}}
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key.LabelType, key.TypeAivenator)
			if err := client.IgnoreNotFound(r.client.Patch(ctx, s, client.RawPatch("application/merge-patch+json", patch))); err != nil {
				return fmt.Errorf("label Secret %s/%s: %w", namespace, m.Name, err)
			}
			log.FromContext(ctx).Info("label of secret restored", "namespace", namespace, "secret", m.Name)
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}
