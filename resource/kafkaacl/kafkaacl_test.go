package kafkaacl

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aiven/aiventest"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const user = "shop_cart_01234567_abc"

func set(acl ...v1.KafkaACL) *binding.Set {
	return &binding.Set{Bindings: []*binding.Binding{{Kind: binding.Kafka, Ref: aiventest.Kafka, Username: user, ACL: acl, OwnACL: acl != nil}}}
}

// rights lists a service's entries as "user permission topic", less the one that every service has.
func rights(a *aiventest.Aiven) []string {
	var out []string
	for _, e := range a.At(aiventest.Kafka).KafkaACLs() {
		if e.ID != "default" {
			out = append(out, e.Username+" "+e.Permission+" "+e.Topic)
		}
	}
	slices.Sort(out)
	return out
}

func TestEnsureCreated(t *testing.T) {
	foreign := []aivensim.KafkaACL{
		{Username: "shop_cart_01234567_*", Topic: "pattern", Permission: "read"},
		{Username: "somebody", Topic: "t1", Permission: "read"},
	}
	others := []string{"shop_cart_01234567_* read pattern", "somebody read t1"}
	tests := map[string]struct {
		before []aivensim.KafkaACL
		set    *binding.Set
		want   []string
		writes int
	}{
		"it grants what is asked for": {
			set:  set(v1.KafkaACL{Topic: "t1", Access: v1.AccessRead}, v1.KafkaACL{Topic: "t2-*", Access: v1.AccessWrite}),
			want: []string{user + " read t1", user + " write t2-*"}, writes: 2,
		},
		"it reads where no level is given": {set: set(v1.KafkaACL{Topic: "t1"}), want: []string{user + " read t1"}, writes: 1},
		"it leaves alone what is there": {
			before: []aivensim.KafkaACL{{Username: user, Topic: "t1", Permission: "read"}},
			set:    set(v1.KafkaACL{Topic: "t1", Access: v1.AccessRead}), want: []string{user + " read t1"},
		},
		"it replaces a changed right": {
			before: []aivensim.KafkaACL{{Username: user, Topic: "t1", Permission: "admin"}},
			set:    set(v1.KafkaACL{Topic: "t1", Access: v1.AccessRead}), want: []string{user + " read t1"}, writes: 2,
		},
		"it takes away what is not asked for": {
			before: []aivensim.KafkaACL{{Username: user, Topic: "t1", Permission: "read"}, {Username: user, Topic: "t2", Permission: "read"}},
			set:    set(v1.KafkaACL{Topic: "t1", Access: v1.AccessRead}), want: []string{user + " read t1"}, writes: 1,
		},
		"it takes away everything where the list is empty": {
			before: []aivensim.KafkaACL{{Username: user, Topic: "t1", Permission: "admin"}},
			set:    &binding.Set{Bindings: []*binding.Binding{{Kind: binding.Kafka, Ref: aiventest.Kafka, Username: user, OwnACL: true}}},
			writes: 1,
		},
		"it touches nothing where there is no list": {
			before: []aivensim.KafkaACL{{Username: user, Topic: "t1", Permission: "admin"}},
			set:    set(), want: []string{user + " admin t1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			for _, e := range slices.Concat(foreign, tt.before) {
				a.At(aiventest.Kafka).AddKafkaACL(e)
			}
			r := New(a)
			for range 2 { // the second time changes nothing
				if err := r.EnsureCreated(t.Context(), tt.set); err != nil {
					t.Fatal(err)
				}
			}
			want := slices.Sorted(slices.Values(slices.Concat(others, tt.want)))
			if diff := cmp.Diff(want, rights(a)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got := a.Sim.Counters().Writes; got != tt.writes {
				t.Errorf("got %d writes, want %d", got, tt.writes)
			}
		})
	}
}

func TestAChangedRightIsNeverMissing(t *testing.T) {
	a := aiventest.New(t)
	a.At(aiventest.Kafka).AddKafkaACL(aivensim.KafkaACL{Username: user, Topic: "t1", Permission: "read"})
	a.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceKafkaACLDelete, Before: func(aivensim.Request) {
		if diff := cmp.Diff([]string{user + " read t1", user + " readwrite t1"}, rights(a)); diff != "" {
			t.Errorf("when the old right goes (-want +got)\n%s", diff)
		}
	}})
	if err := New(a).EnsureCreated(t.Context(), set(v1.KafkaACL{Topic: "t1", Access: v1.AccessReadWrite})); err != nil {
		t.Fatal(err)
	}
}

func TestEnsureDeleted(t *testing.T) {
	tests := map[string]struct {
		before func(a *aiventest.Aiven)
		want   resource.Outcome
		left   []string
	}{
		"it removes the entries of this user alone": {want: resource.Done, left: []string{"somebody read t1"}},
		"it is content with a service that is gone": {
			before: func(a *aiventest.Aiven) { a.Sim.Project(aiventest.Project).RemoveService(aiventest.Kafka.Service) },
			want:   resource.Done,
		},
		"it is content with an entry that is gone": {
			before: func(a *aiventest.Aiven) {
				a.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceKafkaACLDelete, Count: 1, Commit: true,
					Answer: aivensim.Error(404, "service_acl_not_found", "No such service ACL exists")})
			},
			want: resource.Done, left: []string{"somebody read t1"},
		},
		"it says that the API is down": {
			before: func(a *aiventest.Aiven) { a.Break(aivensim.ServiceKafkaACLDelete) },
			want:   resource.Failed, left: []string{user + " read t1", user + " write t2", "somebody read t1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			for _, e := range []aivensim.KafkaACL{{Username: user, Topic: "t1", Permission: "read"}, {Username: user, Topic: "t2", Permission: "write"}, {Username: "somebody", Topic: "t1", Permission: "read"}} {
				a.At(aiventest.Kafka).AddKafkaACL(e)
			}
			if tt.before != nil {
				tt.before(a)
			}
			err := New(a).EnsureDeleted(t.Context(), set())
			if got := resource.OutcomeOf(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
			if a.At(aiventest.Kafka) == nil {
				return
			}
			if diff := cmp.Diff(tt.left, rights(a)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
