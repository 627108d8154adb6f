package credstore

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"software.sslmate.com/src/go-pkcs12"
)

func TestKeyStore(t *testing.T) {
	root := newAuthority(t, "CA")
	between := root.intermediate(t, "between")
	stranger := newAuthority(t, "CA") // another CA of the same name
	ec, ed := newEC(t), newEd25519(t)
	tests := map[string]struct {
		key   crypto.Signer
		chain []*x509.Certificate
		ca    *CA
		want  []*x509.Certificate // behind the client's own
	}{
		"holds an RSA key with the CA":            {rsaKey(), []*x509.Certificate{root.issue(t, "client", rsaKey())}, newCA(t, root), []*x509.Certificate{root.cert}},
		"holds an EC key with the CA":             {ec, []*x509.Certificate{root.issue(t, "client", ec)}, newCA(t, root), []*x509.Certificate{root.cert}},
		"holds an Ed25519 key with the CA":        {ed, []*x509.Certificate{root.issue(t, "client", ed)}, newCA(t, root), []*x509.Certificate{root.cert}},
		"leaves out a CA that did not issue":      {ec, []*x509.Certificate{root.issue(t, "client", ec)}, newCA(t, stranger, root), []*x509.Certificate{root.cert}},
		"does without the CA where it is unknown": {ec, []*x509.Certificate{root.issue(t, "client", ec)}, newCA(t, stranger), nil},
		"holds the chain of the client":           {ec, []*x509.Certificate{between.issue(t, "client", ec), between.cert}, newCA(t, root), []*x509.Certificate{between.cert, root.cert}},
		"finds the chain in the bundle":           {ec, []*x509.Certificate{between.issue(t, "client", ec)}, newCA(t, root, between), []*x509.Certificate{between.cert, root.cert}},
		"does not repeat a CA in the chain":       {ec, []*x509.Certificate{root.issue(t, "client", ec), root.cert}, newCA(t, root), []*x509.Certificate{root.cert}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := parsePair(t, encode(test.chain), pkcs8(t, test.key))
			store, trustStore := newStores(t, p, test.ca)
			key, leaf, others, err := pkcs12.DecodeChain(store, password)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p.Key, pkcs8(t, key)); diff != "" {
				t.Error("key differs")
			}
			if !leaf.Equal(test.chain[0]) {
				t.Error("certificate differs")
			}
			if diff := cmp.Diff(encode(test.want), encode(others)); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
			if !Matches(store, trustStore, p, test.ca, password) {
				t.Error("Matches does not know the stores again")
			}
		})
	}
}

