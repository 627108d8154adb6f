//go:build k8srequired

package renewal

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// trusts fails the test unless the Secret holds the CAs that the projects have now, so many of them, as PEM and in the trust store.
func (s *scene) trusts(pool, main int) *corev1.Secret {
	s.t.Helper()
	now := s.Secret("creds")
	for k, want := range map[string]struct {
		project string
		n       int
	}{key.KafkaCA: {world.Pool, pool}, key.AivenCA: {world.Main, main}} {
		text := string(now.Data[k])
		if diff := cmp.Diff(s.Sim.Project(want.project).CA(), text); diff != "" {
			s.t.Errorf("%s on day %d (-want +got):\n%s", k, int(s.Now().Sub(s.began)/day), diff)
		}
		if n := strings.Count(text, "BEGIN CERTIFICATE"); n != want.n {
			s.t.Errorf("%s holds %d CAs, want %d", k, n, want.n)
		}
	}
	s.Stores(now)
	if !s.opens(now) {
		s.t.Error("the pair is refused")
	}
	return now
}

func TestRotatedCAsReachTheSecretAndGoFromIt(t *testing.T) {
	// What happens, a hundred days each after the one before.
	steps := []struct {
		what       string
		do         func(s *scene)
		pool, main int // how many CAs there are
		renewed    bool
	}{
		{"new CAs", func(s *scene) { s.Sim.Project(world.Pool).RotateCA(); s.Sim.Project(world.Main).RotateCA() }, 2, 2, false},
		{"another one of the pool", func(s *scene) { s.Sim.Project(world.Pool).RotateCA() }, 3, 2, false},
		{"the same, with comments", func(s *scene) {
			p := s.Sim.Project(world.Pool)
			p.SetCA("# of Aiven\n\n" + strings.ReplaceAll(p.CA(), "-----BEGIN", "\r\n-----BEGIN"))
		}, 3, 2, false},
		{"a certificate of the new CA", func(s *scene) { s.Kafka.RenewCertificate(s.user) }, 3, 2, true},
		{"the end of the old CAs", func(s *scene) { s.Sim.Project(world.Pool).RetireCAs(); s.Sim.Project(world.Main).RetireCAs() }, 1, 1, true},
	}
	end := len(steps)
	for name, tc := range map[string]struct{ off, on int }{ // steps
		"it works all the time":                     {end, end},
		"it was off when they came":                 {0, 1},
		"it was off while there were several":       {1, 4},
		"it was off until only the newest was left": {0, end},
	} {
		t.Run(name, func(t *testing.T) {
			s := provide(t)
			s.trusts(1, 1)
			for i, step := range steps {
				if i == tc.on {
					s.Start(slow...)
					s.trusts(steps[i-1].pool, steps[i-1].main)
				}
				s.on(time.Duration(i+1) * 100 * day)
				if i == tc.off {
					s.Stop()
				}
				step.do(s)
				if i >= tc.off && i < tc.on {
					continue
				}
				s.Advance(recheck)
				after := s.trusts(step.pool, step.main)
				if opens := s.opens(s.first); opens != (step.pool > 1) {
					t.Errorf("after %s the first pair works: %t", step.what, opens)
				}
				if diff := cmp.Diff(s.first.Data[key.KafkaSchemaRegistryPassword], after.Data[key.KafkaSchemaRegistryPassword]); diff != "" {
					t.Errorf("%s changed the password", step.what)
				}
				if renewed := !cmp.Equal(s.first.Data[key.KafkaCertificate], after.Data[key.KafkaCertificate]); renewed != step.renewed {
					t.Errorf("after %s the certificate is another one: %t", step.what, renewed)
				}
				s.Advance(2 * recheck)
				if s.Secret("creds").ResourceVersion != after.ResourceVersion {
					t.Errorf("after %s the Secret was written again", step.what)
				}
			}
			if tc.on == end && tc.off < end {
				s.Start(slow...)
				s.trusts(1, 1)
			}
			s.Ready("cart")
			s.acknowledged(http.StatusOK)
			s.Advance(recheck)
			if diff := cmp.Diff([]string{s.user}, world.Users(s.Kafka)); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
			s.NoErrorLogged()
		})
	}
}

func TestTheNearestEndIsThatOfWhatSecretsHold(t *testing.T) {
	s := provide(t)
	end := func(secret string) time.Time {
		t.Helper()
		data := s.Secret(secret).Data
		pair, err := credstore.ParsePair(string(data[key.KafkaCertificate]), string(data[key.KafkaPrivateKey]))
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf().NotAfter
	}
	first := end("creds")
	s.nearest(first)
	s.on(10 * day)
	s.Apply("shop", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "others"}})
	s.Settle()
	s.Ready("shop")
	s.nearest(first)

	s.on(20 * day) // a rotation
	s.Change("cart", func(a *v1.AivenApplication) { a.Annotations = map[string]string{key.AnnotationRotate: "now"} })
	s.Settle()
	if !end("creds").After(end("others")) {
		t.Fatal("the user was not replaced")
	}
	s.nearest(end("others"))
	s.Advance(25 * time.Hour) // the user that was replaced goes
	s.nearest(end("others"))

	s.on(30 * day) // a renewal
	if !s.Kafka.RenewCertificate(string(s.Secret("others").Data[key.KafkaSchemaRegistryUser])) {
		t.Fatal("there is no certificate to be renewed")
	}
	s.nearest(s.began.Add(10 * day).Add(life)) // the Secret holds the old one still
	s.Advance(recheck)
	s.nearest(end("creds"))

	s.on(50 * day) // a Secret that is deleted and made again
	s.Remove(s.Secret("creds"))
	s.Settle()
	s.Advance(time.Minute)
	s.Ready("cart")
	if !end("creds").After(end("others")) {
		t.Fatal("the Secret was not made again")
	}
	s.nearest(end("others"))

	s.Remove(s.App("shop")) // an application that goes, and its Secret with it
	s.Settle()
	s.nearest(end("others"))
	s.Advance(2 * time.Minute)
	s.Gone(&corev1.Secret{}, "others")
	s.Settle()
	s.nearest(end("creds"))

	s.ChangeSecret("creds", func(secret *corev1.Secret) { secret.Data[key.KafkaCertificate] = []byte("edited") }) // until it is restored
	s.Settle()
	s.nearest(end("creds"))
	if n := s.Sim.Counters().Requests[aivensim.ServiceUserCreate]; n != 4 {
		t.Errorf("%d users were made, want four", n)
	}
}
