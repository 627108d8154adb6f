package credstore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math"
	"testing"

	"software.sslmate.com/src/go-pkcs12"
)

// Every store below would keep go-pkcs12 busy for longer than this test may run.
func TestMatchesEndsWhateverIsInTheStore(t *testing.T) {
	authority := newAuthority(t, "CA")
	p, ca := newPair(t, authority, "client"), newCA(t, authority)
	keyStore, trustStore := newStores(t, p, ca)

	tests := map[string]struct{ keyStore, trustStore []byte }{
		"refuses endless rounds for the MAC of a key store":   {withMACRounds(t, keyStore), trustStore},
		"refuses endless rounds for the MAC of a trust store": {keyStore, withMACRounds(t, trustStore)},
		"refuses endless rounds for the key": {
			craft(encrypted(t, 1, certBag(p)), inClear(keyBag(t, p, math.MaxInt))), trustStore},
		"refuses endless rounds for the certificates": {
			craft(encrypted(t, math.MaxInt, certBag(p)), inClear(keyBag(t, p, 1))), trustStore},
		"refuses endless rounds for the trusted certificates": {
			keyStore, craft(encrypted(t, math.MaxInt, certBag(p)))},
		"refuses endless rounds for a key under encryption": {
			craft(encrypted(t, 1, certBag(p), keyBag(t, p, math.MaxInt)), inClear(keyBag(t, p, 1))), trustStore},
		"refuses endless rounds for a key under encryption, alone": {
			craft(encrypted(t, 1, keyBag(t, p, math.MaxInt))), trustStore},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if Matches(test.keyStore, test.trustStore, p, ca, password) {
				t.Error("it matches")
			}
		})
	}
}

// The stores above are refused for their rounds, and not because they are made badly.
func TestMatchesCraftedStores(t *testing.T) {
	authority := newAuthority(t, "CA")
	p, ca := newPair(t, authority, "client"), newCA(t, authority)
	_, trustStore := newStores(t, p, ca)

	for name, keyStore := range map[string][]byte{
		"certificates first": craft(encrypted(t, 1, certBag(p)), inClear(keyBag(t, p, 1))),
		"key first":          craft(inClear(keyBag(t, p, 1)), encrypted(t, 1, certBag(p))),
	} {
		if !Matches(keyStore, trustStore, p, ca, password) {
			t.Errorf("%s: does not match", name)
		}
	}

	hidden := craft(encrypted(t, 1, certBag(p), keyBag(t, p, 1)))
	if _, _, _, err := pkcs12.DecodeChain(hidden, password); err != nil {
		t.Errorf("go-pkcs12 takes no key under encryption any more, hidesKey can go: %v", err)
	}
	if Matches(hidden, trustStore, p, ca, password) {
		t.Error("a key under encryption matches")
	}
}

func TestBoundedEndsOnDeepNesting(t *testing.T) {
	der := []byte{}
	for range 2 * maxDepth {
		der = marshal([]asn1.RawValue{{FullBytes: der}})
	}
	if bounded(der, 0) {
		t.Error("it is bounded")
	}
}

func craft(safes ...contentInfo) []byte { return seal(marshal(safes), password) }

// withMACRounds returns the store with a MAC that claims endless rounds.
func withMACRounds(t *testing.T, store []byte) []byte {
	t.Helper()
	var outer pfx
	if !unmarshal(store, &outer) {
		t.Fatal("not a store")
	}
	outer.MACData.Rounds = math.MaxInt
	return marshal(outer)
}

func inClear(bags ...safeBag) contentInfo {
	return contentInfo{Type: oidData, Content: explicit(marshal(marshal(bags)))}
}

// encrypted returns a safe whose key claims to be derived in that many rounds, and is in one.
func encrypted(t testing.TB, rounds int, bags ...safeBag) contentInfo {
	t.Helper()
	algorithm, ciphertext := encrypt(t, rounds, marshal(bags))
	return contentInfo{
		Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 6},
		Content: explicit(marshal(struct {
			Version int
			Content struct {
				Type      asn1.ObjectIdentifier
				Algorithm pkix.AlgorithmIdentifier
				Encrypted []byte `asn1:"tag:0"`
			}
		}{Content: struct {
			Type      asn1.ObjectIdentifier
			Algorithm pkix.AlgorithmIdentifier
			Encrypted []byte `asn1:"tag:0"`
		}{oidData, algorithm, ciphertext}})),
	}
}

// keyBag returns the key of p, encrypted likewise.
func keyBag(t testing.TB, p *Pair, rounds int) safeBag {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		t.Fatal(err)
	}
	algorithm, ciphertext := encrypt(t, rounds, der)
	return safeBag{
		ID: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 2},
		Value: explicit(marshal(struct {
			Algorithm pkix.AlgorithmIdentifier
			Encrypted []byte
		}{algorithm, ciphertext})),
	}
}

func certBag(p *Pair) safeBag {
	return safeBag{
		ID: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3},
		Value: explicit(marshal(struct {
			ID   asn1.ObjectIdentifier
			Cert []byte `asn1:"tag:0,explicit"`
		}{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}, p.Leaf().Raw})),
	}
}

// encrypt is PBES2 of RFC 8018, section 6.2, with AES-256.
func encrypt(t testing.TB, rounds int, plain []byte) (pkix.AlgorithmIdentifier, []byte) {
	t.Helper()
	salt, iv := make([]byte, 16), make([]byte, aes.BlockSize)
	key, err := pbkdf2.Key(sha256.New, password, salt, 1, 32)
	if err != nil {
		t.Fatal(err)
	}
	cipherBlock, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	for range padding {
		plain = append(plain, byte(padding))
	}
	ciphertext := make([]byte, len(plain))
	cipher.NewCBCEncrypter(cipherBlock, iv).CryptBlocks(ciphertext, plain)

	kdf := marshal(pbkdf2Params{salt, rounds, 32, pkix.AlgorithmIdentifier{Algorithm: oidHMACSHA256}})
	parameters := marshal(pbmac1Params{ // PBES2 has the same form
		KDF: pkix.AlgorithmIdentifier{Algorithm: oidPBKDF2, Parameters: asn1.RawValue{FullBytes: kdf}},
		MAC: pkix.AlgorithmIdentifier{
			Algorithm:  asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42},
			Parameters: asn1.RawValue{FullBytes: marshal(iv)},
		},
	})
	return pkix.AlgorithmIdentifier{
		Algorithm:  asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13},
		Parameters: asn1.RawValue{FullBytes: parameters},
	}, ciphertext
}
