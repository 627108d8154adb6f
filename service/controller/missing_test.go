package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Deleting a Secret takes its users back. While the cache still has the Secret, they must not be made again.
func TestAMissingUserIsMadeAgainOnlyForASecretThatIsThere(t *testing.T) {
	cached := secretOf(user(0))
	cached.UID, cached.Labels = "first", map[string]string{key.LabelType: key.TypeAivenator}
	tests := map[string]struct {
		stored func(s *corev1.Secret) *corev1.Secret // what the API server has
		want   string
	}{
		"it is there":                 {func(s *corev1.Secret) *corev1.Secret { return s }, ""},
		"it is gone":                  {func(*corev1.Secret) *corev1.Secret { return nil }, binding.ReasonSecretDeleted},
		"another one is in its place": {func(s *corev1.Secret) *corev1.Secret { s.UID = "second"; return s }, binding.ReasonSecretDeleted},
		"it is being deleted": {func(s *corev1.Secret) *corev1.Secret {
			s.DeletionTimestamp, s.Finalizers = new(metav1.NewTime(now)), []string{"kept"}
			return s
		}, binding.ReasonSecretDeleted},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			object := &v1.AivenApplication{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
				Spec:       v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "dev", SecretName: "creds"}},
				Status:     v1.AivenApplicationStatus{Bindings: []v1.Binding{record(user(0), StateReady, 0)}},
			}
			build := func(objects ...client.Object) client.Client {
				return fake.NewClientBuilder().WithScheme(small()).WithIndex(&v1.AivenApplication{}, UserIndex, Users).WithIndex(&corev1.Secret{}, UserIndex, Users).WithStatusSubresource(object).
					WithObjects(append(objects, object, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})...).Build()
			}
			server := build()
			if s := tt.stored(cached.DeepCopy()); s != nil {
				server = build(s)
			}
			a, _ := newApplication(clocktesting.NewFakePassiveClock(now))
			a.client, a.server, a.janitor = build(cached.DeepCopy()), server, func() {}
			a.locator = &locator{client: a.client, aiven: noAiven{}}
			plan, err := a.Prepare(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			b := plan.Ensure[0].(*binding.Set).Bindings[0]
			if got := binding.ReasonOf(b.Err); got != tt.want {
				t.Errorf("got %q, want %q: %v", got, tt.want, b.Err)
			}
			if len(plan.Delete) > 0 || b.Username != user(0) {
				t.Errorf("user %q is planned, and %v is to go", b.Username, plan.Delete)
			}
		})
	}
}

// A user is gone, and its application with it, but a Secret that somebody protected still has its certificate. A new application of that name must not make
// that certificate valid again.
func TestAPublishedNameIsNotUsedAgain(t *testing.T) {
	old := secretOf(user(0))
	old.Name, old.Labels = "protected", map[string]string{key.LabelType: key.TypeAivenator}
	old.Annotations[key.AnnotationOwner] = key.Owner("shop", old.Name, "cart")
	object := &v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec:       v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "dev", SecretName: "creds"}},
	}
	for name, tt := range map[string]struct {
		namespace string // of the Secret
		want      string
	}{
		"a Secret of the namespace has it": {"shop", user(1)},
		"one of another namespace has it":  {"other", user(0)}, // it cannot be ours
	} {
		t.Run(name, func(t *testing.T) {
			s := old.DeepCopy()
			s.Namespace = tt.namespace
			c := fake.NewClientBuilder().WithScheme(small()).WithIndex(&v1.AivenApplication{}, UserIndex, Users).WithIndex(&corev1.Secret{}, UserIndex, Users).
				WithStatusSubresource(object).WithObjects(object.DeepCopy(), s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).Build()
			a, _ := newApplication(clocktesting.NewFakePassiveClock(now))
			a.client, a.server, a.janitor = c, c, func() {}
			a.locator = &locator{client: c, aiven: noAiven{}}
			app := &v1.AivenApplication{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), app); err != nil {
				t.Fatal(err)
			}
			plan, err := a.Prepare(t.Context(), app)
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Ensure[0].(*binding.Set).Bindings[0].Username; got != tt.want {
				t.Errorf("user %q is made, want %q", got, tt.want)
			}
		})
	}
}
