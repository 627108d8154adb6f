package aivensim

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"time"
)

// Follow calls f, now and whenever the service has changed, with the users that can log in: those of type "normal", and none while the
// service is powered off. A request that makes a change is answered after f has returned, so that a server behind it knows a user
// before its owner does. Calls come one at a time, in the order of the changes. f must not call the service. Nil ends it.
func (s *Service) Follow(f func(users []User)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follower = f
	s.tell()
}

// tell calls the follower. The caller holds the lock.
func (s *Service) tell() {
	if s.follower == nil {
		return
	}
	var users []User
	for _, u := range s.state.users {
		if u.kind == normal && s.state.state != PowerOff {
			users = append(users, u.export())
		}
	}
	s.follower(users)
}

// Sign issues a certificate for a key, signed by the latest CA, and returns it as DER. Serial number and signature algorithm of the template
// do not count. It panics if the template or the key makes no sense.
func (p *Project) Sign(template x509.Certificate, public crypto.PublicKey) []byte {
	a := p.authority()
	template.SerialNumber, template.SignatureAlgorithm = big.NewInt(a.serial.Add(1)), a.algorithm
	der, err := x509.CreateCertificate(rand.Reader, &template, a.certificate, public, a.signer)
	must(err)
	return der
}

// SetPair replaces what answers show as certificate and key of a user, whatever the texts are. It tells whether the user exists and has a
// certificate.
func (s *Service) SetPair(username, cert, key string) bool {
	if u := s.snapshot().users.find(username); u == nil || u.certificate == nil {
		return false
	}
	return s.update(username, func(u *user) {
		u.certificate = &certificate{key: &rsaKey{pem: key}, cert: cert, notAfter: u.certificate.notAfter}
		u.former, u.expiring = nil, time.Time{}
		u.generation++
	})
}
