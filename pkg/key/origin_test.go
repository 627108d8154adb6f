package key

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKafkaOrigins(t *testing.T) {
	tests := map[string]struct {
		namespace, application string
		want                   bool
	}{
		"it tells a plain one":                    {"shop", "cart", true},
		"it tells a namespace that begins so":     {"teamshop", "cart", true},
		"it tells one with a dash":                {"team-shop", "cart", true},
		"it tells a namespace that is the prefix": {"team", "cart", true},
		"it tells an application named after it":  {"shop", "shop", true},
		"it tells one that begins so":             {"shop", "shopcart", true},
		"it tells one with a dash too":            {"team-shop", "team-shop-cart", true},
		"it tells none that was cut":              {"a-namespace-that-is-too-long", "cart", false},
		"it tells no application that was cut":    {"shop", "an-application-with-a-name-that-is-too-long", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			made := Identity{Cluster: "c", Namespace: tt.namespace, Application: tt.application, Project: "p", Service: "s"}.Kafka()
			if !LooksKafka(made) {
				t.Errorf("%s does not look like one", made)
			}
			got := KafkaOrigins(made)
			if slices.Contains(got, Identity{Namespace: tt.namespace, Application: tt.application}) != tt.want {
				t.Errorf("%s: got %+v", made, got)
			}
		})
	}
	for _, name := range []string{"", "jane", "a_b_c_d", "shop_cart_00000000_abc", "shop_cart_d5334173_ab", "_cart_d5334173_abc"} {
		if got := KafkaOrigins(name); got != nil {
			t.Errorf("%q: got %+v", name, got)
		}
	}
}

func TestMadeKafka(t *testing.T) {
	id := Identity{Cluster: "c", Namespace: "shop", Application: "cart", Project: "p", Service: "s"}
	at := func(attempt int32) string {
		i := id
		i.Attempt = attempt
		return i.Kafka()
	}
	other := id
	other.Cluster = "another"
	for name, want := range map[string]bool{
		at(0): true, at(kafkaAttempts - 1): true, at(kafkaAttempts): false, other.Kafka(): false, "": false, KafkaStem("shop", "cart"): false,
	} {
		if id.MadeKafka(name) != want {
			t.Errorf("%q: got %t", name, !want)
		}
	}
}

func TestValkeyOrigins(t *testing.T) {
	for name, want := range map[string][]string{
		"cart-abcdefgh":       {"cart"},
		"cart-rw-abcdefgh":    {"cart", "cart-rw"},
		"a-b-r-a1b2c3d4":      {"a-b", "a-b-r"},
		"cart-abc":            nil,
		"cart-ABCDEFGH":       nil,
		"jane":                nil,
		"-abcdefgh":           nil,
		"cart-w-rw-abcdefgh":  {"cart-w", "cart-w-rw"},
		"cart-abcdefgh-12345": nil,
	} {
		if diff := cmp.Diff(want, ValkeyOrigins(name)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", name, diff)
		}
	}
}

func TestServiceOwners(t *testing.T) {
	for service, want := range map[string][]string{
		"valkey-shop-sessions": {"shop"},
		"valkey-a-b-c":         {"a", "a-b"},
		"valkey-shop":          nil,
		"valkey-shop-":         nil,
		"opensearch-shop-logs": nil,
		"sessions":             nil,
	} {
		got := ServiceOwners(service, "valkey")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got)\n%s", service, diff)
		}
		for _, namespace := range got {
			if !IsServiceOf(service, "valkey", namespace) {
				t.Errorf("%s is no service of %s", service, namespace)
			}
		}
	}
}
