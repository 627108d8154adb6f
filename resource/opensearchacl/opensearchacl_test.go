package opensearchacl

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aiven/aiventest"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const user = "shop-r-abcdefgh"

func set(user string, access v1.Access) *binding.Set {
	return &binding.Set{Bindings: []*binding.Binding{{Kind: binding.OpenSearch, Ref: aiventest.OpenSearch, Username: user, Access: access}}}
}

func entry(user, permission string) aivensim.OpenSearchACL {
	return aivensim.OpenSearchACL{Username: user, Rules: []aivensim.OpenSearchRule{{Index: "_*", Permission: permission}, {Index: "*", Permission: permission}}}
}

var foreign = aivensim.OpenSearchACL{Username: "somebody", Rules: []aivensim.OpenSearchRule{{Index: "logs-?", Permission: "deny"}}}

func TestEnsureCreated(t *testing.T) {
	tests := map[string]struct {
		before aivensim.OpenSearchACLConfig
		want   []aivensim.OpenSearchACL
		writes int
	}{
		"it grants, and turns access control on": {want: []aivensim.OpenSearchACL{entry(user, "read")}, writes: 1},
		"it leaves alone what is there": {
			before: aivensim.OpenSearchACLConfig{Enabled: true, ACLs: []aivensim.OpenSearchACL{foreign, entry(user, "read")}},
			want:   []aivensim.OpenSearchACL{foreign, entry(user, "read")},
		},
		"it replaces the rules of another level": {
			before: aivensim.OpenSearchACLConfig{Enabled: true, ACLs: []aivensim.OpenSearchACL{entry(user, "admin"), foreign}},
			want:   []aivensim.OpenSearchACL{entry(user, "read"), foreign}, writes: 1,
		},
		"it turns access control on again": {
			before: aivensim.OpenSearchACLConfig{ACLs: []aivensim.OpenSearchACL{entry(user, "read")}},
			want:   []aivensim.OpenSearchACL{entry(user, "read")}, writes: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			a.At(aiventest.OpenSearch).SetOpenSearchACLs(tt.before)
			r := New(a)
			for range 2 { // the second time changes nothing
				if err := r.EnsureCreated(t.Context(), set(user, v1.AccessRead)); err != nil {
					t.Fatal(err)
				}
			}
			got := a.At(aiventest.OpenSearch).OpenSearchACLs()
			if diff := cmp.Diff(tt.want, got.ACLs); diff != "" || !got.Enabled {
				t.Errorf("enabled %t, (-want +got)\n%s", got.Enabled, diff)
			}
			if got := a.Sim.Counters().Writes; got != tt.writes {
				t.Errorf("got %d writes, want %d", got, tt.writes)
			}
		})
	}
}

func TestManyAtOnceLoseNobody(t *testing.T) {
	a := aiventest.New(t)
	a.At(aiventest.OpenSearch).SetOpenSearchACLs(aivensim.OpenSearchACLConfig{Enabled: true, ACLs: []aivensim.OpenSearchACL{foreign}})
	r := New(a)
	all := func(f func(i int) error) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := f(i); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	name := func(i int) string { return fmt.Sprintf("shop-r-%08d", i) }
	all(func(i int) error { return r.EnsureCreated(t.Context(), set(name(i), v1.AccessRead)) })
	if got := len(a.At(aiventest.OpenSearch).OpenSearchACLs().ACLs); got != 21 {
		t.Fatalf("got %d entries, want 21", got)
	}
	all(func(i int) error {
		if i%2 == 0 {
			return nil
		}
		return r.EnsureDeleted(t.Context(), set(name(i), v1.AccessRead))
	})
	left := map[string]bool{}
	for _, e := range a.At(aiventest.OpenSearch).OpenSearchACLs().ACLs {
		left[e.Username] = true
	}
	for i := range 20 {
		if left[name(i)] != (i%2 == 0) {
			t.Errorf("%s is left: %t", name(i), left[name(i)])
		}
	}
	if len(left) != 11 || !left[foreign.Username] {
		t.Errorf("got %v", left)
	}
}

func TestEnsureDeleted(t *testing.T) {
	tests := map[string]struct {
		before func(a *aiventest.Aiven)
		want   resource.Outcome
		left   []aivensim.OpenSearchACL
	}{
		"it removes every rule of the user": {want: resource.Done, left: []aivensim.OpenSearchACL{foreign}},
		"it is content with a user that has none": {
			before: func(a *aiventest.Aiven) {
				a.At(aiventest.OpenSearch).SetOpenSearchACLs(aivensim.OpenSearchACLConfig{Enabled: true, ACLs: []aivensim.OpenSearchACL{foreign}})
			},
			want: resource.Done, left: []aivensim.OpenSearchACL{foreign},
		},
		"it is content with a service that is gone": {
			before: func(a *aiventest.Aiven) { a.Sim.Project(aiventest.Project).RemoveService(aiventest.OpenSearch.Service) },
			want:   resource.Done,
		},
		"it says that the API is down": {
			before: func(a *aiventest.Aiven) { a.Break(aivensim.ServiceOpenSearchACLUpdate) },
			want:   resource.Failed, left: []aivensim.OpenSearchACL{foreign, entry(user, "read"), entry(user, "write")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			a.At(aiventest.OpenSearch).SetOpenSearchACLs(aivensim.OpenSearchACLConfig{Enabled: true,
				ACLs: []aivensim.OpenSearchACL{foreign, entry(user, "read"), entry(user, "write")}})
			if tt.before != nil {
				tt.before(a)
			}
			err := New(a).EnsureDeleted(t.Context(), set(user, v1.AccessRead))
			if got := resource.OutcomeOf(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
			if a.At(aiventest.OpenSearch) == nil {
				return
			}
			if diff := cmp.Diff(tt.left, a.At(aiventest.OpenSearch).OpenSearchACLs().ACLs); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
