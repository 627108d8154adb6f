package credstore

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// PEM block types of RFC 7468.
const (
	certificateBlock = "CERTIFICATE"
	privateKeyBlock  = "PRIVATE KEY"
)

// blocks returns the PEM blocks of text, in order. Whatever stands between them is skipped; a
// block that is there but cannot be decoded is an error, because pem.Decode would skip it too.
func blocks(text string) ([]*pem.Block, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("empty")
	}
	var found []*pem.Block
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		found = append(found, block)
	}
	switch begun := strings.Count(text, "-----BEGIN "); {
	case begun > len(found):
		return nil, fmt.Errorf("%d of %d PEM blocks cannot be decoded", begun-len(found), begun)
	case len(found) == 0:
		return nil, errors.New("not PEM")
	}
	return found, nil
}

// certificates parses text that holds certificates and nothing else.
func certificates(text string) ([]*x509.Certificate, error) {
	bs, err := blocks(text)
	if err != nil {
		return nil, err
	}
	certs := make([]*x509.Certificate, 0, len(bs))
	for i, b := range bs {
		if b.Type != certificateBlock {
			return nil, fmt.Errorf("PEM block %d is not a certificate", i+1)
		}
		// The parser's error is dropped: it may quote from the certificate.
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d is not valid X.509", i+1)
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

// encode returns certs as PEM blocks without anything between them.
func encode(certs []*x509.Certificate) string {
	var out bytes.Buffer
	for _, c := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw}))
	}
	return out.String()
}
