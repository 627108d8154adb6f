package credstore

import "testing"

func FuzzParsePair(f *testing.F) {
	p := newPair(f, newAuthority(f, "CA"), "client")
	f.Add(p.Certificate, p.Key)
	f.Add(p.Certificate, sec1(f, newEC(f)))
	f.Add("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, certPEM, keyPEM string) {
		p, err := ParsePair(certPEM, keyPEM)
		if err != nil {
			return
		}
		again, err := ParsePair(p.Certificate, p.Key)
		if err != nil {
			t.Fatalf("what it publishes it cannot read: %v", err)
		}
		if again.Certificate != p.Certificate || again.Key != p.Key {
			t.Error("what it publishes it publishes otherwise when it reads that")
		}
	})
}

func FuzzParseCA(f *testing.F) {
	f.Add("# old\n" + newCA(f, newAuthority(f, "GEN 1"), newAuthority(f, "GEN 2")).PEM)
	f.Fuzz(func(t *testing.T, bundle string) {
		ca, err := ParseCA(bundle)
		if err != nil {
			return
		}
		if again, err := ParseCA(ca.PEM); err != nil || again.PEM != ca.PEM {
			t.Errorf("what it publishes it reads otherwise: %v", err)
		}
	})
}

// The stores get a good MAC, or else the fuzzer would never come behind that.
func FuzzMatches(f *testing.F) {
	authority := newAuthority(f, "CA")
	p, ca := newPair(f, authority, "client"), newCA(f, authority)
	keyStore, trustStore := newStores(f, p, ca)
	for _, store := range [][]byte{keyStore, trustStore} {
		safes, _ := openable(store)
		f.Add(marshal(safes))
	}
	f.Add(marshal([]contentInfo{encrypted(f, 1, certBag(p), keyBag(f, p, 1)), inClear(keyBag(f, p, 1))}))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, store := range [][]byte{content, seal(content, password)} {
			keyStoreMatches(store, p, ca, password)
			trustStoreMatches(store, ca, password)
		}
	})
}
