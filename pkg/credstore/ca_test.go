package credstore

import (
	"crypto/x509"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCA(t *testing.T) {
	first, second := newAuthority(t, "GEN 1"), newAuthority(t, "GEN 2")
	a, b := encode([]*x509.Certificate{first.cert}), encode([]*x509.Certificate{second.cert})
	tests := map[string]struct {
		bundle string
		want   string
	}{
		"reads one certificate":                 {a, a},
		"reads the old CA before the new one":   {a + b, a + b},
		"reads the new CA before the old one":   {b + a, b + a},
		"drops comments and blank lines":        {"# old\n\n" + a + "\n# new,\r\n\n" + b + "\n\n", a + b},
		"adds the missing end of the last line": {a + b[:len(b)-1], a + b},
		"keeps one of two equal certificates":   {a + b + a, a + b},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ca, err := ParseCA(test.bundle)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, ca.PEM); diff != "" {
				t.Errorf("PEM (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, encode(ca.Certificates)); diff != "" {
				t.Errorf("Certificates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCAErrors(t *testing.T) {
	good := newCA(t, newAuthority(t, "CA")).PEM
	tests := map[string]struct{ bundle, want string }{
		"refuses an empty bundle":    {"\n", "parse project CA: empty"},
		"refuses what is not PEM":    {"certificate", "parse project CA: not PEM"},
		"refuses half a certificate": {good + good[:len(good)/2], "parse project CA: 1 of 2 PEM blocks cannot be decoded"},
		"refuses a private key":      {good + pkcs8(t, newEC(t)), "parse project CA: PEM block 2 is not a certificate"},
		"refuses garbage in a block": {block("CERTIFICATE", []byte("garbage")), "parse project CA: certificate 1 is not valid X.509"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseCA(test.bundle)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
