package aivensim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// userCertificateDays is the life of a Kafka user's certificate.
	userCertificateDays = 820
	// caYears is the life of a project CA.
	caYears = 10
	// poolSize is the number of RSA keys of one size in the process. Users share keys; with several of them, a reset or
	// a renewal always brings another key.
	poolSize = 4
)

// certificate is a Kafka user's key and certificate.
type certificate struct {
	key      *rsaKey
	cert     string // PEM
	notAfter time.Time
}

// authority is one generation of a project CA.
type authority struct {
	signer      crypto.Signer
	algorithm   x509.SignatureAlgorithm
	certificate *x509.Certificate
	pem         string
	serial      atomic.Int64 // of the last certificate signed
}

// newAuthority makes the next CA of the project: self-signed, ten years, subject "<uuid> GEN n Project CA". The caller
// holds the lock.
func (p *Project) newAuthority() *authority {
	a := &authority{algorithm: x509.SHA384WithRSA}
	if p.sim.options.ECDSA {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		a.signer, a.algorithm = key, x509.ECDSAWithSHA256
	} else {
		keys := pool(p.sim.options.KeySize, "ca")
		a.signer = keys.take().private
		for len(p.cas) > 0 && a.signer == p.cas[0].signer {
			a.signer = keys.take().private
		}
	}
	u := [2]uint64{p.rng.Uint64(), p.rng.Uint64()}
	now := p.sim.now().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject: pkix.Name{CommonName: fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x GEN %d Project CA",
			u[0]>>32, u[0]>>16&0xffff, u[0]&0xfff, u[1]>>48&0xfff, u[1]&0xffffffffffff, len(p.cas)+1)},
		NotBefore:             now,
		NotAfter:              now.AddDate(caYears, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		SignatureAlgorithm:    a.algorithm,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.signer.Public(), a.signer)
	must(err)
	a.certificate, err = x509.ParseCertificate(der)
	must(err)
	a.pem = toPEM("CERTIFICATE", der)
	a.serial.Store(1)
	return a
}

// issue makes a certificate for a user of a Kafka service, with another key than the former one, valid for the usual time
// until an end; zero: from now on. The subject is the user's name; O and OU are a guess, and nobody should rely on them.
// With certificate authentication off, key and certificate are empty.
func (s *Service) issue(username string, former *certificate, end time.Time) *certificate {
	if s.snapshot().config.NoCertificate {
		return &certificate{key: &rsaKey{}}
	}
	keys := pool(s.project.sim.options.KeySize, "user")
	key := keys.take()
	for former != nil && key == former.key {
		key = keys.take()
	}
	if end.IsZero() {
		end = s.project.sim.now().AddDate(0, 0, userCertificateDays)
	}
	end = end.UTC().Truncate(time.Second)
	der := s.project.Sign(x509.Certificate{
		Subject: pkix.Name{
			CommonName:         username,
			Organization:       []string{s.project.name},
			OrganizationalUnit: []string{s.name},
		},
		NotBefore:   end.AddDate(0, 0, -userCertificateDays),
		NotAfter:    end,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key.private.Public())
	return &certificate{key: key, cert: toPEM("CERTIFICATE", der), notAfter: end}
}

// rsaKey is a key and its PKCS#8 form in PEM.
type rsaKey struct {
	private *rsa.PrivateKey
	pem     string
}

// keyPool makes its keys when they are first needed, and hands them out in turn.
type keyPool struct {
	keys [poolSize]func() *rsaKey
	next atomic.Uint64
}

// pools holds the key pools of the process by size and purpose.
var pools sync.Map

// pool returns the process-wide pool of keys of a size, in bits. CAs and users take from different ones.
func pool(bits int, purpose string) *keyPool {
	type id struct {
		bits    int
		purpose string
	}
	if p, ok := pools.Load(id{bits, purpose}); ok {
		return p.(*keyPool)
	}
	p := &keyPool{}
	for i := range p.keys {
		p.keys[i] = sync.OnceValue(func() *rsaKey { return newKey(bits) })
	}
	actual, _ := pools.LoadOrStore(id{bits, purpose}, p)
	return actual.(*keyPool)
}

// MakeKeys makes the keys that users share. Without it, each is made as a user first needs it, and that call may take a second longer.
func (s *Simulator) MakeKeys() {
	for i := range poolSize {
		pool(s.options.KeySize, "user").keys[i]()
	}
}

func (p *keyPool) take() *rsaKey { return p.keys[p.next.Add(1)%poolSize]() }

func newKey(bits int) *rsaKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	must(err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	return &rsaKey{private: key, pem: toPEM("PRIVATE KEY", der)}
}

func toPEM(block string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der}))
}

// must panics on an error that only a mistake in this package, or an impossible key size, can cause.
func must(err error) {
	if err != nil {
		panic(fmt.Errorf("make a certificate: %w", err))
	}
}
