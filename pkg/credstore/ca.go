package credstore

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/giantswarm/microerror"
)

// CA is a project's CA: one certificate, or several while a new CA takes over from an old one.
type CA struct {
	// PEM is the bundle: certificates alone, in the order they came, none twice.
	PEM string
	// Certificates are those of PEM, in the same order.
	Certificates []*x509.Certificate
}

// ParseCA reads every certificate of a PEM bundle. Text between the certificates is dropped; a bundle
// without a certificate, or with anything else in a PEM block, is an error.
func ParseCA(bundle string) (*CA, error) {
	all, err := certificates(bundle)
	if err != nil {
		return nil, microerror.Mask(fmt.Errorf("parse project CA: %w", err))
	}
	var certs []*x509.Certificate
	for _, c := range all {
		if !slices.ContainsFunc(certs, c.Equal) {
			certs = append(certs, c)
		}
	}
	return &CA{PEM: encode(certs), Certificates: certs}, nil
}

// issuers returns the certificates of the bundle that lead from cert to a root, nearest first.
func (ca *CA) issuers(cert *x509.Certificate) []*x509.Certificate {
	var path []*x509.Certificate
	for !bytes.Equal(cert.RawIssuer, cert.RawSubject) && len(path) < len(ca.Certificates) {
		i := slices.IndexFunc(ca.Certificates, func(c *x509.Certificate) bool {
			return cert.CheckSignatureFrom(c) == nil
		})
		if i < 0 {
			break
		}
		cert = ca.Certificates[i]
		path = append(path, cert)
	}
	return path
}
