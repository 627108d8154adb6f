package valkeyuser

import (
	"strings"
	"testing"

	"github.com/keysmith-io/keysmith/pkg/aiven/aiventest"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const user = "cart-r-abcdefgh"

func set(access v1.Access, resumed bool) *binding.Set {
	return &binding.Set{Bindings: []*binding.Binding{{
		Kind: binding.Valkey, Instance: "cache", Ref: aiventest.Valkey, Username: user, Access: access, Resumed: resumed,
	}}}
}

func TestRightsOfEachLevel(t *testing.T) {
	const always = "-@all +@connection +@scripting +@pubsub +@transaction "
	tests := map[string]struct {
		access v1.Access
		want   string
	}{
		"it reads":                     {v1.AccessRead, "+@read"},
		"it reads where none is given": {"", "+@read"},
		"it writes":                    {v1.AccessWrite, "+@write"},
		"it reads and writes":          {v1.AccessReadWrite, "+@write +@read"},
		"it administers":               {v1.AccessAdmin, "+@admin +@write +@read"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			s := set(tt.access, false)
			if err := New(a).EnsureCreated(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			u, ok := a.At(aiventest.Valkey).User(user)
			if !ok || u.Password != s.Bindings[0].User.Password {
				t.Fatalf("the user exists: %t, or its password was not handed on", ok)
			}
			if got := strings.Join(u.AccessControl.Categories, " "); got != always+tt.want {
				t.Errorf("categories: got %q, want %q", got, always+tt.want)
			}
			rest := strings.Join(u.AccessControl.Commands, " ") + "; " + strings.Join(u.AccessControl.Keys, " ") + "; " + strings.Join(u.AccessControl.Channels, " ")
			if want := "+info +cluster|slots; *; *"; rest != want {
				t.Errorf("commands, keys and channels: got %q, want %q", rest, want)
			}
		})
	}
}

func TestEnsureCreatedRepairsRights(t *testing.T) {
	tests := map[string]struct {
		rights aivensim.AccessControl
		writes int
	}{
		"it replaces rights of another level": {rights: aivensim.AccessControl{Categories: []string{"+@all"}, Keys: []string{"*"}}, writes: 1},
		"it leaves alone rights that are right, in whatever order Aiven lists sets": {rights: aivensim.AccessControl{
			Categories: []string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction", "+@read"},
			Commands:   []string{"+info", "+cluster|slots"}, Keys: []string{"*"}, Channels: []string{"*"},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			password := a.At(aiventest.Valkey).AddUser(aivensim.User{Username: user, AccessControl: tt.rights}).Password
			r := New(a)
			for range 2 { // the second time changes nothing
				if err := r.EnsureCreated(t.Context(), set(v1.AccessRead, true)); err != nil {
					t.Fatal(err)
				}
			}
			u, _ := a.At(aiventest.Valkey).User(user)
			if got := strings.Join(u.AccessControl.Categories, " "); !strings.HasPrefix(got, "-@all") || !strings.HasSuffix(got, "+@read") {
				t.Errorf("categories: got %q", got)
			}
			if u.Password != password {
				t.Error("the password changed")
			}
			if got := a.Sim.Counters().Writes; got != tt.writes {
				t.Errorf("got %d writes, want %d", got, tt.writes)
			}
		})
	}
}

func TestEnsureCreatedSaysThatTheAPIIsDown(t *testing.T) {
	a := aiventest.New(t)
	a.Break(aivensim.ServiceUserCreate)
	if err := New(a).EnsureCreated(t.Context(), set(v1.AccessRead, false)); resource.OutcomeOf(err) != resource.Failed {
		t.Errorf("got %v, want a failure", err)
	}
}

func TestEnsureDeleted(t *testing.T) {
	a := aiventest.New(t)
	a.At(aiventest.Valkey).AddUser(aivensim.User{Username: user})
	r := New(a)
	for range 2 { // the second time it is gone already
		if err := r.EnsureDeleted(t.Context(), set(v1.AccessRead, true)); err != nil {
			t.Fatal(err)
		}
	}
	if _, left := a.At(aiventest.Valkey).User(user); left {
		t.Error("the user is left")
	}
}
