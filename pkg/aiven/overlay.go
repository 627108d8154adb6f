package aiven

import (
	"maps"
	"slices"
	"time"
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

// overlay is what is known about a service beside the last read of it.
type overlay struct {
	users   map[string]change[User]             // by name
	access  map[string]change[AccessControl]    // by user name
	renewed map[string]change[struct{}]         // users whose renewal was acknowledged, by name
	kafka   map[string]change[KafkaACL]         // by id; entries whose id is not known yet, by unread
	rules   map[string]change[[]OpenSearchRule] // by user name
}

func newOverlay() overlay {
	return overlay{
		users:   map[string]change[User]{},
		access:  map[string]change[AccessControl]{},
		renewed: map[string]change[struct{}]{},
		kafka:   map[string]change[KafkaACL]{},
		rules:   map[string]change[[]OpenSearchRule]{},
	}
}

// unread is the key of an entry that is known to exist, and whose id no read has shown yet.
func unread(a KafkaACL) string { return "unread " + a.Username + " " + a.Topic + " " + a.Permission }

// prune forgets what a read knows better.
func (o overlay) prune(read *Service) {
	pruneMap(o.users, read.ReadAt)
	pruneMap(o.access, read.ReadAt)
	pruneMap(o.renewed, read.ReadAt)
	pruneMap(o.kafka, read.ReadAt)
	pruneMap(o.rules, read.ReadAt)
	for _, a := range read.KafkaACL {
		delete(o.kafka, unread(a))
	}
}

func pruneMap[T any](m map[string]change[T], read time.Time) {
	maps.DeleteFunc(m, func(_ string, c change[T]) bool { return !read.Before(c.until) })
}

func (o overlay) empty() bool {
	return len(o.users)+len(o.access)+len(o.renewed)+len(o.kafka)+len(o.rules) == 0
}

// apply returns the service with the changes. It does not change read.
func (o overlay) apply(read *Service) *Service {
	if o.empty() {
		return read
	}
	s := *read
	s.Users = maps.Clone(read.Users)
	for name, c := range o.users {
		if c.value == nil {
			delete(s.Users, name)
			continue
		}
		s.Users[name] = merge(s.Users[name], c, read.ReadAt)
	}
	for name, c := range o.access {
		if u, ok := s.Users[name]; ok {
			changed := *u
			changed.AccessControl = *c.value
			s.Users[name] = &changed
		}
	}
	for name := range o.renewed {
		if u, ok := s.Users[name]; ok {
			changed := *u
			changed.ExpiringCertificateExpires = time.Time{}
			s.Users[name] = &changed
		}
	}
	s.KafkaACL = slices.Clone(read.KafkaACL)
	for id, c := range o.kafka {
		i := slices.IndexFunc(s.KafkaACL, func(a KafkaACL) bool { return a.ID == id })
		switch {
		case c.value == nil && i >= 0:
			s.KafkaACL = slices.Delete(s.KafkaACL, i, i+1)
		case c.value != nil && i < 0:
			s.KafkaACL = append(s.KafkaACL, *c.value)
		}
	}
	if read.OpenSearchACL != nil {
		s.OpenSearchACL = o.applyRules(*read.OpenSearchACL)
	}
	return &s
}

func (o overlay) applyRules(acl OpenSearchACL) *OpenSearchACL {
	acl.Rules = maps.Clone(acl.Rules)
	for name, c := range o.rules {
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
