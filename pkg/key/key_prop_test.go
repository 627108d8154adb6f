package key

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

var (
	labels     = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`)
	namespaces = rapid.OneOf(labels, rapid.Map(labels, func(s string) string { return ("team" + s)[:min(len(s)+4, 63)] })).
			Filter(func(s string) bool { return len(validation.IsDNS1123Label(s)) == 0 })
	levels = rapid.SampledFrom([]string{"", "read", "write", "readwrite", "admin"})
	kinds  = rapid.SampledFrom([]string{"kafka", "opensearch", "valkey"})
)

// applications are names that the API server takes, those among them that repeat their namespace.
func applications(namespace string) *rapid.Generator[string] {
	free := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}`)
	return rapid.OneOf(free, rapid.Just(namespace), rapid.Map(free, func(s string) string { return namespace + "-" + s })).
		Filter(func(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 })
}

func identities(t *rapid.T, label string) Identity {
	namespace := namespaces.Draw(t, label+" namespace")
	return Identity{
		Cluster: rapid.String().Draw(t, label+" cluster"), Namespace: namespace,
		Application: applications(namespace).Draw(t, label+" application"),
		Project:     labels.Draw(t, label+" project"), Service: labels.Draw(t, label+" service"),
		Attempt: rapid.Int32Range(0, 1<<30).Draw(t, label+" attempt"),
	}
}

func (i Identity) name(kind, access string) string {
	switch kind {
	case "kafka":
		return i.Kafka()
	case "opensearch":
		return i.OpenSearch(access)
	default:
		return i.Valkey(access)
	}
}

func (i Identity) recognises(kind, name string) bool {
	switch kind {
	case "kafka":
		return IsKafkaUser(name, i.Namespace, i.Application)
	case "opensearch":
		return IsOpenSearchUser(name, i.Namespace)
	default:
		return IsValkeyUser(name, i.Application)
	}
}

// Aiven takes every name, the application knows it again, and asking twice makes no difference.
func TestEveryNameIsValidAndRecognised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, kind, access := identities(t, "its"), kinds.Draw(t, "kind"), levels.Draw(t, "access")
		name := id.name(kind, access)
		if !aivenName.MatchString(name) {
			t.Errorf("%q of %d characters is not a name that Aiven takes", name, len(name))
		}
		if !id.recognises(kind, name) {
			t.Errorf("%q is not recognised", name)
		}
		if again := id.name(kind, access); again != name {
			t.Errorf("%q becomes %q", name, again)
		}
		if kind != "kafka" {
			id.Attempt %= 1000
			if name := id.name(kind, access); !id.Made(name) {
				t.Errorf("it does not know that it made %q", name)
			}
		}
	})
}

// Identities that differ in anything have different names. Three characters that tell Kafka users of one application apart can
// coincide, so that the next attempts are looked at too, which is what claiming a name does.
func TestDistinctIdentitiesHaveDistinctNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := identities(t, "one")
		other := one
		switch field := rapid.SampledFrom([]string{"cluster", "namespace", "application", "project", "service", "attempt", "boundary", "all"}).Draw(t, "differs in"); field {
		case "cluster":
			other.Cluster += "x"
		case "namespace": // of the same beginning, where there is room
			other.Namespace = one.Namespace[:min(len(one.Namespace), 62)] + "x"
		case "application":
			other.Application += "x"
		case "project":
			other.Project += "x"
		case "service":
			other.Service += "x"
		case "attempt":
			other.Attempt++
		case "boundary": // fields that run together to the same text
			last := len(one.Namespace) - 1
			other.Namespace, other.Application = one.Namespace[:last]+"x", one.Namespace[last:]+one.Application
		default:
			other = identities(t, "other")
		}
		if one == other {
			t.Skip("the same")
		}
		kind, access := kinds.Draw(t, "kind"), levels.Draw(t, "access")
		attempts := 1
		if kind == "kafka" {
			attempts = 6
		}
		for range attempts {
			if one.name(kind, access) != other.name(kind, access) {
				return
			}
			one.Attempt, other.Attempt = one.Attempt+1, other.Attempt+1
		}
		t.Errorf("%+v and %+v are both called %q", one, other, one.name(kind, access))
	})
}

// No application takes a user of another one for its own, where the form of the name can tell them apart.
func TestUsersOfOthersAreNotRecognised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := identities(t, "one"), identities(t, "other")
		if one.Namespace+one.Application != other.Namespace+other.Application && other.recognises("kafka", one.Kafka()) {
			t.Errorf("%s/%s takes %q of %s/%s for its own", other.Namespace, other.Application, one.Kafka(), one.Namespace, one.Application)
		}
		for _, kind := range []string{"kafka", "opensearch", "valkey"} {
			for _, name := range []string{"avnadmin", "default", "root", ""} {
				other.Namespace, other.Application = name, name
				if other.recognises(kind, name) {
					t.Errorf("%q is recognised as a user of %s", name, kind)
				}
			}
		}
	})
}

