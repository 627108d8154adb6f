package year

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

// openStores tells what of the key material of a Kafka user a client could not use: the certificate is one that a CA in the Secret has signed, and has not
// ended; the key fits; and the stores hold the same. Where the CAs are about to be followed by others, the certificate may be of one of those.
func openStores(data map[string][]byte, next string, now time.Time) error {
	pair, err := tls.X509KeyPair(data["KAFKA_CERTIFICATE"], data["KAFKA_PRIVATE_KEY"])
	if err != nil {
		return fmt.Errorf("KAFKA_CERTIFICATE and KAFKA_PRIVATE_KEY: %w", err)
	}
	cas, err := certificates(data["KAFKA_CA"])
	if err != nil {
		return fmt.Errorf("KAFKA_CA: %w", err)
	}
	roots := x509.NewCertPool()
	for _, ca := range cas {
		roots.AddCert(ca)
	}
	roots.AppendCertsFromPEM([]byte(next))
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("KAFKA_CERTIFICATE: %w", err)
	}
	password := string(data["KAFKA_CREDSTORE_PASSWORD"])
	key, leaf, _, err := pkcs12.DecodeChain(data["client.keystore.p12"], password)
	if err != nil {
		return fmt.Errorf("client.keystore.p12: %w", err)
	}
	private, ok := pair.PrivateKey.(interface{ Equal(crypto.PrivateKey) bool })
	if !ok || !private.Equal(key) || !leaf.Equal(pair.Leaf) {
		return errors.New("client.keystore.p12 holds another pair than the PEM files")
	}
	trusted, err := pkcs12.DecodeTrustStore(data["client.truststore.jks"], password)
	if err != nil {
		return fmt.Errorf("client.truststore.jks: %w", err)
	}
	if !slices.EqualFunc(sorted(trusted), sorted(cas), (*x509.Certificate).Equal) {
		return errors.New("client.truststore.jks holds other CAs than KAFKA_CA")
	}
	return nil
}

func sorted(cs []*x509.Certificate) []*x509.Certificate {
	return slices.SortedFunc(slices.Values(cs), func(a, b *x509.Certificate) int { return slices.Compare(a.Raw, b.Raw) })
}

// certificates reads a bundle of PEM, in which there has to be one at least.
func certificates(bundle []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no certificate")
	}
	return out, nil
}
