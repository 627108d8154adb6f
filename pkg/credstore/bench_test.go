package credstore

import (
	"crypto/x509"
	"testing"
)

func BenchmarkStores(b *testing.B) {
	authority := newAuthority(b, "CA")
	ca := newCA(b, authority)
	p := parsePair(b, encode([]*x509.Certificate{authority.issue(b, "client", rsaKey())}), pkcs8(b, rsaKey()))
	keyStore, trustStore := newStores(b, p, ca)

	b.Run("ParsePair", func(b *testing.B) {
		for b.Loop() {
			parsePair(b, p.Certificate, p.Key)
		}
	})
	b.Run("KeyStore", func(b *testing.B) {
		for b.Loop() {
			if _, err := Modern.KeyStore(p, ca, password); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("TrustStore", func(b *testing.B) {
		for b.Loop() {
			if _, err := Modern.TrustStore(ca, password); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Matches", func(b *testing.B) {
		for b.Loop() {
			if !Matches(keyStore, trustStore, p, ca, password) {
				b.Fatal("the stores do not match")
			}
		}
	})
}
