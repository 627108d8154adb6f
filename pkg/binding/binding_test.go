package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

var settings = Settings{Project: "main", Pools: []string{"dev", "prod"}, Cluster: "test"}

func app(spec v1.AivenApplicationSpec) *v1.AivenApplication {
	return &v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Annotations: map[string]string{
			key.AnnotationCorrelationID:                        "abc",
			"argocd.argoproj.io/tracking-id":                   "x",
			"kubectl.kubernetes.io/last-applied-configuration": "{}",
		}, Labels: map[string]string{key.LabelGeneration: "3", "argocd.argoproj.io/instance": "x"}},
		Spec: spec,
	}
}

// shape is what a test compares of a set.
func shape(sets []*Set) map[string][]string {
	out := map[string][]string{}
	for _, s := range sets {
		for _, b := range s.Bindings {
			text := strings.Join([]string{string(b.Kind), b.Instance, b.Ref.Project, string(b.Access), ReasonOf(b.Err)}, "|")
			out[s.Secret] = append(out[s.Secret], text)
		}
	}
	return out
}

func TestFromApplication(t *testing.T) {
	tests := map[string]struct {
		spec v1.AivenApplicationSpec
		want map[string][]string
	}{
		"it makes one set for each Secret": {
			spec: v1.AivenApplicationSpec{
				Kafka:      &v1.Kafka{Pool: "dev", SecretName: "kafka"},
				OpenSearch: &v1.OpenSearch{Instance: "logs", Access: v1.AccessWrite, SecretName: "search"},
				Valkey:     []v1.Valkey{{Instance: "a", SecretName: "cache"}, {Instance: "b", Access: v1.AccessAdmin, SecretName: "cache"}},
			},
			want: map[string][]string{
				"kafka":  {"kafka||dev||"},
				"search": {"opensearch|logs|main|write|"},
				"cache":  {"valkey|a|main|read|", "valkey|b|main|admin|"},
			},
		},
		"it takes the shared name where a service has none of its own": {
			spec: v1.AivenApplicationSpec{
				SecretName: "all", Kafka: &v1.Kafka{Pool: "prod"}, OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: "search"},
			},
			want: map[string][]string{"all": {"kafka||prod||"}, "search": {"opensearch|logs|main|read|"}},
		},
		"it asks for nothing where the spec does":     {want: map[string][]string{}},
		"it refuses a pool that is not allowed":       {spec: v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "secret", SecretName: "s"}}, want: map[string][]string{"s": {"kafka||secret||PoolNotAllowed"}}},
		"it refuses a name that no Secret can have":   {spec: v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "dev", SecretName: "Upper_case"}}, want: map[string][]string{"Upper_case": {"kafka||dev||InvalidName"}}},
		"it refuses a service without a Secret":       {spec: v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "dev"}}, want: map[string][]string{"": {"kafka||dev||InvalidName"}}},
		"it refuses an access level it does not know": {spec: v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "i", Access: "root", SecretName: "s"}}, want: map[string][]string{"s": {"opensearch|i|main|root|InvalidSpec"}}},
		"it refuses an instance named twice": {
			spec: v1.AivenApplicationSpec{Valkey: []v1.Valkey{{Instance: "a", SecretName: "s"}, {Instance: "a", SecretName: "t"}}},
			want: map[string][]string{"s": {"valkey|a|main|read|"}, "t": {"valkey|a|main|read|InvalidSpec"}},
		},
		"it refuses two instances whose keys are the same in one Secret": {
			spec: v1.AivenApplicationSpec{SecretName: "s", Valkey: []v1.Valkey{{Instance: "my-cache"}, {Instance: "my_cache"}, {Instance: "other"}}},
			want: map[string][]string{"s": {"valkey|my-cache|main|read|InvalidSpec", "valkey|my_cache|main|read|InvalidSpec", "valkey|other|main|read|"}},
		},
		"it accepts them in two Secrets": {
			spec: v1.AivenApplicationSpec{Valkey: []v1.Valkey{{Instance: "my-cache", SecretName: "s"}, {Instance: "my_cache", SecretName: "t"}}},
			want: map[string][]string{"s": {"valkey|my-cache|main|read|"}, "t": {"valkey|my_cache|main|read|"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := FromApplication(app(tt.spec), settings)
			if diff := cmp.Diff(tt.want, shape(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, set := range got {
				for _, b := range set.Bindings {
					if b.Err != nil && resource.OutcomeOf(b.Err) != resource.Terminal {
						t.Errorf("%v is not terminal", b.Err)
					}
				}
			}
		})
	}
}

func TestRefusalsNameObjectAndRule(t *testing.T) {
	spec := v1.AivenApplicationSpec{SecretName: "s", Valkey: []v1.Valkey{{Instance: "my-cache"}, {Instance: "my_cache"}}}
	text := FromApplication(app(spec), settings)[0].Err().Error()
	for _, part := range []string{"my-cache", "my_cache", `"s"`} {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not name %s", text, part)
		}
	}
	text = FromApplication(app(v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "secret", SecretName: "s"}}), settings)[0].Err().Error()
	for _, part := range []string{"spec.kafka.pool", "secret", "dev, prod"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not name %s", text, part)
		}
	}
}

