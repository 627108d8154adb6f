package credstore

import (
	"crypto"
	"crypto/x509"
	"slices"

	"software.sslmate.com/src/go-pkcs12"
)

// Matches reports whether both stores open with the password and hold what KeyStore and TrustStore
// would put there: the key and certificate of p, and every certificate of ca and no other. Certificates of
// ca may be missing from the key store, where clients do not need them.
//
// The stores may be anybody's work, in any encoding of PKCS#12 that go-pkcs12 reads, the old ones
// with RC2 or 3DES among them, so that a Secret that another operator made can stay as it is.
// They are taken for hostile: the time that Matches takes is bounded whatever is in them.
func Matches(keyStore, trustStore []byte, p *Pair, ca *CA, password string) bool {
	return trustStoreMatches(trustStore, ca, password) && keyStoreMatches(keyStore, p, ca, password)
}

func trustStoreMatches(store []byte, ca *CA, password string) bool {
	// DecodeTrustStore opens no key, hence a bound on what is in clear is enough.
	if _, ok := openable(store); !ok {
		return false
	}
	certs, err := pkcs12.DecodeTrustStore(store, password)
	return err == nil && len(certs) == len(ca.Certificates) && containsAll(certs, ca.Certificates)
}

func keyStoreMatches(store []byte, p *Pair, ca *CA, password string) bool {
	safes, ok := openable(store)
	if !ok || hidesKey(safes, password) {
		return false
	}
	key, leaf, others, err := pkcs12.DecodeChain(store, password)
	if err != nil {
		return false
	}
	private, ok := key.(interface{ Equal(crypto.PrivateKey) bool })
	return ok && private.Equal(p.key) &&
		leaf.Equal(p.Leaf()) &&
		containsAll(others, p.chain[1:]) &&
		containsAll(slices.Concat(p.chain, ca.Certificates), others)
}

// containsAll reports whether every certificate of part is in whole.
func containsAll(whole, part []*x509.Certificate) bool {
	for _, c := range part {
		if !slices.ContainsFunc(whole, c.Equal) {
			return false
		}
	}
	return true
}
