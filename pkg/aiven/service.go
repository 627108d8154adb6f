package aiven

import (
	"cmp"
	"iter"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// Ref names one service instance.
type Ref struct {
	Project string
	Service string
}

// String returns "project/service".
func (r Ref) String() string { return r.Project + "/" + r.Service }

// States of a service. Others may be added by Aiven; treat an unknown one as not running.
const (
	StateRunning     = "RUNNING"
	StateRebalancing = "REBALANCING" // usable, like RUNNING
	StateRebuilding  = "REBUILDING"  // wait
	StatePowerOff    = "POWEROFF"    // until somebody powers it on
)

// Types of services that have a meaning here.
const (
	TypeKafka      = "kafka"
	TypeOpenSearch = "opensearch"
	TypeValkey     = "valkey"
)

// Service is a snapshot of one service: its addresses, its users and their rights. It is shared by everybody who
// asked for it: nobody changes it. The service's URIs and connection info are left out, as they hold the
// administrator's password.
type Service struct {
	Ref
	Type  string
	State string
	// ReadAt is when the read began that this snapshot came from.
	ReadAt     time.Time
	Components []Component
	// OpenSearchACL is nil unless the service is an OpenSearch that is running.
	OpenSearchACL *OpenSearchACL

	// Thousands of users, each of whom changes the snapshot several times when it is made: trees, of which a changed copy shares all but a few nodes.
	users    *btree.BTree[*User]    // by name, the built-in ones included; nil: none
	kafkaACL *btree.BTree[KafkaACL] // by user; nil: none
}

// degree of the trees: a node holds up to 15 values, all of which are copied for a change.
const degree = 8

func newUsers() *btree.BTree[*User] {
	return btree.New(degree, func(a, b *User) bool { return a.Name < b.Name })
}

func newKafkaACL() *btree.BTree[KafkaACL] {
	return btree.New(degree, func(a, b KafkaACL) bool {
		return cmp.Or(cmp.Compare(a.Username, b.Username), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Permission, b.Permission), cmp.Compare(a.ID, b.ID)) < 0
	})
}

// all are the values of a tree, in its order.
func all[T any](tree *btree.BTree[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		if tree != nil {
			tree.Ascend(yield)
		}
	}
}

// AddUser adds a user, or replaces that of the same name. It is for who makes a Service, not for who got one from a Client.
func (s *Service) AddUser(u User) {
	if s.users == nil {
		s.users = newUsers()
	}
	s.users.ReplaceOrInsert(&u)
}

// AddKafkaACL adds an ACL entry of a Kafka service. It is for who makes a Service, not for who got one from a Client.
func (s *Service) AddKafkaACL(acl KafkaACL) {
	if s.kafkaACL == nil {
		s.kafkaACL = newKafkaACL()
	}
	s.kafkaACL.ReplaceOrInsert(acl)
}

// Usable reports whether users and rights can be changed now: the service is running, or running and rebalancing.
func (s *Service) Usable() bool { return s.State == StateRunning || s.State == StateRebalancing }

// User returns a copy of the user of that name.
func (s *Service) User(name string) (User, bool) {
	u := s.user(name)
	if u == nil {
		return User{}, false
	}
	return *u, true
}

func (s *Service) user(name string) *User {
	if s.users == nil {
		return nil
	}
	u, _ := s.users.Get(&User{Name: name})
	return u
}

// withholds tells whether the API withheld the credentials of a user.
func (s *Service) withholds() bool {
	for u := range all(s.users) {
		if u.Redacted {
			return true
		}
	}
	return false
}

// Usernames returns the names of all users, the built-in ones included, sorted.
func (s *Service) Usernames() []string {
	var names []string
	for u := range all(s.users) {
		names = append(names, u.Name)
	}
	return names
}

// KafkaACLOf returns the Kafka ACL entries that name this very user, sorted by topic and permission. Patterns that
// happen to match the name are somebody else's entries and are left out.
func (s *Service) KafkaACLOf(username string) []KafkaACL {
	var of []KafkaACL
	if s.kafkaACL != nil {
		s.kafkaACL.AscendGreaterOrEqual(KafkaACL{Username: username}, func(a KafkaACL) bool {
			if a.Username != username {
				return false
			}
			of = append(of, a)
			return true
		})
	}
	return of
}

