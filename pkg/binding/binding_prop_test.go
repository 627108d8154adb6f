package binding

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

var (
	names     = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`)
	instances = rapid.StringMatching(`[-._a-z0-9]{1,12}`) // what the schema allows
	secrets   = rapid.SampledFrom([]string{"", "a", "b", "Upper", strings.Repeat("x", 254)})
	accesses  = rapid.SampledFrom([]v1.Access{"", v1.AccessRead, v1.AccessWrite, v1.AccessReadWrite, v1.AccessAdmin, "root"})
)

// specs are what can be stored, under the schema of today or an earlier one.
func specs(t *rapid.T) v1.AivenApplicationSpec {
	spec := v1.AivenApplicationSpec{
		SecretName: secrets.Draw(t, "secretName"), Protected: rapid.Bool().Draw(t, "protected"),
		ExpiresAt: rapid.SampledFrom([]string{"", "2030-01-31T12:00:00Z", "soon"}).Draw(t, "expiresAt"),
	}
	if rapid.Bool().Draw(t, "kafka") {
		spec.Kafka = &v1.Kafka{Pool: rapid.SampledFrom([]string{"", "dev", "prod", "secret"}).Draw(t, "pool"), SecretName: secrets.Draw(t, "kafka.secretName")}
		for range rapid.IntRange(0, 2).Draw(t, "topics") {
			spec.Kafka.ACL = append(spec.Kafka.ACL, v1.KafkaACL{Topic: rapid.SampledFrom([]string{"", "t", "*"}).Draw(t, "topic"), Access: accesses.Draw(t, "acl")})
		}
	}
	if rapid.Bool().Draw(t, "openSearch") {
		spec.OpenSearch = &v1.OpenSearch{Instance: instances.Draw(t, "openSearch.instance"), Access: accesses.Draw(t, "access"), SecretName: secrets.Draw(t, "openSearch.secretName")}
	}
	for range rapid.IntRange(0, 4).Draw(t, "valkeys") {
		spec.Valkey = append(spec.Valkey, v1.Valkey{
			Instance: rapid.OneOf(instances, rapid.SampledFrom([]string{"", "c-1", "c_1", "c.1"})).Draw(t, "valkey.instance"),
			Access:   accesses.Draw(t, "access"), SecretName: secrets.Draw(t, "valkey.secretName"),
		})
	}
	return spec
}

// Every service that a spec names becomes one binding, of the set of its Secret. What has no error can be written down: its Secret
// has a valid name, its annotations are ones that the API server takes, and no two bindings share any of them.
func TestEverySpecBecomesSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := specs(t)
		got := FromApplication(app(spec), settings)
		if diff := cmp.Diff(shape(got), shape(FromApplication(app(spec), settings))); diff != "" {
			t.Errorf("the same spec becomes something else\n%s", diff)
		}
		count, seen := 0, map[string]bool{}
		for _, set := range got {
			if seen[set.Secret] {
				t.Errorf("two sets share the Secret %q", set.Secret)
			}
			seen[set.Secret] = true
			count += len(set.Bindings)
			records := 0
			for _, b := range set.Bindings {
				if b.Err != nil {
					if ReasonOf(b.Err) == "" || resource.OutcomeOf(b.Err) != resource.Terminal {
						t.Errorf("%v can be mended by the object alone, and does not say so", b.Err)
					}
					continue
				}
				if len(validation.IsDNS1123Subdomain(set.Secret)) > 0 {
					t.Errorf("%q is not the name of a Secret", set.Secret)
				}
				if b.Kind == Kafka && !slices.Contains(settings.Pools, b.Ref.Project) || b.Kind != Kafka && b.Ref.Project != settings.Project {
					t.Errorf("a %s is asked for in project %q", b.Kind, b.Ref.Project)
				}
				b.Username = "user"
				records++
			}
			want := set.Records()
			if found := FromSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: want}}); len(found) != records {
				t.Errorf("%d bindings share the records of %d: %v", records, len(found), want)
			}
			for name := range want {
				for _, problem := range validation.IsQualifiedName(name) {
					t.Errorf("annotation %q: %s", name, problem)
				}
			}
		}
		want := len(spec.Valkey)
		if spec.Kafka != nil {
			want++
		}
		if spec.OpenSearch != nil {
			want++
		}
		if count != want {
			t.Errorf("%d services became %d bindings", want, count)
		}
	})
}

// What a set records in annotations is what is read from them, so that whatever made the Secret can be taken back.
func TestEveryRecordIsReadAsWritten(t *testing.T) {
	text := rapid.StringN(1, 20, -1)
	rapid.Check(t, func(t *rapid.T) {
		set := &Set{}
		add := func(kind Kind, instance, project, service string) {
			b := &Binding{Kind: kind, Instance: instance, Username: text.Draw(t, "user"), Resumed: true, Ref: aiven.Ref{Project: project, Service: service}}
			if rapid.Bool().Draw(t, "retired") {
				set.Retired = append(set.Retired, b)
			} else {
				set.Bindings = append(set.Bindings, b)
			}
		}
		if rapid.Bool().Draw(t, "kafka") {
			add(Kafka, "", text.Draw(t, "pool"), "")
		}
		if rapid.Bool().Draw(t, "openSearch") {
			add(OpenSearch, "", text.Draw(t, "project"), text.Draw(t, "service"))
		}
		project := text.Draw(t, "project")
		for _, instance := range rapid.SliceOfNDistinct(names, 0, 3, rapid.ID).Draw(t, "instances") {
			add(Valkey, instance, project, text.Draw(t, "service"))
		}
		moment := func(label string) time.Time {
			return time.Unix(rapid.Int64Range(1, 1<<36).Draw(t, label), 0).UTC()
		}
		if rapid.Bool().Draw(t, "rotated by time") {
			set.Interval = time.Hour
			for _, b := range set.Bindings {
				b.IssuedAt = moment("issued")
			}
		}
		var outgoing []*Binding
		for i := range rapid.IntRange(0, 3).Draw(t, "outgoing users") {
			b := &Binding{
				Kind: rapid.SampledFrom([]Kind{Kafka, OpenSearch, Valkey}).Draw(t, "outgoing kind"), Username: fmt.Sprint("outgoing ", i, text.Draw(t, "outgoing")),
				Ref: aiven.Ref{Project: text.Draw(t, "project")}, Resumed: true, RetiresAt: moment("retires"),
			}
			if b.Kind != Kafka {
				b.Instance, b.Ref.Service = instances.Draw(t, "outgoing instance"), text.Draw(t, "service")
			}
			outgoing = append(outgoing, b)
		}
		n := rapid.IntRange(0, len(outgoing)).Draw(t, "of them not at their end")
		set.Outgoing = outgoing[:n]
		want := slices.Concat(set.Bindings, set.Retired)
		set.Retired = append(set.Retired, outgoing[n:]...)
		order := func(a, b *Binding) int {
			kinds := []Kind{Kafka, OpenSearch, Valkey}
			if a.Kind != b.Kind {
				return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
			}
			return strings.Compare(key.ValkeyUser(a.Instance), key.ValkeyUser(b.Instance))
		}
		slices.SortFunc(want, order)
		want = append(want, outgoing...)
		got := FromSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: set.Records()}})
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Binding{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		for name := range set.Records() {
			if !IsRecord(name) {
				t.Errorf("%s is not recognised as a record", name)
			}
		}
	})
}

// checkSecret holds what is read from any Secret against what may be: each binding is of a kind that is known, has a user and is
// recorded once; reading twice makes no difference; and the Secret is somebody's only with a proof that a copy does not have.
func checkSecret(t interface{ Errorf(string, ...any) }, s *corev1.Secret) {
	got := FromSecret(s)
	if diff := cmp.Diff(got, FromSecret(s), cmpopts.IgnoreUnexported(Binding{})); diff != "" {
		t.Errorf("read again it is something else\n%s", diff)
	}
	seen := map[string]bool{}
	fits := false
	for _, b := range got {
		at := string(b.Kind) + "/" + b.Instance
		if b.IsOutgoing() {
			at = "outgoing " + string(b.Kind) + "/" + b.Username
		}
		if b.Username == "" || seen[at] || !slices.Contains([]Kind{Kafka, OpenSearch, Valkey}, b.Kind) || !b.Resumed || b.Err != nil {
			t.Errorf("got %+v of %q", b, s.Annotations)
		}
		seen[at] = true
		fits = fits || b.Matches(b.Username, s.Namespace, s.Labels[key.LabelApp])
	}
	owner := Owner(s)
	if owner == "" {
		return
	}
	signature, signed := s.Annotations[key.AnnotationOwner]
	if s.Labels[key.LabelType] != key.TypeAivenator ||
		signed && signature != key.Owner(s.Namespace, s.Name, owner) || !signed && (!fits || owner != s.Labels[key.LabelApp]) {
		t.Errorf("%q and %q prove that it is %q's", s.Labels, s.Annotations, owner)
	}
	moved := s.DeepCopy()
	moved.Namespace += "-too"
	if signed && Owner(moved) != "" {
		t.Errorf("a copy in another namespace is %q's", Owner(moved))
	}
}

// Annotations and labels that anybody may have written.
func TestAnySecretIsRead(t *testing.T) {
	user := key.Identity{Namespace: "shop", Application: "cart"}.Kafka()
	known := rapid.SampledFrom([]string{
		key.AnnotationKafkaUser, key.AnnotationKafkaPool, key.AnnotationOpenSearchUser, key.AnnotationOpenSearchProject,
		key.AnnotationOpenSearchService, key.AnnotationValkeyProject, key.AnnotationOwner, key.ValkeyUser("a"), key.ValkeyService("a"),
		key.ValkeyUser(""), key.ValkeyUser("a.b"), "a.b" + key.ValkeyUser(""), key.AnnotationRotation,
	})
	values := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		`{"issued":{"kafka/a":"2026-01-01T00:00:00Z"},"outgoing":[{"kind":"kafka","user":"a","retiresAt":"2026-01-01T00:00:00Z"},{"kind":"redis"}]}`, `{"outgoing":7}`,
		"", user, user + "\n", "avnadmin", "shop/creds cart", "shop/creds ", "shop/creds cart\x00", "shop/creds", "other/creds cart", strings.Repeat("x", 1<<16), "\xff",
	}))
	rapid.Check(t, func(t *rapid.T) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "creds"}}
		s.Annotations = rapid.MapOfN(rapid.OneOf(known, rapid.String()), values, 0, 8).Draw(t, "annotations")
		s.Labels = rapid.MapOfN(rapid.SampledFrom([]string{key.LabelType, key.LabelApp}),
			rapid.SampledFrom([]string{key.TypeAivenator, "cart", "", "\xff"}), 0, 2).Draw(t, "labels")
		before := maps.Clone(s.Annotations)
		checkSecret(t, s)
		if !maps.Equal(before, s.Annotations) {
			t.Errorf("reading changed it: %q", s.Annotations)
		}
	})
}

func FuzzFromSecret(f *testing.F) {
	user := key.Identity{Namespace: "shop", Application: "cart"}.Kafka()
	f.Add(key.AnnotationKafkaUser, user, key.AnnotationKafkaPool, "dev", "cart")
	f.Add(key.AnnotationOwner, "shop/creds cart", key.ValkeyUser("cache"), "cart-r-abc", "")
	f.Add(key.AnnotationKafkaUser, user, key.AnnotationRotation, `{"issued":{"kafka/x":"2026-01-01T00:00:00Z"},"outgoing":[{"kind":"valkey","instance":"c","project":"p","user":"u","retiresAt":"2026-01-01T00:00:00Z"}]}`, "")
	f.Add(key.ValkeyUser(""), "x", ".valkey.aiven.nais.io/serviceName", "avnadmin\n", "\xff")
	f.Add("a.b"+key.ValkeyUser(""), "cart-r-abc", key.ValkeyService("a-b"), strings.Repeat("s", 300), "cart")
	f.Fuzz(func(t *testing.T, name, value, otherName, otherValue, label string) {
		checkSecret(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "creds", Annotations: map[string]string{name: value, otherName: otherValue},
			Labels: map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: label},
		}})
	})
}
