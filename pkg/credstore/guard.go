package credstore

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"

	"software.sslmate.com/src/go-pkcs12"
)

// A PKCS#12 file says itself in how many rounds each of its keys is derived, and go-pkcs12 obeys: a
// file of a few hundred bytes can keep it busy for years, and nothing interrupts it. Whoever may edit a
// Secret could stop the operator for everybody. This file finds such stores before they are decoded.

const (
	// maxRounds is the most that a known writer uses by default: Java before 16, for the MAC.
	maxRounds = 100_000
	// maxDepth is more than the nesting of any store.
	maxDepth = 32
)

var (
	oidData       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}         // RFC 5652, section 4
	oidKeyBag     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 1} // RFC 7292, section 4.2.1
	oidPBKDF2     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}        // RFC 8018, appendix A.2
	oidPBMAC1     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 14}        // RFC 8018, appendix A.5
	oidHMACSHA256 = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}            // RFC 8018, appendix B.1.2
)

// The structures of RFC 7292, section 4, as far as they are needed here.
type (
	pfx struct {
		Version  int
		AuthSafe contentInfo
		MACData  macData `asn1:"optional"`
	}
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"tag:0,explicit,optional"`
	}
	safeBag struct {
		ID    asn1.ObjectIdentifier
		Value asn1.RawValue `asn1:"tag:0,explicit"`
	}
	macData struct {
		MAC    digestInfo
		Salt   []byte
		Rounds int `asn1:"optional,default:1"`
	}
	digestInfo struct {
		Algorithm pkix.AlgorithmIdentifier
		Digest    []byte
	}
	pbmac1Params struct {
		KDF, MAC pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt              []byte
		Rounds, KeyLength int
		PRF               pkix.AlgorithmIdentifier
	}
)

// openable returns the safes of a store, and whether every number of rounds that stands in clear is
// at most maxRounds. That leaves only what is in encrypted safes.
func openable(store []byte) ([]contentInfo, bool) {
	var outer pfx
	var content asn1.RawValue
	var safes []contentInfo
	if !bounded(store, 0) ||
		!unmarshal(store, &outer) ||
		!unmarshal(outer.AuthSafe.Content.Bytes, &content) ||
		!bounded(content.Bytes, 0) ||
		!unmarshal(content.Bytes, &safes) {
		return nil, false
	}
	for _, safe := range safes {
		var bags []byte
		if safe.Type.Equal(oidData) && !(unmarshal(safe.Content.Bytes, &bags) && bounded(bags, 0)) {
			return nil, false
		}
	}
	return safes, true
}

// bounded reports whether no INTEGER in der is greater than maxRounds. No other INTEGER of a store is that
// great, so that it need not be known which ones are rounds.
func bounded(der []byte, depth int) bool {
	for len(der) > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil || depth > maxDepth {
			return false
		}
		if v.IsCompound && !bounded(v.Bytes, depth+1) {
			return false
		}
		if v.Class == asn1.ClassUniversal && v.Tag == asn1.TagInteger {
			var n int32
			if !unmarshal(v.FullBytes, &n) || n > maxRounds {
				return false
			}
		}
		der = rest
	}
	return true
}

// hidesKey reports whether an encrypted safe holds a key, whose rounds could not be checked. (Known writers put
// the key, which is encrypted by itself, into a safe in clear.) go-pkcs12 does not say what a safe holds, but it
// refuses a second key before it touches it: so each safe is decoded behind a key that is in clear.
func hidesKey(safes []contentInfo, password string) bool {
	for _, safe := range safes {
		if safe.Type.Equal(oidData) {
			continue
		}
		if _, _, _, err := pkcs12.DecodeChain(seal(marshal([]contentInfo{decoy, safe}), password), password); err != nil {
			return true
		}
	}
	return false
}

// decoy is a safe in clear with a key that means nothing.
var decoy = func() contentInfo {
	key, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		panic(err) // a constant
	}
	bags := marshal([]safeBag{{ID: oidKeyBag, Value: explicit(key)}})
	return contentInfo{Type: oidData, Content: explicit(marshal(bags))}
}()

// seal returns a store of the safes in content, with a MAC of the one kind that the standard library can compute.
func seal(content []byte, password string) []byte {
	key, err := pbkdf2.Key(sha256.New, password, nil, 1, sha256.Size)
	if err != nil {
		return nil
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(content)

	hmacSHA256 := pkix.AlgorithmIdentifier{Algorithm: oidHMACSHA256}
	kdf := marshal(pbkdf2Params{Salt: []byte{}, Rounds: 1, KeyLength: sha256.Size, PRF: hmacSHA256})
	algorithm := marshal(pbmac1Params{
		KDF: pkix.AlgorithmIdentifier{Algorithm: oidPBKDF2, Parameters: asn1.RawValue{FullBytes: kdf}},
		MAC: hmacSHA256,
	})
	return marshal(pfx{
		Version:  3,
		AuthSafe: contentInfo{Type: oidData, Content: explicit(marshal(content))},
		MACData: macData{MAC: digestInfo{
			Algorithm: pkix.AlgorithmIdentifier{Algorithm: oidPBMAC1, Parameters: asn1.RawValue{FullBytes: algorithm}},
			Digest:    mac.Sum(nil),
		}},
	})
}

// explicit returns der under the explicit tag [0].
func explicit(der []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: der}
}

// marshal returns v as DER, or nothing, which no decoder takes.
func marshal(v any) []byte {
	der, err := asn1.Marshal(v)
	if err != nil {
		return nil
	}
	return der
}

// unmarshal reads all of der into v.
func unmarshal(der []byte, v any) bool {
	rest, err := asn1.Unmarshal(der, v)
	return err == nil && len(rest) == 0
}
