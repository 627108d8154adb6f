package aiven

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// Whatever is read and changed, in whatever order: what is shown, change by change, is what would be shown if all changes had been applied at once to
// the last read, and what was shown before is as it was.
func TestChangesShowOneByOneAsTheyDoTogether(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "avnadmin"})
	rapid.Check(t, func(t *rapid.T) {
		now := start
		user := func() *User {
			return &User{Name: names.Draw(t, "user"), Password: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "password"), ExpiringCertificateExpires: start}
		}
		acl := func() KafkaACL {
			return KafkaACL{rapid.SampledFrom([]string{"1", "2", unreadID}).Draw(t, "id"), names.Draw(t, "of user"), rapid.SampledFrom([]string{"t", "u"}).Draw(t, "topic"), "read"}
		}
		draw := func() *Service {
			s := &Service{ReadAt: now, OpenSearchACL: &OpenSearchACL{Rules: map[string][]OpenSearchRule{}}}
			for range rapid.IntRange(0, 3).Draw(t, "read users") {
				s.AddUser(*user())
			}
			for range rapid.IntRange(0, 3).Draw(t, "read entries") {
				if a := acl(); a.ID != unreadID {
					s.AddKafkaACL(a)
				}
			}
			for range rapid.IntRange(0, 2).Draw(t, "read rules") {
				s.OpenSearchACL.Rules[names.Draw(t, "with rules")] = []OpenSearchRule{{"*", "read"}}
			}
			return s
		}
		gone := func() bool { return rapid.Bool().Draw(t, "gone") }
		e := &entry{overlay: newOverlay()}
		e.show(draw())
		type old struct {
			shown *Service
			as    *content
		}
		var before []old
		steps := map[string]func(o *overlay){
			"user": func(o *overlay) {
				u := user()
				c := made(u, now)
				if gone() {
					c = made[User](nil, now)
				}
				o.users.set(u.Name, c)
			},
			"forget user": func(o *overlay) { o.users.drop(names.Draw(t, "user")) },
			"access": func(o *overlay) {
				o.access.set(names.Draw(t, "user"), made(&AccessControl{Keys: []string{rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")}}, now))
			},
			"forget access": func(o *overlay) { o.access.drop(names.Draw(t, "user")) },
			"renewed":       func(o *overlay) { o.renewed.set(names.Draw(t, "user"), made(&struct{}{}, now)) },
			"entry": func(o *overlay) {
				c := made(&struct{}{}, now)
				if gone() {
					c = made[struct{}](nil, now)
				}
				o.kafka.set(acl(), c)
			},
			"forget entry": func(o *overlay) { o.kafka.drop(acl()) },
			"rules": func(o *overlay) {
				c := made(&[]OpenSearchRule{{"*", rapid.SampledFrom([]string{"read", "write"}).Draw(t, "permission")}}, now)
				if gone() {
					c = made[[]OpenSearchRule](nil, now)
				}
				o.rules.set(names.Draw(t, "user"), c)
			},
			"forget rules": func(o *overlay) { o.rules.drop(names.Draw(t, "user")) },
			"read":         nil,
			"show":         nil,
		}
		kinds := rapid.SampledFrom([]string{"user", "forget user", "access", "forget access", "renewed", "entry", "forget entry", "rules", "forget rules", "read", "show"})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
			read := e.read
			switch kind := kinds.Draw(t, "kind"); kind {
			case "read":
				read = draw()
			case "show":
			default:
				e.change(steps[kind])
				continue
			}
			got := e.show(read)
			fresh := newOverlay()
			fresh.users.known, fresh.access.known, fresh.renewed.known = e.overlay.users.known, e.overlay.access.known, e.overlay.renewed.known
			fresh.kafka.known, fresh.rules.known = e.overlay.kafka.known, e.overlay.rules.known
			fresh.touchAll()
			if d := cmp.Diff(contentOf(fresh.apply(e.read, e.read)), contentOf(got), cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("applied at once, against one by one (-want +got)\n%s", d)
			}
			before = append(before, old{got, contentOf(got)})
		}
		for i, b := range before {
			if d := cmp.Diff(b.as, contentOf(b.shown), cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("snapshot %d changed (-before +after)\n%s", i, d)
			}
		}
	})
}

// BenchmarkChange makes one user and grants it a topic, and looks at the service each time, which has so many users.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{300, 3000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			read := &Service{ReadAt: start}
			for i := range n {
				name := fmt.Sprintf("user-%04d", i)
				read.AddUser(User{Name: name})
				read.AddKafkaACL(KafkaACL{name, name, "t", "read"})
			}
			e := &entry{overlay: newOverlay()}
			for i := range n { // as many have been made since it was read
				name := fmt.Sprintf("made-%04d", i)
				e.change(func(o *overlay) {
					o.users.set(name, made(&User{Name: name}, start))
					o.kafka.set(KafkaACL{name, name, "t", "read"}, made(&struct{}{}, start))
				})
			}
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprintf("new-%04d", i%100)
				e.change(func(o *overlay) { o.users.set(name, made(&User{Name: name}, start)) })
				e.show(read)
				e.change(func(o *overlay) { o.kafka.set(KafkaACL{name, name, "t", "read"}, made(&struct{}{}, start)) })
				e.show(read)
			}
		})
	}
}