// Component is one address of a service. A service can have several of the same name that differ in usage, route,
// authentication or encryption, in any order.
type Component struct {
	Component                 string // such as kafka, schema_registry, opensearch, opensearch_dashboards, valkey
	Usage                     string // primary, replica, ha_replica, disaster_recovery
	Route                     string // dynamic, public, private, privatelink
	Host                      string
	Port                      int
	SSL                       bool   // true unless the API says otherwise
	KafkaAuthenticationMethod string // certificate, sasl; "" for other components than kafka
	KafkaSSLCA                string // project_ca, letsencrypt; "" means project_ca
}

// Address returns "host:port".
func (c Component) Address() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// User is a service user. A credential that the API did not tell ("", null, "<redacted>") is "": not known,
// never a value. Its secrets stay out of every printed, logged or marshalled form.
type User struct {
	Name        string
	Type        string // normal; primary for a built-in user
	Password    string `json:"-"`
	Certificate string `json:"-"` // PEM; Kafka only
	Key         string `json:"-"` // PEM, PKCS#8; Kafka only
	// CertificateExpires is when Certificate expires, zero where unknown.
	CertificateExpires time.Time
	// ExpiringCertificateExpires is when the certificate expires that a renewal has replaced; zero outside a renewal.
	ExpiringCertificateExpires time.Time
	// PasswordUpdated is when the password was set last, which keysmith does when it makes a user and never again; zero where unknown.
	PasswordUpdated time.Time
	// AccessControl holds the rights of a Valkey user.
	AccessControl AccessControl
	// Redacted says that the API withheld credentials though they were asked for: the token lacks the permission
	// service:secrets:read.
	Redacted bool
}

// IsExpired tells whether the user's certificate has expired, as far as is known when it does.
func (u User) IsExpired(now time.Time) bool {
	return !u.CertificateExpires.IsZero() && !u.CertificateExpires.After(now)
}

// String returns the user's name.
func (u User) String() string { return "user " + u.Name }

// GoString returns the user's name.
func (u User) GoString() string { return u.String() }

// LogValue returns the user's name.
func (u User) LogValue() slog.Value { return slog.StringValue(u.String()) }

// AccessControl holds the rights of a Valkey user, in the terms of Valkey's ACL rules.
type AccessControl struct {
	Categories []string // applied in order, such as -@all, +@read
	Commands   []string // applied in order, such as +info, +cluster|slots
	Keys       []string // a set of globs
	Channels   []string // a set of globs
}

// Equal reports whether both mean the same. Categories and commands are compared in order; keys and channels are
// sets, which the API may return in another order; a list without values may be nil or empty.
func (a AccessControl) Equal(b AccessControl) bool {
	return slices.Equal(a.Categories, b.Categories) && slices.Equal(a.Commands, b.Commands) &&
		equalSets(a.Keys, b.Keys) && equalSets(a.Channels, b.Channels)
}

// KafkaACL is one entry of the Aiven ACLs of a Kafka service. Two entries with the same content cannot exist; the
// same user and topic with another permission is another entry.
type KafkaACL struct {
	ID         string // given by the API; "?" while it is not known
	Username   string // may be a pattern with * and ? in entries of others
	Topic      string // may be a pattern with * and ?
	Permission string // admin, read, readwrite, write
}

// OpenSearchACL is the access control of an OpenSearch service.
type OpenSearchACL struct {
	Enabled bool                        // off: every user may do everything
	Rules   map[string][]OpenSearchRule // by user name
}

// Grants reports whether access control is on and the user's rules are exactly these, in any order.
func (a *OpenSearchACL) Grants(username string, rules []OpenSearchRule) bool {
	return a != nil && a.Enabled && equalSets(a.Rules[username], rules)
}

// OpenSearchRule gives a permission on an index pattern.
type OpenSearchRule struct {
	Index      string `json:"index"`      // may be a pattern with * and ?
	Permission string `json:"permission"` // deny, admin, read, readwrite, write
}

// equalSets reports whether a and b hold the same elements, whatever their order and number.
func equalSets[T comparable](a, b []T) bool {
	return subset(a, b) && subset(b, a)
}

func subset[T comparable](a, b []T) bool {
	for _, v := range a {
		if !slices.Contains(b, v) {
			return false
		}
	}
	return true
}
