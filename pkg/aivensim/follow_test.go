package aivensim_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

func TestFollow(t *testing.T) {
	f := newFixture(t, aivensim.Options{})
	f.valkey.AddUser(aivensim.User{Username: "first", Password: "one"})
	type login struct{ Name, Password, Category string }
	var got []login
	f.valkey.Follow(func(users []aivensim.User) {
		got = nil
		for _, u := range users {
			got = append(got, login{u.Username, u.Password, append(u.AccessControl.Categories, "")[0]})
		}
	})
	first := login{"first", "one", ""}
	steps := []struct {
		name string
		do   func()
		want []login
	}{
		{"the users there are", func() {}, []login{first}},
		{"a new one", func() {
			f.do("POST", "/dev/service/valkey/user", `{"username":"second","access_control":{"valkey_acl_categories":["+@read"]}}`).must(t)
			f.valkey.SetPassword("second", "two")
		}, []login{first, {"second", "two", "+@read"}}},
		{"other rights", func() {
			f.do("PUT", "/dev/service/valkey/user/second", `{"operation":"set-access-control","access_control":{"valkey_acl_categories":["+@all"]}}`).must(t)
		}, []login{first, {"second", "two", "+@all"}}},
		{"nobody while it is off", func() { f.valkey.SetState(aivensim.PowerOff) }, nil},
		{"all when it is back", func() { f.valkey.SetState(aivensim.Running) }, []login{first, {"second", "two", "+@all"}}},
		{"who is left", func() { f.do("DELETE", "/dev/service/valkey/user/first", "").must(t) }, []login{{"second", "two", "+@all"}}},
		{"nothing any more", func() { f.valkey.Follow(nil); f.valkey.DeleteUser("second") }, []login{{"second", "two", "+@all"}}},
	}
	for _, s := range steps {
		s.do()
		if d := cmp.Diff(s.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, d)
		}
	}
}

func TestSign(t *testing.T) {
	f := newFixture(t, aivensim.Options{}) // RSA
	f.project.RotateCA()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(f.project.Sign(x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, DNSNames: []string{"localhost"}, NotBefore: start, NotAfter: start.Add(day),
	}, key.Public()))
	if err != nil {
		t.Fatal(err)
	}
	f.project.RetireCAs()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(f.project.CA()))
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: start}); err != nil {
		t.Error(err)
	}
}

func TestSetPair(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.kafka.AddUser(aivensim.User{Username: "app"})
	f.valkey.AddUser(aivensim.User{Username: "app"})
	if !f.kafka.SetPair("app", "a certificate", "a key") || f.kafka.SetPair("nobody", "", "") || f.valkey.SetPair("app", "", "") {
		t.Error("it should work for a user of Kafka alone")
	}
	user := f.do("GET", "/dev/service/kafka/user/app?include_secrets=true", "").must(t).at(t, "user").(map[string]any)
	if user["access_cert"] != "a certificate" || user["access_key"] != "a key" {
		t.Errorf("got %v and %v", user["access_cert"], user["access_key"])
	}
}