func TestPasswords(t *testing.T) {
	authority := newAuthority(t, "CA")
	p, ca := newPair(t, authority, "client"), newCA(t, authority)
	tests := map[string]struct{ password, want string }{
		"takes the usual one":          {"changeme", ""},
		"takes a random one":           {RandomPassword(), ""},
		"takes all printable ASCII":    {` !"#$%&'()*+,-./09:;<=>?@AZ[\]^_az{|}~` + "`", ""},
		"refuses none":                 {"", "the password has less than the 6 characters that Java wants"},
		"refuses a short one":          {"short", "the password has less than the 6 characters that Java wants"},
		"refuses what Java cannot use": {"pässword", "the password is not printable ASCII"},
		"refuses a line end":           {"password\n", "the password is not printable ASCII"},
		"refuses broken UTF-8":         {"password\xff", "the password is not printable ASCII"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			keyStore, keyErr := Modern.KeyStore(p, ca, test.password)
			trustStore, trustErr := Modern.TrustStore(ca, test.password)
			if test.want == "" {
				if !Matches(keyStore, trustStore, p, ca, test.password) {
					t.Errorf("stores do not match: %v, %v", keyErr, trustErr)
				}
				return
			}
			want := []string{"build key store: " + test.want, "build trust store: " + test.want}
			if diff := cmp.Diff(want, []string{fmt.Sprint(keyErr), fmt.Sprint(trustErr)}); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRandomPasswordsAreKnownAgain(t *testing.T) {
	one, other := RandomPassword(), RandomPassword()
	if one == other || !IsRandomPassword(one) || !IsRandomPassword(other) {
		t.Errorf("%q and %q are equal, or not known again", one, other)
	}
	for _, text := range []string{"", "changeme", one[1:], one + "\n", strings.ToLower(one), strings.Repeat(one, 3)} {
		if IsRandomPassword(text) {
			t.Errorf("%q counts as random", text)
		}
	}
}

func TestAnUnknownEncodingIsNamed(t *testing.T) {
	authority := newAuthority(t, "CA")
	_, err := Encoding("JKS").KeyStore(newPair(t, authority, "client"), newCA(t, authority), password)
	if diff := cmp.Diff(`build key store: the encoding "JKS" is not one of ["modern" "legacy"]`, fmt.Sprint(err)); diff != "" {
		t.Error(diff)
	}
}

// What Java makes of the stores, which are written for it.
func TestStoresOpenInKeytool(t *testing.T) {
	keytool := tool(t, "keytool")
	list := func(t *testing.T, name string, store []byte) string {
		return keytool("-J-Duser.language=en", "-list", "-v", "-storepass", password, "-keystore", writeFile(t, name, store))
	}
	fingerprint := func(c *x509.Certificate) string {
		sum := sha256.Sum256(c.Raw)
		return "SHA256: " + strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
	}
	// Both CAs have one name, which must not make one entry of them.
	older, newer := newAuthority(t, "Project CA"), newAuthority(t, "Project CA")
	ca := newCA(t, older, newer)
	p := parsePair(t, encode([]*x509.Certificate{newer.issue(t, "client", rsaKey())}), pkcs8(t, rsaKey()))
	for _, encoding := range Encodings {
		keyStore, trustStore := encodedStores(t, encoding, p, ca)
		t.Run("key store, "+string(encoding), func(t *testing.T) {
			out := list(t, "client.keystore.p12", keyStore)
			for _, want := range []string{"contains 1 entry", "Entry type: PrivateKeyEntry", "Certificate chain length: 2", fingerprint(p.Leaf()), fingerprint(newer.cert)} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
		})
		t.Run("trust store, "+string(encoding), func(t *testing.T) {
			out := list(t, "client.truststore.jks", trustStore)
			for _, want := range []string{"contains 2 entries", fingerprint(older.cert), fingerprint(newer.cert)} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
			if got := strings.Count(out, "Entry type: trustedCertEntry"); got != 2 {
				t.Errorf("want 2 trusted entries, got %d:\n%s", got, out)
			}
			aliases := regexp.MustCompile(`(?m)^Alias name: ca-[0-9a-f]{16}$`).FindAllString(out, -1)
			slices.Sort(aliases)
			if got := len(slices.Compact(aliases)); got != 2 {
				t.Errorf("want 2 distinct aliases, got %d:\n%s", got, out)
			}
		})
	}
}

func TestStoresOpenInOpenSSL(t *testing.T) {
	openssl := tool(t, "openssl")
	dump := func(t *testing.T, store []byte, flags ...string) string {
		return openssl(append([]string{"pkcs12", "-passin", "pass:" + password, "-in", writeFile(t, "store", store)}, flags...)...)
	}
	older, newer := newAuthority(t, "Project CA"), newAuthority(t, "Project CA")
	ca := newCA(t, older, newer)
	p := newPair(t, newer, "client")
	// In the words of OpenSSL.
	algorithms := map[Encoding][]string{
		Modern: {"MAC: sha256, Iteration 2048", "Encrypted data: PBES2, PBKDF2, AES-256-CBC, Iteration 2048, PRF hmacWithSHA256", "Keybag: PBES2, PBKDF2, AES-256-CBC, Iteration 2048, PRF hmacWithSHA256"},
		Legacy: {"MAC: sha1", "Encrypted data: pbeWithSHA1And3-KeyTripleDES-CBC", "Keybag: pbeWithSHA1And3-KeyTripleDES-CBC"},
	}
	for _, encoding := range Encodings {
		keyStore, trustStore := encodedStores(t, encoding, p, ca)
		t.Run("algorithms, "+string(encoding), func(t *testing.T) {
			out := dump(t, keyStore, "-info", "-noout")
			for _, want := range algorithms[encoding] {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
		})
		t.Run("key store, "+string(encoding), func(t *testing.T) {
			var certs, key string
			for _, b := range mustBlocks(t, dump(t, keyStore, "-nodes")) {
				if b.Type == certificateBlock {
					certs += block(b.Type, b.Bytes)
				} else {
					key += block(b.Type, b.Bytes)
				}
			}
			if diff := cmp.Diff(p.Certificate+encode([]*x509.Certificate{newer.cert}), certs); diff != "" {
				t.Errorf("certificates (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(p.Key, key); diff != "" {
				t.Error("key differs")
			}
		})
		t.Run("trust store, "+string(encoding), func(t *testing.T) {
			got, err := ParseCA(dump(t, trustStore, "-nodes"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ca.PEM, got.PEM); diff != "" {
				t.Errorf("certificates (-want +got):\n%s", diff)
			}
		})
	}
}

// A client that knows nothing but the two stores reaches brokers of either CA, which ask for its certificate.
func TestHandshake(t *testing.T) {
	older, newer := newAuthority(t, "GEN 1"), newAuthority(t, "GEN 2")
	for name, ca := range map[string]*CA{
		"old CA first": newCA(t, older, newer),
		"new CA first": newCA(t, newer, older),
	} {
		for broker, authority := range map[string]authority{"broker of old CA": older, "broker of new CA": newer} {
			t.Run(name+", "+broker, func(t *testing.T) {
				p := newPair(t, newer, "user")
				keyStore, trustStore := newStores(t, p, ca)
				if got := handshake(t, authority, ca, keyStore, trustStore); got != "user" {
					t.Errorf("the broker met %q", got)
				}
			})
		}
	}
}

// handshake returns the common name of the client that a broker of authority saw.
func handshake(t *testing.T, authority authority, ca *CA, keyStore, trustStore []byte) string {
	t.Helper()
	key, leaf, others, err := pkcs12.DecodeChain(keyStore, password)
	if err != nil {
		t.Fatal(err)
	}
	client := tls.Certificate{PrivateKey: key, Certificate: [][]byte{leaf.Raw}}
	for _, c := range others {
		client.Certificate = append(client.Certificate, c.Raw)
	}
	trusted, err := pkcs12.DecodeTrustStore(trustStore, password)
	if err != nil {
		t.Fatal(err)
	}
	brokerKey := newEC(t)
	broker := tls.Certificate{PrivateKey: brokerKey, Certificate: [][]byte{authority.issue(t, "kafka", brokerKey).Raw}}

	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{broker},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool(ca.Certificates),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if err := conn.(*tls.Conn).HandshakeContext(t.Context()); err == nil {
			_, _ = io.WriteString(conn, conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName)
		}
	}()

	dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{
		ServerName:   "kafka.example.com",
		RootCAs:      pool(trusted),
		Certificates: []tls.Certificate{client},
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	name, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(name)
}

func pool(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}
