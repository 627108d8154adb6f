package key

import (
	"regexp"
	"strings"
	"testing"
)

var aivenName = regexp.MustCompile(`^[_A-Za-z0-9][-._A-Za-z0-9]{0,63}$`)

func TestKafkaNameKeepsTheFormThatOtherToolsMatch(t *testing.T) {
	tests := map[string]struct {
		namespace, application, want string
	}{
		"it takes names as they are": {
			namespace: "shop", application: "cart", want: "shop_cart_",
		},
		"it cuts team and application": {
			namespace: "team-superlong-team-name", application: "team-superlong-team-name-a-very-long-application-name-that-needs-to-be-shortened",
			want: "superlong-team-name_a-very-long-application-name-t_aef7fe79_",
		},
		"it drops the namespace from the application": {
			namespace: "team-redundant-team", application: "team-redundant-team-application", want: "redundant-team_application_18515795_",
		},
		"it leaves no separator where it cuts": {
			namespace: "myteam", application: "myteam-a-long-application-name-which-is-cut", want: "myteam_a-long-application-name-which_",
		},
		"it keeps a namespace that is team and nothing else": {
			namespace: "team", application: "app", want: "team_app_",
		},
		"it keeps an application that is the namespace and nothing else": {
			namespace: "shop", application: "shop", want: "shop_shop_",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Identity{Namespace: tt.namespace, Application: tt.application}.Kafka()
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want it to begin with %q", got, tt.want)
			}
			if !IsKafkaUser(got, tt.namespace, tt.application) {
				t.Errorf("%q is not recognised", got)
			}
		})
	}
}

func TestNamesAreValidStableAndRecognised(t *testing.T) {
	namespace := strings.Repeat("n", 63)
	for _, application := range []string{
		"a", strings.Repeat("b", 30), strings.Repeat("c", 63), strings.Repeat("d", 253),
		"with.dots.and--dashes", namespace[:20] + "-app", namespace + "-app",
	} {
		for _, access := range []string{"admin", "write", "readwrite", "read"} {
			id := Identity{Cluster: "c", Namespace: namespace, Application: application, Project: "p", Service: "s", Attempt: 123456}
			for name, ok := range map[string]bool{
				id.Kafka():            IsKafkaUser(id.Kafka(), namespace, application),
				id.OpenSearch(access): IsOpenSearchUser(id.OpenSearch(access), namespace),
				id.Valkey(access):     IsValkeyUser(id.Valkey(access), application),
			} {
				if !aivenName.MatchString(name) {
					t.Errorf("%q of %d characters is not a name that Aiven takes", name, len(name))
				}
				if !ok {
					t.Errorf("%q is not recognised as a name of application %q", name, application)
				}
			}
			again := id
			if id.Kafka() != again.Kafka() || id.Valkey(access) != again.Valkey(access) || id.OpenSearch(access) != again.OpenSearch(access) {
				t.Errorf("names of %q differ from call to call", application)
			}
		}
	}
}

func TestLevelsStandInTheName(t *testing.T) {
	id := Identity{Namespace: "shop", Application: "cart", Service: "valkey-shop-cache"}
	for access, want := range map[string]string{"admin": "cart-", "write": "cart-w-", "readwrite": "cart-rw-", "read": "cart-r-", "": "cart-r-"} {
		got := id.Valkey(access)
		if rest, ok := strings.CutPrefix(got, want); !ok || len(rest) != 8 {
			t.Errorf("access %q: got %q, want %q and 8 characters", access, got, want)
		}
	}
}

func TestDifferentIdentitiesHaveDifferentNames(t *testing.T) {
	long := strings.Repeat("x", 60)
	ids := map[string]Identity{
		"one of two long names":        {Namespace: "a", Application: long + "-one", Service: "s"},
		"two of two long names":        {Namespace: "a", Application: long + "-two", Service: "s"},
		"one of two long namespaces":   {Namespace: long[:20] + "-a", Application: "app", Service: "s"},
		"two of two long namespaces":   {Namespace: long[:20] + "-b", Application: "app", Service: "s"},
		"the same in another cluster":  {Cluster: "other", Namespace: "a", Application: long + "-one", Service: "s"},
		"the same on another service":  {Namespace: "a", Application: long + "-one", Service: "t"},
		"the same, tried once more":    {Namespace: "a", Application: long + "-one", Service: "s", Attempt: 1},
		"fields that run together":     {Namespace: "ab", Application: "c", Service: "s"},
		"fields that run together too": {Namespace: "a", Application: "bc", Service: "s"},
	}
	seen := map[string]string{}
	for what, id := range ids {
		for _, name := range []string{"kafka:" + id.Kafka(), "opensearch:" + id.OpenSearch("read"), "valkey:" + id.Valkey("read")} {
			if other, ok := seen[name]; ok {
				t.Errorf("%s and %s share the name %q", what, other, name)
			}
			seen[name] = what
		}
	}
}

func TestForeignNamesAreNotRecognised(t *testing.T) {
	tests := map[string]struct {
		name string
		is   func(string) bool
	}{
		"it is the administrator":           {"avnadmin", func(n string) bool { return IsOpenSearchUser(n, "avnadmin") || IsValkeyUser(n, "avnadmin") }},
		"it is another team's Kafka user":   {Identity{Namespace: "b", Application: "app"}.Kafka(), func(n string) bool { return IsKafkaUser(n, "a", "app") }},
		"it has no suffix":                  {"shop-r-", func(n string) bool { return IsOpenSearchUser(n, "shop") }},
		"it has a suffix of another length": {"shop-r-abcd", func(n string) bool { return IsOpenSearchUser(n, "shop") }},
		"it is of a longer namespace":       {"shop-eu-rw-abcdefgh", func(n string) bool { return IsOpenSearchUser(n, "shop") }},
		"it is of a shorter namespace":      {"shop-abcdefgh", func(n string) bool { return IsOpenSearchUser(n, "shop-eu") }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.is(tt.name) {
				t.Errorf("%q is recognised", tt.name)
			}
		})
	}
}

func TestNamesOfTheEarlierOperatorAreRecognised(t *testing.T) {
	if !IsKafkaUser("myteam_myapp_"+strings.Split(Identity{Namespace: "myteam", Application: "myapp"}.Kafka(), "_")[2]+"_-X_", "myteam", "myapp") {
		t.Error("a Kafka user with a suffix of URL-safe base64 is not recognised")
	}
	if !IsOpenSearchUser("myteam-rw-9Qz", "myteam") || !IsValkeyUser("myapp-r-_-a", "myapp") || !IsValkeyUser("myapp-9Qz", "myapp") {
		t.Error("a name with a suffix of three characters is not recognised")
	}
}

func TestMadeTellsWhatANameWasDerivedFrom(t *testing.T) {
	id := Identity{Cluster: "c", Namespace: "shop", Application: "cart", Project: "p", Service: "valkey-shop-cache", Attempt: 7}
	name := id.Valkey("write")
	if !id.Made(name) {
		t.Errorf("%q is not recognised", name)
	}
	id.Service = "valkey-other-cache"
	if id.Made(name) {
		t.Errorf("%q is taken for a user of another service", name)
	}
}
