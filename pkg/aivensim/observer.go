package aivensim

import (
	"crypto/tls"
	"crypto/x509"
	"path"
	"slices"
	"strings"
	"time"
)

// What is below is for an observer who knows everything: what clients could log in with, and what should not be there.

// Authenticate tells whether a client could log in to the service: the user exists, the password is its current one,
// and the service is powered on.
func (s *Simulator) Authenticate(project, service, username, password string) bool {
	svc := s.Service(project, service)
	return svc != nil && svc.Accepts(username, password)
}

// Accepts tells whether a client could log in with the password: it is the current one of the user, whether or not the API
// shows it already, and the service is powered on.
func (s *Service) Accepts(username, password string) bool {
	v := s.snapshot()
	u := v.users.find(username)
	return v.state != PowerOff && u != nil && password != "" && u.password == password
}

// AcceptsCertificate tells whether a client could log in to a Kafka service as the user with certificate and key, both PEM:
// they belong together, it is the user's current certificate or during a renewal the former one, valid now and signed by
// a CA that the project has, and the service is powered on and takes certificates.
func (s *Service) AcceptsCertificate(username, cert, key string) bool {
	v := s.snapshot()
	u := v.users.find(username)
	if v.state == PowerOff || v.config.NoCertificate || u == nil {
		return false
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return false
	}
	now := s.project.sim.now()
	return slices.ContainsFunc([]*certificate{u.certificate, u.former}, func(c *certificate) bool {
		return c != nil && c.cert == toPEM("CERTIFICATE", pair.Leaf.Raw) && s.project.signed(pair.Leaf) &&
			!now.Before(pair.Leaf.NotBefore) && now.Before(pair.Leaf.NotAfter)
	})
}

// signed tells whether a CA that has not been retired signed a certificate.
func (p *Project) signed(c *x509.Certificate) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.ContainsFunc(p.cas, func(a *authority) bool { return c.CheckSignatureFrom(a.certificate) == nil })
}

// expiryNotice is how long before the end of a certificate Aiven makes the next one.
const expiryNotice = 90 * 24 * time.Hour

// Gauges are what a service has now. The lists are sorted.
type Gauges struct {
	// Users counts the users that are not built in.
	Users int `json:"users"`
	// KafkaACLs and KafkaNativeACLs count entries, OpenSearchACLs the entries of the document.
	KafkaACLs       int `json:"kafkaACLs"`
	KafkaNativeACLs int `json:"kafkaNativeACLs"`
	OpenSearchACLs  int `json:"openSearchACLs"`
	// OrphanACLs are the user names, without wildcards, in entries of all kinds that no user has.
	OrphanACLs []string `json:"orphanACLs"`
	// UsersWithoutACL are the users, not built in, whom no entry names, not even with wildcards; on a Valkey service those
	// without access control.
	UsersWithoutACL []string `json:"usersWithoutACL"`
	// Expiring are the users whose certificate ends within 90 days or has ended, or whose former one has not ended.
	Expiring []string `json:"expiring"`
	// Generations are User.Generation, by user name.
	Generations map[string]int `json:"generations"`
}

// Gauges returns what the service has now.
func (s *Service) Gauges() Gauges {
	v := s.snapshot()
	now := s.project.sim.now()
	literal, globs := v.aclUsernames()
	g := Gauges{
		KafkaACLs: len(v.acl), KafkaNativeACLs: len(v.native), OpenSearchACLs: len(v.openSearch.ACLs),
		OrphanACLs: []string{}, UsersWithoutACL: []string{}, Expiring: []string{}, Generations: map[string]int{},
	}
	for _, u := range v.users {
		g.Generations[u.username] = u.generation
		if c := u.certificate; c != nil && c.cert != "" && (c.notAfter.Before(now.Add(expiryNotice)) || u.expiring.After(now)) {
			g.Expiring = append(g.Expiring, u.username)
		}
		named := literal[u.username] || slices.ContainsFunc(globs, func(glob string) bool { return matches(glob, u.username) })
		delete(literal, u.username)
		if u.kind == builtIn {
			continue
		}
		g.Users++
		if s.kind == Valkey {
			named = !u.accessControl.IsZero()
		}
		if !named {
			g.UsersWithoutACL = append(g.UsersWithoutACL, u.username)
		}
	}
	for name := range literal {
		g.OrphanACLs = append(g.OrphanACLs, name)
	}
	for _, list := range [][]string{g.OrphanACLs, g.UsersWithoutACL, g.Expiring} {
		slices.Sort(list)
	}
	return g
}

// aclUsernames returns the user names in entries of all kinds, those with wildcards apart.
func (v serviceState) aclUsernames() (literal map[string]bool, globs []string) {
	literal = map[string]bool{}
	add := func(name string) {
		if strings.ContainsAny(name, "*?") {
			globs = append(globs, name)
			return
		}
		literal[name] = true
	}
	for _, e := range v.acl {
		add(e.Username)
	}
	for _, e := range v.native {
		add(strings.TrimPrefix(e.Principal, "User:"))
	}
	for _, e := range v.openSearch.ACLs {
		add(e.Username)
	}
	return literal, slices.DeleteFunc(globs, func(glob string) bool { _, err := path.Match(glob, ""); return err != nil })
}