// Whatever stands in a record, recognising it never panics, and what is recognised is a name that Aiven takes.
func FuzzRecognise(f *testing.F) {
	id := Identity{Namespace: "shop", Application: "cart"}
	for _, name := range []string{id.Kafka(), id.OpenSearch("read"), id.Valkey("admin"), "avnadmin", "", "shop-\x00\xff", "cart-r-abc\n", strings.Repeat("x", 100)} {
		f.Add(name, "shop", "cart")
	}
	f.Fuzz(func(t *testing.T, name, namespace, application string) {
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(application)) > 0 {
			t.Skip("the API server takes no such names")
		}
		id := Identity{Namespace: namespace, Application: application}
		for _, kind := range []string{"kafka", "opensearch", "valkey"} {
			if id.recognises(kind, name) && !aivenName.MatchString(name) {
				t.Errorf("%s: %q is recognised and is no name", kind, name)
			}
		}
	})
}

// Labels, data keys and annotations are ones that the API server takes, whatever an application and an instance are called.
func TestEveryKeyIsOneThatKubernetesTakes(t *testing.T) {
	instances := rapid.StringMatching(`[a-z0-9]([-._a-z0-9]{0,62}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		one, two := applications("shop").Draw(t, "application"), applications("shop").Draw(t, "another")
		for _, problem := range validation.IsValidLabelValue(LabelValue(one)) {
			t.Errorf("label %q: %s", LabelValue(one), problem)
		}
		if one != two && LabelValue(one) == LabelValue(two) {
			t.Errorf("%q and %q have the same label", one, two)
		}
		instance := instances.Draw(t, "instance")
		for _, k := range []string{Valkey(ReplicaHost, instance), Redis(Password, instance)} {
			for _, problem := range validation.IsConfigMapKey(k) {
				t.Errorf("data key %q: %s", k, problem)
			}
		}
		for annotation, user := range map[string]bool{ValkeyUser(instance): true, ValkeyService(instance): false} {
			for _, problem := range validation.IsQualifiedName(annotation) {
				t.Errorf("annotation %q of instance %q: %s", annotation, instance, problem)
			}
			if got, is := ValkeyAnnotation(annotation); is != user || annotationName(got) != got || ValkeyUser(got) != ValkeyUser(instance) {
				t.Errorf("annotation %q is taken for one of %q", annotation, got)
			}
		}
	})
}

// The owner that a Secret's annotation records is read as it was written, for that Secret and no other.
func TestOwnerIsReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		namespace, secret := namespaces.Draw(t, "namespace"), applications("shop").Draw(t, "secret")
		application := applications(namespace).Draw(t, "application")
		owner := Owner(namespace, secret, application)
		if got := OwnedBy(owner, namespace, secret); got != application {
			t.Errorf("got %q, want %q", got, application)
		}
		other, copied := namespaces.Draw(t, "another namespace"), applications("shop").Draw(t, "copy")
		if (other != namespace || copied != secret) && OwnedBy(owner, other, copied) != "" {
			t.Errorf("%q owns %s/%s too", owner, other, copied)
		}
	})
}

// Users that exist are found again by their names: whoever changes how these are made loses them.
func TestNamesStayAsTheyAre(t *testing.T) {
	short := Identity{Cluster: "prod", Namespace: "shop", Application: "cart", Project: "main", Service: "kafka"}
	long := Identity{
		Cluster: "prod", Namespace: "team-" + strings.Repeat("n", 58), Application: strings.Repeat("a.b-", 60) + "z",
		Project: "main", Service: "valkey-shop-cache", Attempt: 7,
	}
	for want, got := range map[string]string{
		"shop_cart_d5334173_wd0": short.Kafka(),
		"shop-wd0gikjn":          short.OpenSearch("admin"),
		"cart-rw-wd0gikjn":       short.Valkey("readwrite"),
		"nnnnnnnnnnnnnnnnnnnn_a.b-a.b-a.b-a.b-a.b-a.b-a.b-a._f8956bdc_xl0": long.Kafka(),
		"team-nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-6d3498a8-w-xl01cmj3": long.OpenSearch("write"),
		"a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b--c5f32485-r-xl01cmj3": long.Valkey(""),
		"a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.b-a.-c5f32485":  LabelValue(long.Application),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
