package credstore

import (
	"crypto"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePair(t *testing.T) {
	ec, ed := newEC(t), newEd25519(t)
	tests := map[string]struct {
		key crypto.Signer
		pem string
	}{
		"reads RSA as PKCS#1":                         {rsaKey(), block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey()))},
		"reads RSA as PKCS#8":                         {rsaKey(), pkcs8(t, rsaKey())},
		"reads EC as SEC1":                            {ec, sec1(t, ec)},
		"reads EC as SEC1 behind its parameters":      {ec, block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}) + sec1(t, ec)},
		"reads EC as PKCS#8":                          {ec, pkcs8(t, ec)},
		"reads Ed25519":                               {ed, pkcs8(t, ed)},
		"reads PKCS#1 in a block named as PKCS#8":     {rsaKey(), block("PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey()))},
		"reads Windows line ends and text around":     {ec, "Key:\r\n" + strings.ReplaceAll(pkcs8(t, ec), "\n", "\r\n") + "\r\nend"},
		"reads a key that does not end its last line": {ec, strings.TrimSpace(pkcs8(t, ec))},
	}
	authority := newAuthority(t, "CA")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cert := authority.issue(t, "client", test.key)
			p, err := ParsePair("comment\n"+encode([]*x509.Certificate{cert}), test.pem)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(pkcs8(t, test.key), p.Key); diff != "" {
				t.Errorf("Key (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(encode([]*x509.Certificate{cert}), p.Certificate); diff != "" {
				t.Errorf("Certificate (-want +got):\n%s", diff)
			}
			if !p.Leaf().Equal(cert) {
				t.Error("Leaf is not the client's certificate")
			}
		})
	}
}

func TestParsePairKeepsTheChain(t *testing.T) {
	root := newAuthority(t, "root")
	between := root.intermediate(t, "between")
	key := newEC(t)
	chain := encode([]*x509.Certificate{between.issue(t, "client", key), between.cert})
	p := parsePair(t, chain, pkcs8(t, key))
	if diff := cmp.Diff(chain, p.Certificate); diff != "" {
		t.Errorf("Certificate (-want +got):\n%s", diff)
	}
}

func TestParsePairErrors(t *testing.T) {
	authority := newAuthority(t, "CA")
	key, other := newEC(t), newEC(t)
	x25519, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	goodCert, goodKey := encode([]*x509.Certificate{authority.issue(t, "client", key)}), pkcs8(t, key)
	encrypted := string(pem.EncodeToMemory(&pem.Block{
		Type:    "RSA PRIVATE KEY",
		Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"},
		Bytes:   []byte("secret"),
	}))

	tests := map[string]struct{ cert, key, want string }{
		"refuses an empty key":                {goodCert, " \n", "parse access_key: empty"},
		"refuses a key that is not PEM":       {goodCert, "secret", "parse access_key: not PEM"},
		"refuses half a key":                  {goodCert, goodKey[:len(goodKey)/2], "parse access_key: 1 of 1 PEM blocks cannot be decoded"},
		"refuses a PKCS#8 key under password": {goodCert, block("ENCRYPTED PRIVATE KEY", []byte("secret")), "parse access_key: the private key is encrypted"},
		"refuses a PKCS#1 key under password": {goodCert, encrypted, "parse access_key: the private key is encrypted"},
		"refuses a key that is garbage":       {goodCert, block("PRIVATE KEY", []byte("secret")), "parse access_key: not a valid private key in PKCS#8, PKCS#1 or SEC1 form"},
		"refuses a key that cannot sign":      {goodCert, pkcs8(t, x25519), "parse access_key: a private key that cannot sign"},
		"refuses two keys":                    {goodCert, goodKey + goodKey, "parse access_key: more than one private key"},
		"refuses a certificate for a key":     {goodCert, goodCert, "parse access_key: no private key in it"},
		"refuses the key of another client":   {goodCert, pkcs8(t, other), "parse access_key: not the key of the certificate in access_cert"},
		"refuses a key of another kind":       {goodCert, pkcs8(t, newEd25519(t)), "parse access_key: not the key of the certificate in access_cert"},
		"refuses an empty certificate":        {"", goodKey, "parse access_cert: empty"},
		"refuses a certificate not in PEM":    {"secret", goodKey, "parse access_cert: not PEM"},
		"refuses a key for a certificate":     {goodKey, goodKey, "parse access_cert: PEM block 1 is not a certificate"},
		"refuses a certificate with its key":  {goodCert + goodKey, goodKey, "parse access_cert: PEM block 2 is not a certificate"},
		"refuses a garbled certificate":       {goodCert + block("CERTIFICATE", []byte("secret")), goodKey, "parse access_cert: certificate 2 is not valid X.509"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParsePair(test.cert, test.key)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPairPrintsNoKey(t *testing.T) {
	p := newPair(t, newAuthority(t, "CA"), "client")
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, v := range []any{p, *p, struct{ Pair *Pair }{p}, []Pair{*p}} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, "PRIVATE KEY") {
				t.Errorf("%s of %T shows the key", format, v)
			}
		}
	}
}
