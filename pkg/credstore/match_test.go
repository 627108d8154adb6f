package credstore

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"software.sslmate.com/src/go-pkcs12"
)

func TestMatches(t *testing.T) {
	older, newer := newAuthority(t, "GEN 1"), newAuthority(t, "GEN 2")
	ca := newCA(t, older, newer)
	p, other := newPair(t, newer, "client"), newPair(t, newer, "other")
	keyStore, trustStore := newStores(t, p, ca)
	renewed := parsePair(t, encode([]*x509.Certificate{newer.issue(t, "client", p.key)}), p.Key)

	mixed := &Pair{key: other.key, chain: p.chain}

	encodeKey := func(e *pkcs12.Encoder, p *Pair, others ...*x509.Certificate) []byte {
		store, err := e.Encode(p.key, p.Leaf(), others, password)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	encodeTrust := func(e *pkcs12.Encoder, certs ...*x509.Certificate) []byte {
		store, err := e.EncodeTrustStore(certs, password)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}

	tests := map[string]struct {
		keyStore, trustStore []byte
		password             string
		want                 bool
	}{
		"takes what is made here":                    {keyStore, trustStore, password, true},
		"takes RC2":                                  {encodeKey(pkcs12.LegacyRC2, p), encodeTrust(pkcs12.LegacyRC2, older.cert, newer.cert), password, true},
		"takes 3DES":                                 {encodeKey(pkcs12.LegacyDES, p, newer.cert), encodeTrust(pkcs12.LegacyDES, older.cert, newer.cert), password, true},
		"takes the newest MAC":                       {encodeKey(pkcs12.Modern2026, p), encodeTrust(pkcs12.Modern2026, older.cert, newer.cert), password, true},
		"takes CAs in another order":                 {keyStore, encodeTrust(pkcs12.Modern2023, newer.cert, older.cert), password, true},
		"takes as many rounds as there may be":       {encodeKey(pkcs12.Modern2023.WithIterations(maxRounds), p), trustStore, password, true},
		"refuses more rounds in the key store":       {encodeKey(pkcs12.Modern2023.WithIterations(maxRounds+1), p), trustStore, password, false},
		"refuses more rounds in the trust store":     {keyStore, encodeTrust(pkcs12.Modern2023.WithIterations(maxRounds+1), older.cert, newer.cert), password, false},
		"refuses another password":                   {keyStore, trustStore, "changeit", false},
		"refuses a password that is no BMP string":   {keyStore, trustStore, "\U0001F511", false},
		"refuses no password":                        {keyStore, trustStore, "", false},
		"refuses another key":                        {encodeKey(pkcs12.Modern2023, mixed), trustStore, password, false},
		"refuses another client":                     {encodeKey(pkcs12.Modern2023, other), trustStore, password, false},
		"refuses the certificate before its renewal": {encodeKey(pkcs12.Modern2023, renewed), trustStore, password, false},
		"refuses a foreign CA in the key store":      {encodeKey(pkcs12.Modern2023, p, newAuthority(t, "GEN 2").cert), trustStore, password, false},
		"refuses a trust store with a CA too few":    {keyStore, encodeTrust(pkcs12.Modern2023, newer.cert), password, false},
		"refuses a trust store with a CA too many":   {keyStore, encodeTrust(pkcs12.Modern2023, older.cert, newer.cert, p.Leaf()), password, false},
		"refuses a trust store with a CA twice":      {keyStore, encodeTrust(pkcs12.Modern2023, newer.cert, newer.cert), password, false},
		"refuses no key store":                       {nil, trustStore, password, false},
		"refuses no trust store":                     {keyStore, nil, password, false},
		"refuses exchanged stores":                   {trustStore, keyStore, password, false},
		"refuses half a key store":                   {keyStore[:len(keyStore)/2], trustStore, password, false},
		"refuses more behind the key store":          {append(slices.Clip(keyStore), 0), trustStore, password, false},
		"refuses garbage":                            {[]byte("garbage"), []byte("garbage"), password, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Matches(test.keyStore, test.trustStore, p, ca, test.password); got != test.want {
				t.Errorf("want %t, got %t", test.want, got)
			}
		})
	}
}

func TestMatchesNeedsTheChain(t *testing.T) {
	root := newAuthority(t, "root")
	between := root.intermediate(t, "between")
	key, ca := newEC(t), newCA(t, root)
	leaf := between.issue(t, "client", key)
	whole := parsePair(t, encode([]*x509.Certificate{leaf, between.cert}), pkcs8(t, key))
	bare := parsePair(t, encode([]*x509.Certificate{leaf}), pkcs8(t, key))
	keyStore, trustStore := newStores(t, bare, ca)
	if Matches(keyStore, trustStore, whole, ca, password) {
		t.Error("a key store without the chain matches")
	}
}

// The earliest operators had their stores made by openssl and keytool.
func TestMatchesStoresOfTools(t *testing.T) {
	openssl, keytool := tool(t, "openssl"), tool(t, "keytool")
	authority := newAuthority(t, "CA")
	p, ca := newPair(t, authority, "client"), newCA(t, authority)
	pair := writeFile(t, "pair.pem", []byte(p.Certificate+p.Key))
	caFile := writeFile(t, "ca.pem", []byte(ca.PEM))

	trustPath := filepath.Join(t.TempDir(), "client.truststore.jks")
	keytool("-importcert", "-noprompt", "-file", caFile, "-alias", "CA", "-keystore", trustPath, "-storepass", password)
	trustStore, err := os.ReadFile(trustPath)
	if err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{"old algorithms": {"-legacy"}, "new algorithms": nil, "the name and the CA in it": {"-name", "key", "-certfile", caFile}} {
		t.Run(name, func(t *testing.T) {
			keyPath := filepath.Join(t.TempDir(), "client.keystore.p12")
			openssl(append([]string{"pkcs12", "-export", "-in", pair, "-passout", "pass:" + password, "-out", keyPath}, flags...)...)
			keyStore, err := os.ReadFile(keyPath)
			if err != nil {
				t.Fatal(err)
			}
			if !Matches(keyStore, trustStore, p, ca, password) {
				t.Error("the stores do not match")
			}
		})
	}
}
