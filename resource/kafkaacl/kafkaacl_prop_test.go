package kafkaacl

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// Whatever a service has: what is to be added and deleted makes the user's entries exactly those asked for, each once, and touches no
// entry of another user, nor a pattern that happens to match the user. After that there is nothing left to do.
func TestTheDifferenceLeadsToWhatIsAskedFor(t *testing.T) {
	const user = "shop_cart_01234567_abc"
	users := rapid.SampledFrom([]string{user, user, "shop_cart_01234567_abd", "shop_cart_01234567_*", "shop_cart_01234567_ab?", "*", "avnadmin", "", user + "x"})
	topics := rapid.SampledFrom([]string{"a", "b", "c", "*", "a*"})
	accesses := rapid.SampledFrom([]v1.Access{"", v1.AccessRead, v1.AccessWrite, v1.AccessReadWrite, v1.AccessAdmin})
	rapid.Check(t, func(t *rapid.T) {
		b := &binding.Binding{Username: user}
		for range rapid.IntRange(0, 5).Draw(t, "asked for") {
			b.ACL = append(b.ACL, v1.KafkaACL{Topic: topics.Draw(t, "topic"), Access: accesses.Draw(t, "access")})
		}
		var current []aiven.KafkaACL
		for i := range rapid.IntRange(0, 10).Draw(t, "entries") { // old services hold the same one twice
			current = append(current, aiven.KafkaACL{
				ID: strconv.Itoa(i), Username: users.Draw(t, "user"), Topic: topics.Draw(t, "of topic"),
				Permission: string(accesses.Draw(t, "permission").OrDefault()),
			})
		}
		// own is what a snapshot tells of the user.
		own := func(acl []aiven.KafkaACL) []aiven.KafkaACL {
			var s aiven.Service
			for _, a := range acl {
				s.AddKafkaACL(a)
			}
			return s.KafkaACLOf(user)
		}
		missing, extra := diff(b, own(current))

		after := slices.DeleteFunc(slices.Clone(current), func(a aiven.KafkaACL) bool { return slices.Contains(extra, a) })
		if len(after) != len(current)-len(extra) {
			t.Errorf("%v are not all there to be deleted", extra)
		}
		after = append(after, missing...)
		others := func(acl []aiven.KafkaACL) []aiven.KafkaACL {
			return slices.DeleteFunc(slices.Clone(acl), func(a aiven.KafkaACL) bool { return a.Username == user })
		}
		if diff := cmp.Diff(others(current), others(after), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("entries of others (-before +after)\n%s", diff)
		}
		want, got := map[string]int{}, map[string]int{}
		for _, a := range b.ACL {
			want[a.Topic+" "+string(a.Access.OrDefault())] = 1
		}
		for _, a := range after {
			if a.Username == user {
				got[a.Topic+" "+a.Permission]++
			}
		}
		if !maps.Equal(want, got) {
			t.Errorf("the user has %v, want %v", got, want)
		}
		if missing, extra := diff(b, own(after)); len(missing)+len(extra) > 0 {
			t.Errorf("there is still %v to add and %v to delete", missing, extra)
		}
	})
}
