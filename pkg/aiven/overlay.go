package aiven

import (
	"maps"
	"slices"
	"time"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// window is how long an own write corrects what is read. Aiven is eventually consistent: a read may lack a write that
// was confirmed seconds ago. After the window the read wins, as a service that was powered off comes back without
// its users.
const window = 2 * time.Minute

// change is something known about a service that a read of it may not show.
type change[T any] struct {
	value *T        // nil: gone
	at    time.Time // when it was known; reads that began before know less
	until time.Time // reads that began from here on know more
}

// made is a change by an own write.
func made[T any](value *T, now time.Time) change[T] { return change[T]{value, now, now.Add(window)} }

// seen is a change that a read of a part found.
func seen[T any](value *T, at time.Time) change[T] { return change[T]{value, at, at} }

func (c change[T]) own() bool { return c.until.After(c.at) }

// changes are what is known of one kind of thing. What was touched, once or several times, is what apply has not shown yet.
type changes[K comparable, T any] struct {
	known   map[K]change[T]
	touched []K
}

func newChanges[K comparable, T any]() changes[K, T] { return changes[K, T]{known: map[K]change[T]{}} }

func (c *changes[K, T]) set(key K, to change[T]) {
	c.known[key] = to
	c.touched = append(c.touched, key)
}

func (c *changes[K, T]) drop(key K) {
	delete(c.known, key)
	c.touched = append(c.touched, key)
}

func (c *changes[K, T]) touchAll() { c.touched = slices.AppendSeq(c.touched[:0], maps.Keys(c.known)) }

// prune forgets what a read knows better.
func (c *changes[K, T]) prune(read time.Time) {
	maps.DeleteFunc(c.known, func(_ K, c change[T]) bool { return !read.Before(c.until) })
}

// overlay is what is known about a service beside the last read of it.
type overlay struct {
	users   changes[string, User]             // by name
	access  changes[string, AccessControl]    // by user name
	renewed changes[string, struct{}]         // users whose renewal was acknowledged, by name
	kafka   changes[KafkaACL, struct{}]       // of entries whose id is not known yet, unread
	rules   changes[string, []OpenSearchRule] // by user name
}

func newOverlay() overlay {
	return overlay{
		newChanges[string, User](), newChanges[string, AccessControl](), newChanges[string, struct{}](), newChanges[KafkaACL, struct{}](),
		newChanges[string, []OpenSearchRule](),
	}
}

// unread is an entry that is known to exist, and whose id no read has shown yet.
func unread(a KafkaACL) KafkaACL {
	a.ID = unreadID
	return a
}

// prune forgets what a read knows better.
func (o *overlay) prune(read *Service) {
	o.users.prune(read.ReadAt)
	o.access.prune(read.ReadAt)
	o.renewed.prune(read.ReadAt)
	o.kafka.prune(read.ReadAt)
	o.rules.prune(read.ReadAt)
	if len(o.kafka.known) == 0 {
		return
	}
	for a := range all(read.kafkaACL) {
		delete(o.kafka.known, unread(a))
	}
}

// touchAll makes apply show everything again.
func (o *overlay) touchAll() {
	o.users.touchAll()
	o.access.touchAll()
	o.renewed.touchAll()
	o.kafka.touchAll()
	o.rules.touchAll()
}

// apply returns shown, which came from read, with what was touched since. It changes neither.
func (o *overlay) apply(read, shown *Service) *Service {
	users := len(o.users.touched) + len(o.access.touched) + len(o.renewed.touched)
	if users+len(o.kafka.touched)+len(o.rules.touched) == 0 {
		return shown
	}
	s := *shown
	if users > 0 {
		s.users = copied(s.users, newUsers)
		for _, touched := range [][]string{o.users.touched, o.access.touched, o.renewed.touched} {
			for _, name := range touched {
				o.applyUser(name, read, &s)
			}
		}
	}
	if len(o.kafka.touched) > 0 {
		s.kafkaACL = copied(s.kafkaACL, newKafkaACL)
		for _, acl := range o.kafka.touched {
			o.applyACL(acl, read, &s)
		}
	}
	if len(o.rules.touched) > 0 && read.OpenSearchACL != nil {
		s.OpenSearchACL = o.applyRules(*read.OpenSearchACL)
	}
	o.users.touched, o.access.touched, o.renewed.touched, o.kafka.touched, o.rules.touched = nil, nil, nil, nil, nil
	return &s
}

// copied returns a copy of a tree that can be changed.
func copied[T any](tree *btree.BTree[T], empty func() *btree.BTree[T]) *btree.BTree[T] {
	if tree == nil {
		return empty()
	}
	return tree.Clone()
}

// applyUser makes s show what is known of a user.
func (o *overlay) applyUser(name string, read, s *Service) {
	u := read.user(name)
	if c, ok := o.users.known[name]; ok && c.value == nil {
		u = nil
	} else if ok {
		u = merge(u, c, read.ReadAt)
	}
	if u == nil {
		s.users.Delete(&User{Name: name})
		return
	}
	s.users.ReplaceOrInsert(o.corrected(u, read.ReadAt))
}

// corrected returns a user from a read that began at that time, with what own writes changed and the read may not show.
func (o *overlay) corrected(u *User, read time.Time) *User {
	if c, ok := o.access.known[u.Name]; ok && read.Before(c.until) {
		changed := *u
		changed.AccessControl = *c.value
		u = &changed
	}
	if c, ok := o.renewed.known[u.Name]; ok && read.Before(c.until) {
		changed := *u
		changed.ExpiringCertificateExpires = time.Time{}
		u = &changed
	}
	return u
}

// applyACL makes s show an entry, or not.
func (o *overlay) applyACL(acl KafkaACL, read, s *Service) {
	c, ok := o.kafka.known[acl]
	if ok && c.value != nil || !ok && read.kafkaACL != nil && read.kafkaACL.Has(acl) {
		s.kafkaACL.ReplaceOrInsert(acl)
		return
	}
	s.kafkaACL.Delete(acl)
}

func (o *overlay) applyRules(acl OpenSearchACL) *OpenSearchACL {
	acl.Rules = maps.Clone(acl.Rules)
	for name, c := range o.rules.known {
		if c.value == nil {
			delete(acl.Rules, name)
			continue
		}
		acl.Rules[name] = *c.value
		acl.Enabled = true
	}
	return &acl
}

// merge returns what is known of a user from a read that began at that time, nil if it was not in it, and from a
// change. Credentials that are published together must come from one answer, so that they are never mixed.
func merge(shown *User, c change[User], read time.Time) *User {
	if shown == nil || !c.own() || read.Before(c.at) {
		return c.value
	}
	known := c.value
	if shown.Password == "" && known.Password != "" || shown.Certificate == "" && known.Certificate != "" ||
		shown.Key == "" && known.Key != "" {
		u := *shown
		u.Password, u.Certificate, u.Key, u.Redacted = known.Password, known.Certificate, known.Key, false
		u.CertificateExpires, u.ExpiringCertificateExpires = known.CertificateExpires, known.ExpiringCertificateExpires
		return &u
	}
	return shown
}
