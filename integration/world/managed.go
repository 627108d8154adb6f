package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Earlier makes a Secret as the earlier operator left it behind, with the user of an application on the Kafka service of Pool, which exists too. Edits
// are made before it is stored. It returns the user's name.
func (w *World) Earlier(name, app string, edits ...func(*corev1.Secret)) (username string) {
	w.t.Helper()
	username = key.Identity{Cluster: "earlier", Namespace: w.Namespace, Application: app, Project: Pool, Service: w.Kafka.Name() + name}.Kafka()
	user := w.Kafka.AddUser(aivensim.User{Username: username})
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: name, Finalizers: []string{key.FinalizerAivenator},
			Labels: map[string]string{
				key.LabelApp: app, key.LabelTeam: w.Namespace, key.LabelType: key.TypeAivenator,
				key.LabelGeneration: "0", key.Protected: "false",
			},
			Annotations: map[string]string{
				key.Protected: "false", key.AnnotationKafkaUser: username, key.AnnotationKafkaPool: Pool,
			},
		},
		Data: map[string][]byte{key.KafkaSchemaRegistryUser: []byte(username), key.KafkaSchemaRegistryPassword: []byte(user.Password)},
	}
	for _, edit := range edits {
		edit(s)
	}
	w.Make(s)
	return username
}

// Protected is an edit for Earlier: the Secret is protected and, unless it is empty, has a time limit.
func Protected(limit string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Labels[key.Protected], s.Annotations[key.Protected] = "true", "true"
		if limit != "" {
			s.Annotations[key.AnnotationTimeLimit], s.Annotations[key.AnnotationExpiresAt] = "true", limit
		}
	}
}

// Sweep waits until the janitor has judged what is there now and has acted on it: until two unused Secrets, made one after the other, are
// gone. It needs the janitor as quick as Start makes it.
func (w *World) Sweep() {
	w.t.Helper()
	for i := range 2 {
		name := "swept-" + strconv.Itoa(i)
		w.Make(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: name,
			Labels:      map[string]string{key.LabelType: key.TypeAivenator},
			Annotations: map[string]string{key.AnnotationOwner: key.Owner(w.Namespace, name, "nobody")},
		}})
		w.Gone(&corev1.Secret{}, name)
	}
}

// Make creates an object; again, if its namespace is too new to have a service account for Pods.
func (w *World) Make(obj client.Object) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error {
		err := w.Create(ctx, obj)
		if err != nil && !apierrors.IsForbidden(err) {
			w.t.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
		}
		return err
	})
}

// Remove deletes an object; it does not wait until it is gone.
func (w *World) Remove(obj client.Object) {
	w.t.Helper()
	if err := w.Delete(w.t.Context(), obj); err != nil {
		w.t.Fatalf("delete %T %s: %v", obj, obj.GetName(), err)
	}
}

// Merge applies a merge patch to an object.
func (w *World) Merge(obj client.Object, patch string) {
	w.t.Helper()
	if err := w.Patch(w.t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatalf("patch %T %s: %v", obj, obj.GetName(), err)
	}
}

// Replaced waits until there is another Secret than before of a name that is not being deleted, and returns it.
func (w *World) Replaced(before *corev1.Secret) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	w.Eventually(func(ctx context.Context) error {
		if err := w.Get(ctx, client.ObjectKeyFromObject(before), s); err != nil {
			return err
		}
		if s.UID == before.UID || !s.DeletionTimestamp.IsZero() {
			return fmt.Errorf("Secret %s is still the one of before, or is going", before.Name)
		}
		return nil
	})
	return s
}

// UsersAre waits until a service has exactly these users, less the built-in ones.
func (w *World) UsersAre(s *aivensim.Service, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	w.Eventually(func(context.Context) error {
		if diff := cmp.Diff(want, Users(s)); diff != "" {
			return fmt.Errorf("users of %s (-want +got):\n%s", s.Name(), diff)
		}
		return nil
	})
}

// Calls are the requests of an operation about a user, as the simulator's journal has them.
func (w *World) Calls(operation aivensim.Operation, username string) []aivensim.Entry {
	return slices.DeleteFunc(w.Sim.Journal(), func(e aivensim.Entry) bool {
		return e.Operation != operation || e.Username != username
	})
}

// Metric is the value of a series, or the sum over a bare name, as operator.Process.Metric reads it; zero where there is none. The
// operator has to be up.
func (w *World) Metric(series string) float64 {
	w.t.Helper()
	var value float64
	w.Eventually(func(ctx context.Context) (err error) {
		value, err = w.Operator.Metric(ctx, series)
		if err != nil && strings.HasSuffix(err.Error(), "there is none") {
			return nil
		}
		return err
	})
	return value
}

// MetricIs waits until a series has a value.
func (w *World) MetricIs(series string, want float64) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error {
		got, err := w.Operator.Metric(ctx, series)
		if err == nil && got != want {
			err = fmt.Errorf("%s: got %v, want %v", series, got, want)
		}
		return err
	})
}

// NamespaceGone waits until the world's namespace is gone, which takes its controller some time beyond the end of what is in it.
func (w *World) NamespaceGone() {
	w.t.Helper()
	env.Eventually(w.t, 2*Deadline+time.Minute, func(ctx context.Context) error {
		ns := &corev1.Namespace{}
		err := w.Get(ctx, client.ObjectKey{Name: w.Namespace}, ns)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("namespace %s is still there: %+v", w.Namespace, ns.Status))
	})
}
