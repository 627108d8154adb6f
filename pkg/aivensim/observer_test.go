package aivensim_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

const day = 24 * time.Hour

// TestAcceptsCertificate: what a broker would take. There is a certificate from before a change, and one from after it.
func TestAcceptsCertificate(t *testing.T) {
	tests := map[string]struct {
		change      func(fixture)
		first, last bool
	}{
		"accepts the current one":             {func(fixture) {}, true, true},
		"refuses it when it has ended":        {func(f fixture) { f.sim.Advance(820 * day) }, false, false},
		"accepts both during a renewal":       {func(f fixture) { f.sim.Advance(800 * day); f.kafka.RenewCertificate("app") }, true, true},
		"refuses the first one after its end": {func(f fixture) { f.sim.Advance(800 * day); f.kafka.RenewCertificate("app"); f.sim.Advance(20 * day) }, false, true},
		"accepts both after an acknowledgment": {func(f fixture) {
			f.kafka.RenewCertificate("app")
			f.do("PUT", "/dev/service/kafka/user/app", `{"operation":"acknowledge-renewal"}`)
		}, true, true},
		"refuses the first one after a reset":  {func(f fixture) { f.do("PUT", "/dev/service/kafka/user/app/credentials/reset", "") }, false, true},
		"accepts it after another password":    {func(f fixture) { f.kafka.SetPassword("app", "p") }, true, true},
		"accepts one that is about to end":     {func(f fixture) { f.kafka.SetCertificateEnd("app", start.Add(time.Second)) }, false, true},
		"refuses one that ended":               {func(f fixture) { f.kafka.SetCertificateEnd("app", start) }, false, false},
		"accepts it while CAs overlap":         {func(f fixture) { f.project.RotateCA() }, true, true},
		"refuses it with its CA retired":       {func(f fixture) { f.project.RotateCA(); f.project.RetireCAs() }, false, false},
		"accepts one of the next CA":           {func(f fixture) { f.project.RotateCA(); f.kafka.RenewCertificate("app"); f.project.RetireCAs() }, false, true},
		"refuses it while powered off":         {func(f fixture) { f.kafka.SetState(aivensim.PowerOff) }, false, false},
		"refuses it when certificates are off": {func(f fixture) { c := f.kafka.Config(); c.NoCertificate = true; _ = f.kafka.SetConfig(c) }, false, false},
		"refuses it of a deleted user":         {func(f fixture) { f.kafka.DeleteUser("app") }, false, false},
		"refuses it of a user made again":      {func(f fixture) { f.kafka.AddUser(aivensim.User{Username: "app"}) }, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{}) // RSA
			first := f.kafka.AddUser(aivensim.User{Username: "app"})
			other := f.kafka.AddUser(aivensim.User{Username: "other"})
			tt.change(f)
			last, _ := f.kafka.User("app")
			got := []bool{
				f.kafka.AcceptsCertificate("app", first.AccessCert, first.AccessKey),
				f.kafka.AcceptsCertificate("app", last.AccessCert, last.AccessKey),
				f.kafka.AcceptsCertificate("app", first.AccessCert, other.AccessKey),
				f.kafka.AcceptsCertificate("app", other.AccessCert, other.AccessKey),
				f.kafka.AcceptsCertificate("other", first.AccessCert, first.AccessKey),
				f.valkey.AcceptsCertificate("app", first.AccessCert, first.AccessKey),
			}
			if d := cmp.Diff([]bool{tt.first, tt.last, false, false, false, false}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestCertificatesOff: with certificate authentication off at run time, new users have none.
func TestCertificatesOff(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.kafka.Config()
	c.NoCertificate, c.SASL = true, true
	if err := f.kafka.SetConfig(c); err != nil {
		t.Fatal(err)
	}
	u := f.kafka.AddUser(aivensim.User{Username: "app"})
	methods := ""
	for _, c := range f.kafka.Components() {
		methods += c.Component + "/" + c.KafkaAuthenticationMethod + " "
	}
	if d := cmp.Diff([]string{"", "", "kafka/sasl schema_registry/ "}, []string{u.AccessCert, u.AccessKey, methods}); d != "" {
		t.Error(d)
	}
	if f.kafka.AcceptsCertificate("app", "", "") || !f.kafka.Accepts("app", u.Password) || f.kafka.Accepts("app", "") {
		t.Error("want the password only to be accepted")
	}
}

// TestSetConfig: components that somebody has set stay, unless the configuration asks for others.
func TestSetConfig(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.valkey.SetComponents(f.valkey.Components()[:1])
	c := f.valkey.Config()
	c.NullURI, c.NumericPort = true, true
	if err := f.valkey.SetConfig(c); err != nil {
		t.Fatal(err)
	}
	service := f.do("GET", "/dev/service/valkey?include_secrets=true", "").must(t).at(t, "service").(map[string]any)
	port, number := service["service_uri_params"].(map[string]any)["port"].(float64)
	if len(f.valkey.Components()) != 1 || service["service_uri"] != nil || !number || int(port) != f.valkey.Components()[0].Port {
		t.Errorf("want one component, a null URI and a number as port, got %v", service)
	}
	c.Routes = []string{"public"}
	if err := f.valkey.SetConfig(c); err != nil {
		t.Fatal(err)
	}
	c.Routes[0] = "private"
	if n := len(f.valkey.Components()); n != 4 || f.valkey.Config().Routes[0] != "public" {
		t.Errorf("want four components, got %d", n)
	}
}