func TestSecretSaysOfItsApplicationOnlyWhatIsOurs(t *testing.T) {
	a := app(v1.AivenApplicationSpec{Protected: true, ExpiresAt: "2030-01-31T12:00:00Z", Kafka: &v1.Kafka{Pool: "dev", SecretName: "s"}})
	set := FromApplication(a, settings)[0]
	wantLabels := map[string]string{
		"app": "cart", "team": "shop", "type": "aivenator.aiven.nais.io",
		"aiven.nais.io/secret-generation": "3", "aivenator.aiven.nais.io/protected": "true",
	}
	wantAnnotations := map[string]string{
		"nais.io/deploymentCorrelationID":         "abc",
		"aivenator.aiven.nais.io/protected":       "true",
		"aivenator.aiven.nais.io/with-time-limit": "true",
		"aivenator.aiven.nais.io/expires-at":      "2030-01-31T12:00:00Z",
		"keysmith.io/owner":                       "shop/s cart",
	}
	if diff := cmp.Diff(wantLabels, set.Labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(wantAnnotations, set.Annotations); diff != "" {
		t.Errorf("annotations (-want +got)\n%s", diff)
	}
	a.Labels[key.LabelGeneration] = "newest"
	if got := FromApplication(a, settings)[0].Labels[key.LabelGeneration]; got != "0" {
		t.Errorf("a generation that is no number: got %q, want 0", got)
	}
}

func TestAnnotationsRoundTrip(t *testing.T) {
	set := &Set{Bindings: []*Binding{
		{Kind: Kafka, Username: "k", Ref: aiven.Ref{Project: "dev"}},
		{Kind: OpenSearch, Username: "o", Ref: aiven.Ref{Project: "main", Service: "opensearch-shop-logs"}},
		{Kind: Valkey, Instance: "a-1", Username: "v1", Ref: aiven.Ref{Project: "main", Service: "valkey-shop-a-1"}},
	}, Retired: []*Binding{
		{Kind: Valkey, Instance: "old", Username: "v2", Ref: aiven.Ref{Project: "main", Service: "valkey-shop-old"}},
	}}
	got := FromSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: set.Records()}})
	want := slices.Concat(set.Bindings, set.Retired)
	for _, b := range want {
		b.Resumed = true
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Binding{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name := range set.Records() {
		if !IsRecord(name) {
			t.Errorf("%s is not recognised as a record", name)
		}
	}
}

func TestOwner(t *testing.T) {
	user := key.Identity{Namespace: "shop", Application: "cart"}.Kafka()
	ours := map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"}
	tests := map[string]struct {
		labels, annotations map[string]string
		want                string
	}{
		"it is the application that the annotation names":  {labels: ours, annotations: map[string]string{key.AnnotationOwner: "shop/creds cart"}, want: "cart"},
		"it is nobody of a copy":                           {labels: ours, annotations: map[string]string{key.AnnotationOwner: "shop/original cart", key.AnnotationKafkaUser: user}},
		"it is nobody without the type label":              {annotations: map[string]string{key.AnnotationOwner: "shop/creds cart"}},
		"it is proven by the user of the earlier operator": {labels: ours, annotations: map[string]string{key.AnnotationKafkaUser: user, key.AnnotationKafkaPool: "dev"}, want: "cart"},
		"it is nobody where labels are all there is":       {labels: ours},
		"it is nobody where the user is another's":         {labels: ours, annotations: map[string]string{key.AnnotationKafkaUser: "avnadmin", key.AnnotationKafkaPool: "dev"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "creds", Labels: tt.labels, Annotations: tt.annotations}}
			if got := Owner(s); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEach(t *testing.T) {
	boom := errors.New("boom")
	newSet := func() *Set {
		return &Set{Bindings: []*Binding{{Kind: Kafka, Instance: "k"}, {Kind: Valkey, Instance: "v"}}}
	}
	fail := func(_ context.Context, b *Binding) error {
		if b.Kind == Kafka {
			return boom
		}
		return nil
	}
	t.Run("it goes on with the others when one fails", func(t *testing.T) {
		set := newSet()
		err := set.Each(t.Context(), "one", fail, Kafka, Valkey)
		if !errors.Is(err, boom) || !resource.IsPartial(err) {
			t.Errorf("got %v, want a partial boom", err)
		}
		ran := ""
		_ = set.Each(t.Context(), "two", func(_ context.Context, b *Binding) error { ran += b.Instance; return nil }, Kafka, Valkey)
		if ran != "v" {
			t.Errorf("the next step ran for %q, want v alone", ran)
		}
	})
	t.Run("it tries again what it failed itself", func(t *testing.T) {
		set := newSet()
		_ = set.Each(t.Context(), "one", fail, Kafka, Valkey)
		err := set.Each(t.Context(), "one", func(context.Context, *Binding) error { return nil }, Kafka, Valkey)
		if err != nil || set.Err() != nil {
			t.Errorf("got %v and %v, want none", err, set.Err())
		}
	})
	t.Run("it ends when none is left", func(t *testing.T) {
		set := newSet()
		err := set.Each(t.Context(), "one", func(context.Context, *Binding) error { return boom }, Kafka, Valkey)
		if !errors.Is(err, boom) || resource.IsPartial(err) {
			t.Errorf("got %v, want boom", err)
		}
	})
	t.Run("it waits for a service that is powered off", func(t *testing.T) {
		off := fmt.Errorf("delete user: %w", aiven.ErrNotPowered)
		err := newSet().Each(t.Context(), "one", func(context.Context, *Binding) error { return off }, Kafka, Valkey)
		if got := resource.OutcomeOf(err); got != resource.Waiting || !errors.Is(err, aiven.ErrNotPowered) || ReasonOf(err) != ReasonPoweredOff {
			t.Errorf("got %s for %v, want a wait for the service", got, err)
		}
	})
	t.Run("it ends at once when all failed before", func(t *testing.T) {
		set := newSet()
		set.Fail(boom)
		if err := set.Each(t.Context(), "one", fail); !errors.Is(err, boom) || resource.IsPartial(err) {
			t.Errorf("got %v, want boom", err)
		}
	})
}
