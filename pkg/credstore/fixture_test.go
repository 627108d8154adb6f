package credstore

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const password = "changeme"

// authority issues certificates as the CA of an Aiven project does.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key := newEC(t)
	template := &x509.Certificate{
		SerialNumber:          serial(t),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return authority{cert: sign(t, template, template, key.Public(), key), key: key}
}

// issue returns a certificate for key, fit for a client and for a server on 127.0.0.1.
func (a authority) issue(t testing.TB, name string, key crypto.Signer) *x509.Certificate {
	t.Helper()
	return sign(t, &x509.Certificate{
		SerialNumber: serial(t),
		Subject:      pkix.Name{CommonName: name, Organization: []string{"project"}},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{"kafka.example.com"},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.cert, key.Public(), a.key)
}

// intermediate returns an authority that a issued.
func (a authority) intermediate(t testing.TB, name string) authority {
	t.Helper()
	key := newEC(t)
	return authority{key: key, cert: sign(t, &x509.Certificate{
		SerialNumber:          serial(t),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}, a.cert, key.Public(), a.key)}
}

func sign(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newEC(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newEd25519(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// rsaKey is of the size that Aiven issues. There is one, since making it is slow.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		panic(err)
	}
	return key
})

func block(blockType string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der}))
}

func pkcs8(t testing.TB, key crypto.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return block("PRIVATE KEY", der)
}

func sec1(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return block("EC PRIVATE KEY", der)
}

// newPair returns a client of a with an EC key.
func newPair(t testing.TB, a authority, name string) *Pair {
	t.Helper()
	key := newEC(t)
	return parsePair(t, encode([]*x509.Certificate{a.issue(t, name, key)}), pkcs8(t, key))
}

func parsePair(t testing.TB, certPEM, keyPEM string) *Pair {
	t.Helper()
	p, err := ParsePair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newCA(t testing.TB, authorities ...authority) *CA {
	t.Helper()
	var bundle string
	for _, a := range authorities {
		bundle += encode([]*x509.Certificate{a.cert})
	}
	ca, err := ParseCA(bundle)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newStores(t testing.TB, p *Pair, ca *CA) (keyStore, trustStore []byte) {
	t.Helper()
	return encodedStores(t, Modern, p, ca)
}

func encodedStores(t testing.TB, e Encoding, p *Pair, ca *CA) (keyStore, trustStore []byte) {
	t.Helper()
	keyStore, err := e.KeyStore(p, ca, password)
	if err != nil {
		t.Fatal(err)
	}
	trustStore, err = e.TrustStore(ca, password)
	if err != nil {
		t.Fatal(err)
	}
	return keyStore, trustStore
}

// tool returns a function that runs a program. Where it is missing the test is skipped, or fails if CI is set.
func tool(t *testing.T, name string) func(args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatalf("%s is not on the PATH: install it, or unset CI to skip what needs it", name)
	case err != nil:
		t.Skipf("NOT TESTED: %s is not on the PATH, so what it makes of the stores is not known", name)
	}
	return func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("run %s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustBlocks(t *testing.T, text string) []*pem.Block {
	t.Helper()
	bs, err := blocks(text)
	if err != nil {
		t.Fatal(err)
	}
	return bs
}
