package credstore

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/giantswarm/microerror"
)

// Pair is a client's certificate and its private key. ParsePair makes it, nothing else does.
type Pair struct {
	// Certificate is the client's certificate as PEM, followed by its chain if one was given.
	Certificate string
	// Key is the private key as PEM of PKCS#8, whatever form it was given in.
	Key string

	key   crypto.Signer
	chain []*x509.Certificate // the client's own first
}

// Leaf returns the client's own certificate, which says who the client is and until when.
func (p *Pair) Leaf() *x509.Certificate { return p.chain[0] }

// String names the client without its key, so that a Pair can be printed.
func (p Pair) String() string {
	if len(p.chain) == 0 {
		return "no pair"
	}
	return "pair of " + p.chain[0].Subject.String()
}

// GoString is String: %#v shows no key either.
func (p Pair) GoString() string { return p.String() }

// ParsePair reads the fields access_cert and access_key of an Aiven service user.
//
// The certificate is PEM, the client's own first and its chain, if any, behind it. The key is PEM of
// an RSA, EC or Ed25519 key in PKCS#8, PKCS#1 or SEC1 form, not encrypted. Both must belong together.
//
// An error names the field and the reason, and never anything of what the field holds.
func ParsePair(certPEM, keyPEM string) (*Pair, error) {
	chain, err := certificates(certPEM)
	if err != nil {
		return nil, microerror.Mask(fmt.Errorf("parse access_cert: %w", err))
	}
	key, pkcs8, err := privateKey(keyPEM)
	if err != nil {
		return nil, microerror.Mask(fmt.Errorf("parse access_key: %w", err))
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(chain[0].PublicKey) {
		return nil, microerror.Mask(errors.New("parse access_key: not the key of the certificate in access_cert"))
	}
	return &Pair{
		Certificate: encode(chain),
		Key:         string(pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: pkcs8})),
		key:         key,
		chain:       chain,
	}, nil
}

// privateKey reads the one private key of text and returns it with its PKCS#8 form.
func privateKey(text string) (crypto.Signer, []byte, error) {
	bs, err := blocks(text)
	if err != nil {
		return nil, nil, err
	}
	var found *pem.Block
	for _, b := range bs {
		switch {
		case !strings.HasSuffix(b.Type, privateKeyBlock): // such as EC PARAMETERS in front of a SEC1 key
		case found != nil:
			return nil, nil, errors.New("more than one private key")
		default:
			found = b
		}
	}
	switch {
	case found == nil:
		return nil, nil, errors.New("no private key in it")
	case found.Type == "ENCRYPTED PRIVATE KEY", strings.Contains(found.Headers["Proc-Type"], "ENCRYPTED"):
		return nil, nil, errors.New("the private key is encrypted")
	}
	return parseKey(found.Bytes)
}

// parseKey tries the forms of a private key in turn, since the type of its PEM block is not always right.
func parseKey(der []byte) (crypto.Signer, []byte, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, nil, errors.New("a private key that cannot sign")
		}
		return signer, der, nil // byte for byte as it was issued
	}
	var signer crypto.Signer
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		signer = key
	} else if key, err := x509.ParseECPrivateKey(der); err == nil {
		signer = key
	} else {
		return nil, nil, errors.New("not a valid private key in PKCS#8, PKCS#1 or SEC1 form")
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return nil, nil, errors.New("a private key without a PKCS#8 form")
	}
	return signer, pkcs8, nil
}
