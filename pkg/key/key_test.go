package key

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestDataKeysOfAnInstance(t *testing.T) {
	tests := map[string]struct{ got, want string }{
		"it capitalises":                     {Valkey(Password, "cache"), "VALKEY_PASSWORD_CACHE"},
		"it replaces what no variable holds": {Valkey(URI, "my-cache.v2"), "VALKEY_URI_MY_CACHE_V2"},
		"it names replicas":                  {Valkey(ReplicaHost, "cache"), "VALKEY_REPLICA_HOST_CACHE"},
		"it serves clients of Redis":         {Redis(Port, "1st"), "REDIS_PORT_1ST"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %q, want %q", tt.got, tt.want)
			}
			if problems := validation.IsEnvVarName(tt.got); len(problems) > 0 {
				t.Errorf("%q is no variable: %v", tt.got, problems)
			}
		})
	}
}

func TestAnnotationsOfAnInstance(t *testing.T) {
	user := ValkeyUser("My_cache")
	if want := "-y-cache.valkey.aiven.nais.io/serviceUser"; user != want {
		t.Errorf("got %q, want %q", user, want)
	}
	if instance, isUser := ValkeyAnnotation(user); instance != "-y-cache" || !isUser {
		t.Errorf("user annotation: got %q, %t", instance, isUser)
	}
	if instance, isUser := ValkeyAnnotation(ValkeyService("cache")); instance != "cache" || isUser {
		t.Errorf("service annotation: got %q, %t", instance, isUser)
	}
	if instance, _ := ValkeyAnnotation(AnnotationValkeyProject); instance != "" {
		t.Errorf("project annotation: got instance %q", instance)
	}
}

func TestOwnerOfACopyIsNobody(t *testing.T) {
	owner := Owner("shop", "creds", "cart")
	if got := OwnedBy(owner, "shop", "creds"); got != "cart" {
		t.Errorf("got %q, want cart", got)
	}
	for _, other := range []string{OwnedBy(owner, "shop", "copy"), OwnedBy(owner, "other", "creds"), OwnedBy("", "shop", "creds")} {
		if other != "" {
			t.Errorf("got %q, want nobody", other)
		}
	}
}

func TestLabelValueIsValid(t *testing.T) {
	for _, name := range []string{"cart", strings.Repeat("a", 63), strings.Repeat("b", 64), strings.Repeat("c.", 126) + "c"} {
		got := LabelValue(name)
		if problems := validation.IsValidLabelValue(got); len(problems) > 0 {
			t.Errorf("%q: %v", got, problems)
		}
		if len(name) <= 63 && got != name {
			t.Errorf("got %q, want %q unchanged", got, name)
		}
	}
}
