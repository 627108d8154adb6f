// Package credstore turns the certificates and keys that Aiven issues into what Kafka clients read:
// PEM in one form, and the key store and trust store of Java clients. Everything in it is a pure
// function but for the salts of the stores, and nothing in it prints a key or a password.
package credstore

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/giantswarm/microerror"
	"software.sslmate.com/src/go-pkcs12"
)

// Encoding is how stores are encrypted.
type Encoding string

const (
	// Modern is AES-256-CBC with keys that PBKDF2 derives by HMAC-SHA-256, and a MAC with SHA-256. Java from 8u301 and
	// OpenSSL from 1.1.1 read it.
	//
	// It derives each key in 2048 rounds, as OpenSSL does, and that stays so: the password lies beside the store
	// in one Secret, and is usually a constant, so that more rounds would protect nothing. Hundreds of
	// stores are built in a burst; both of a client take about two milliseconds of one core this way.
	Modern Encoding = "modern"
	// Legacy is 3DES and SHA-1. Older versions of Java read it too; what follows FIPS 140 does not.
	Legacy Encoding = "legacy"
)

// Encodings are the known ones, the preferred one first.
var Encodings = []Encoding{Modern, Legacy}

var encoders = map[Encoding]*pkcs12.Encoder{Modern: pkcs12.Modern2023, Legacy: pkcs12.LegacyDES}

// encoder returns what writes the encoding, if the password is one for Java.
func (e Encoding) encoder(password string) (*pkcs12.Encoder, error) {
	if err := CheckPassword(password); err != nil {
		return nil, err
	}
	encoder, ok := encoders[e]
	if !ok {
		return nil, fmt.Errorf("the encoding %q is not one of %q", e, Encodings)
	}
	return encoder, nil
}

// KeyStore returns a PKCS#12 key store with one entry: the key of p under its certificate, with the
// chain of p and the certificates of ca that lead on to a root. It differs from call to call: salts are random.
func (e Encoding) KeyStore(p *Pair, ca *CA, password string) ([]byte, error) {
	encoder, err := e.encoder(password)
	if err != nil {
		return nil, microerror.Mask(fmt.Errorf("build key store: %w", err))
	}
	chain := slices.Concat(p.chain[1:], ca.issuers(p.chain[len(p.chain)-1]))
	store, err := encoder.Encode(p.key, p.chain[0], chain, password)
	if err != nil {
		return nil, microerror.Mask(fmt.Errorf("build key store: %w", err))
	}
	return store, nil
}

// TrustStore returns a PKCS#12 trust store with one trusted entry, for any key usage, for each certificate
// of ca. It depends on its arguments and on random salts only, so that one may serve all clients of a project.
//
// An entry's alias is "ca-" and the first 16 hex digits of the certificate's SHA-256 fingerprint: it
// stays when other certificates come and go, and two CAs of one name do not take each other's place.
func (e Encoding) TrustStore(ca *CA, password string) ([]byte, error) {
	encoder, err := e.encoder(password)
	if err != nil {
		return nil, microerror.Mask(fmt.Errorf("build trust store: %w", err))
	}
	entries := make([]pkcs12.TrustStoreEntry, 0, len(ca.Certificates))
	for _, c := range ca.Certificates {
		fingerprint := sha256.Sum256(c.Raw)
		entries = append(entries, pkcs12.TrustStoreEntry{Cert: c, FriendlyName: fmt.Sprintf("ca-%x", fingerprint[:8])})
	}
	store, err := encoder.EncodeTrustStoreEntries(entries, password)
	if err != nil {
		return nil, microerror.Mask(fmt.Errorf("build trust store: %w", err))
	}
	return store, nil
}
