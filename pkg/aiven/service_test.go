package aiven

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestAccessControlEqual(t *testing.T) {
	full := AccessControl{[]string{"-@all", "+@read"}, []string{"+info"}, []string{"a", "b"}, []string{"c", "d"}}
	with := func(change func(*AccessControl)) AccessControl {
		a := full
		change(&a)
		return a
	}
	tests := map[string]struct {
		a, b AccessControl
		want bool
	}{
		"it takes nil for empty":             {AccessControl{}, AccessControl{[]string{}, []string{}, []string{}, []string{}}, true},
		"it ignores the order of keys":       {full, with(func(a *AccessControl) { a.Keys = []string{"b", "a"} }), true},
		"it ignores the order of channels":   {full, with(func(a *AccessControl) { a.Channels = []string{"d", "c", "d"} }), true},
		"it minds the order of categories":   {full, with(func(a *AccessControl) { a.Categories = []string{"+@read", "-@all"} }), false},
		"it minds a command that is missing": {full, with(func(a *AccessControl) { a.Commands = nil }), false},
		"it minds a key that is missing":     {full, with(func(a *AccessControl) { a.Keys = []string{"a"} }), false},
		"it minds a key that is too many":    {full, with(func(a *AccessControl) { a.Keys = []string{"a", "b", "c"} }), false},
		"it minds a channel that is another": {full, with(func(a *AccessControl) { a.Channels = []string{"c", "e"} }), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { diff(t, test.want, test.a.Equal(test.b)) })
	}
}

func TestOpenSearchACLGrants(t *testing.T) {
	rules := []OpenSearchRule{{"_*", "read"}, {"*", "read"}}
	tests := map[string]struct {
		acl  *OpenSearchACL
		want bool
	}{
		"no document":         {nil, false},
		"the same rules":      {&OpenSearchACL{true, map[string][]OpenSearchRule{"a": {rules[1], rules[0]}}}, true},
		"access control off":  {&OpenSearchACL{false, map[string][]OpenSearchRule{"a": rules}}, false},
		"a rule missing":      {&OpenSearchACL{true, map[string][]OpenSearchRule{"a": rules[:1]}}, false},
		"another user's":      {&OpenSearchACL{true, map[string][]OpenSearchRule{"b": rules}}, false},
		"another permission":  {&OpenSearchACL{true, map[string][]OpenSearchRule{"a": {{"_*", "read"}, {"*", "write"}}}}, false},
		"one rule more":       {&OpenSearchACL{true, map[string][]OpenSearchRule{"a": append(rules, OpenSearchRule{"x", "read"})}}, false},
		"nothing of the user": {&OpenSearchACL{true, nil}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { diff(t, test.want, test.acl.Grants("a", rules)) })
	}
}

func TestUserHidesItsSecrets(t *testing.T) {
	u := User{Name: "app", Password: "canary", Certificate: "canary", Key: "canary"}
	s := &Service{}
	s.AddUser(u)
	var out bytes.Buffer
	for _, v := range []any{u, &u, []User{u}, s, *s, struct{ User User }{u}} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&out, format+"\n", v)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
	}
	if strings.Contains(out.String(), "canary") {
		t.Errorf("a secret shows:\n%s", out.String())
	}
}
