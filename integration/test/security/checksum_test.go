//go:build k8srequired

package security

import (
	"hash/crc32"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// forge finds a name for an application of a namespace, such that its Kafka users are named, but for the suffix, like those of another
// namespace's application: the form is fixed, and its checksum is CRC-32. A change of one character changes the checksum in the same way whatever
// the others are, so that the characters to change are found by solving 32 equations.
func forge(t *testing.T, namespace, victimNamespace, victim string) string {
	t.Helper()
	const free = 48
	name := []byte(victim + strings.Repeat("-", 31-len(victim)) + strings.Repeat("a", free) + "z")
	at := len(name) - 1 - free
	sum := func() uint32 { return crc32.ChecksumIEEE(append([]byte(namespace), name...)) }
	base := sum()
	goal := base ^ crc32.ChecksumIEEE([]byte(victimNamespace+victim))
	type row struct {
		effect uint32
		chars  uint64 // which of the free characters to change for it
	}
	var basis [32]row // by highest bit of the effect
	reduce := func(r row) row {
		for bit := 31; bit >= 0; bit-- {
			if r.effect>>bit&1 == 1 && basis[bit].effect != 0 {
				r.effect, r.chars = r.effect^basis[bit].effect, r.chars^basis[bit].chars
			}
		}
		return r
	}
	for i := range free {
		name[at+i] = 'b'
		r := reduce(row{sum() ^ base, 1 << i})
		name[at+i] = 'a'
		for bit := 31; bit >= 0; bit-- {
			if r.effect>>bit&1 == 1 {
				basis[bit] = r
				break
			}
		}
	}
	solution := reduce(row{effect: goal})
	if solution.effect != 0 {
		t.Fatal("there is no such name with these characters")
	}
	for i := range free {
		if solution.chars>>i&1 == 1 {
			name[at+i] = 'b'
		}
	}
	return string(name)
}

func TestAChecksumThatIsMadeToFitGivesNothing(t *testing.T) {
	t.Parallel()
	thief, victim := neighbours(t)
	before := victim.property()
	user := victim.records()[key.AnnotationKafkaUser]
	app := forge(t, thief.Namespace, victim.Namespace, "cart")
	if !key.IsKafkaUser(user, thief.Namespace, app) {
		t.Fatalf("user %s does not look like one of application %s/%s: this shows nothing", user, thief.Namespace, app)
	}
	s := &corev1.Secret{}
	s.Namespace, s.Name = thief.Namespace, "loot"
	s.Labels = map[string]string{key.LabelType: key.TypeAivenator}
	s.Annotations = map[string]string{
		key.AnnotationOwner: key.Owner(thief.Namespace, "loot", app), key.AnnotationKafkaUser: user, key.AnnotationKafkaPool: world.Pool,
	}
	thief.Make(s)
	thief.Apply(app, v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "loot"}})
	thief.Ready(app)
	victim.untouched(t, before, thief)
	thief.Remove(thief.App(app))
	thief.Gone(&v1.AivenApplication{}, app)
	thief.Gone(&corev1.Secret{}, "loot")
	victim.untouched(t, before, thief)
	if n := thief.Sim.Counters().UsersCreated; n != 4 {
		t.Errorf("%d users were made, want the three of the other namespace and one of the thief's own", n)
	}
}
