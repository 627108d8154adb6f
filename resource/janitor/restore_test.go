package janitor

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keysmith-io/keysmith/pkg/key"
)

// finalizer is ours on Secrets.
const finalizer = "operatorkit.giantswarm.io/keysmith-secret"

func TestSecretsWithoutTheirLabelHoldNoNamespace(t *testing.T) {
	now := metav1.Now()
	namespace := func(name string, going bool) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if going {
			ns.DeletionTimestamp, ns.Finalizers = &now, []string{"test/held"}
		}
		return ns
	}
	secret := func(namespace, name, finalizer string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Finalizers: []string{finalizer}, Labels: map[string]string{"theirs": "stays"},
		}}
	}
	r := newRound(t, time.Minute, interceptor.Funcs{},
		namespace("shop", false), namespace("gone", true), namespace("elsewhere", true),
		secret("gone", "ours", finalizer), secret("gone", "foreign", "other/finalizer"),
		secret("shop", "ours", finalizer), secret("elsewhere", "ours", finalizer))
	if err := r.EnsureCreated(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var list corev1.SecretList
	if err := r.List(t.Context(), &list, client.MatchingLabels{key.LabelType: key.TypeAivenator, "theirs": "stays"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list.Items {
		got = append(got, s.Namespace+"/"+s.Name)
	}
	if want := []string{"gone/ours"}; !slices.Equal(got, want) {
		t.Errorf("labelled are %q, want %q", got, want)
	}
}

func TestNoSecretThatRecordsUsersGoesWithoutItsFinalizer(t *testing.T) {
	const earlier = key.FinalizerAivenator
	records := map[string]string{key.AnnotationKafkaUser: "shop_cart_00000000_abc", key.AnnotationKafkaPool: "dev"}
	secret := func(name string, annotations map[string]string, finalizers ...string) *corev1.Secret {
		s := managed(name, annotations)
		s.Finalizers = finalizers
		return s
	}
	twin := secret("copy", records)
	twin.Annotations[key.AnnotationOwner] = key.Owner("shop", "original", "cart")
	r := newRound(t, 0, interceptor.Funcs{},
		secret("bare", records), secret("foreign", records, "other/finalizer"), secret("ours", records, finalizer), secret("earlier", records, earlier),
		secret("empty", nil), twin)
	for range 2 {
		if err := r.EnsureCreated(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	var list corev1.SecretList
	if err := r.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, s := range list.Items {
		if s.DeletionTimestamp.IsZero() != (s.Name == "copy") {
			t.Errorf("%s is being deleted: %t", s.Name, !s.DeletionTimestamp.IsZero())
		}
		got[s.Name] = s.Finalizers
	}
	want := map[string][]string{
		"bare": {finalizer}, "foreign": {"other/finalizer", finalizer}, "ours": {finalizer}, "earlier": {earlier}, "copy": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("finalizers (-want +got)\n%s", diff)
	}
}
