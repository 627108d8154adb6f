//go:build k8srequired

// Package renewal shows that certificates which Aiven renews reach the Secret and are acknowledged then, once, whatever was stopped meanwhile, that a user
// whose certificate expired without being renewed is replaced, and that CAs come and go. The tests move the time.
package renewal

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

const (
	day = 24 * time.Hour
	// life is how long certificates live; Aiven renews them about three months earlier.
	life    = 820 * day
	renewal = 730 * day
	// recheck is the longest time between two looks at an application without a reason: the resync of slow, and a fifth.
	recheck = 6 * day
)

// slow is for an operator that looks at applications once in a while.
var slow = []string{"--resync=120h", "--janitor-period=120h", "--snapshot-age=10m"}

// scene is an application with a Kafka user, since a moment at which its certificate was made.
type scene struct {
	*world.Timed
	t     *testing.T
	began time.Time
	user  string
	first *corev1.Secret
}

func provide(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	s := &scene{Timed: world.NewTimed(t), t: t}
	s.Start(slow...)
	s.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	s.Settle()
	s.Ready("cart")
	s.began, s.first = s.Now(), s.Secret("creds")
	s.user = string(s.first.Data[key.KafkaSchemaRegistryUser])
	return s
}

// on moves the time on to so long after the certificate was made.
func (s *scene) on(d time.Duration) { s.AdvanceTo(s.began.Add(d)) }

// opens tells whether the pair in a Secret opens Kafka for the user in it.
func (s *scene) opens(secret *corev1.Secret) bool {
	return s.Kafka.AcceptsCertificate(string(secret.Data[key.KafkaSchemaRegistryUser]),
		string(secret.Data[key.KafkaCertificate]), string(secret.Data[key.KafkaPrivateKey]))
}

// isRenewed fails the test unless the Secret holds the renewed pair, of the same user with the same password, in all forms.
func (s *scene) isRenewed() {
	s.t.Helper()
	now := s.Secret("creds")
	if !s.isCurrent(now) || !s.opens(now) {
		s.t.Error("the Secret does not hold the renewed pair")
	}
	if !s.opens(s.first) {
		s.t.Error("the pair that was renewed is refused before its end")
	}
	for _, k := range []string{key.KafkaSchemaRegistryUser, key.KafkaSchemaRegistryPassword, key.KafkaCredStorePassword} {
		if !slices.Equal(s.first.Data[k], now.Data[k]) {
			s.t.Errorf("%s changed with the certificate", k)
		}
	}
	s.nearest(s.Stores(now).Leaf().NotAfter)
}

// isCurrent tells whether a Secret holds the user's newest certificate.
func (s *scene) isCurrent(secret *corev1.Secret) bool {
	u, ok := s.Kafka.User(s.user)
	return ok && strings.TrimSpace(u.AccessCert) == strings.TrimSpace(string(secret.Data[key.KafkaCertificate]))
}

// nearest fails the test unless the metric says so.
func (s *scene) nearest(want time.Time) {
	s.t.Helper()
	if got := s.Metric("keysmith_certificate_expiry_timestamp_seconds"); got != float64(want.Unix()) {
		s.t.Errorf("the metric says %v, want %v", got, want.Unix())
	}
}

// acknowledged fails the test unless the calls that acknowledge the user's renewals were answered so.
func (s *scene) acknowledged(want ...int) {
	s.t.Helper()
	var got []int
	for _, e := range s.Calls(aivensim.ServiceUserCredentialsModify, s.user) {
		got = append(got, e.Status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("acknowledgements (-want +got):\n%s", diff)
	}
	if u, _ := s.Kafka.User(s.user); slices.Contains(want, http.StatusOK) && !u.ExpiringNotAfter.IsZero() {
		s.t.Error("the renewal is still open at Aiven")
	}
}

// watch looks at the Secret whenever a renewal is acknowledged, before the simulator takes note: nil is sent where it holds the renewed certificate.
func (s *scene) watch() (seen chan error) {
	seen = make(chan error, 10)
	s.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCredentialsModify, Before: func(aivensim.Request) {
		secret := &corev1.Secret{}
		err := s.Get(context.Background(), s.Key("creds"), secret)
		if err == nil && !s.isCurrent(secret) {
			err = errors.New("the Secret does not hold the renewed certificate")
		}
		seen <- err
	}})
	return seen
}

func TestARenewedCertificateIsPublishedThenAcknowledged(t *testing.T) {
	for name, tc := range map[string]struct{ off, on time.Duration }{
		"it works all the time":                   {},
		"it was off until shortly before the end": {700 * day, 815 * day},
		"it was restarted in the meantime":        {renewal - day, renewal + day},
	} {
		t.Run(name, func(t *testing.T) {
			s := provide(t)
			s.nearest(s.began.Add(life))
			seen := s.watch()
			if tc.off > 0 {
				s.on(tc.off)
				s.Stop()
			}
			s.on(renewal)
			s.acknowledged()
			if !s.Kafka.RenewCertificate(s.user) {
				t.Fatal("there is no certificate to be renewed")
			}
			if tc.off > 0 {
				s.on(tc.on)
				s.Start(slow...)
			} else {
				s.Advance(recheck)
			}
			s.isRenewed()
			s.Ready("cart")
			after := s.Secret("creds")
			s.acknowledged(http.StatusOK)
			if err := <-seen; err != nil {
				t.Errorf("when the renewal was acknowledged: %v", err)
			}

			s.Restart(slow...)
			s.on(life + 2*recheck) // beyond the end of the certificate that was renewed
			s.acknowledged(http.StatusOK)
			if s.Secret("creds").ResourceVersion != after.ResourceVersion {
				t.Error("the Secret was written again")
			}
			if s.opens(s.first) || !s.opens(after) {
				t.Error("the old pair works beyond its end, or the new one does not")
			}
			if diff := cmp.Diff([]string{s.user}, world.Users(s.Kafka)); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFailureToAcknowledgeLeavesTheApplicationReady(t *testing.T) {
	s := provide(t)
	s.on(renewal)
	s.Sim.Inject(aivensim.Rule{
		Operation: aivensim.ServiceUserCredentialsModify, Count: 2, Answer: aivensim.Error(http.StatusInternalServerError, "", "broken"),
	})
	unready := s.History("cart")
	s.Kafka.RenewCertificate(s.user)
	s.Advance(2 * recheck) // the snapshot that a pass reads may be one from just before the renewal
	s.isRenewed()
	s.acknowledged(http.StatusInternalServerError, http.StatusInternalServerError, http.StatusOK)
	for _, app := range unready() {
		for _, c := range app.Status.Conditions {
			if c.Type == v1.ConditionReady && c.Status != corev1.ConditionTrue {
				t.Errorf("the application was not ready: %s %s", c.Reason, c.Message)
			}
		}
	}
}

func TestWhatCannotBePublishedIsNotAcknowledged(t *testing.T) {
	s := provide(t)
	s.ChangeSecret("creds", func(s *corev1.Secret) { s.Immutable = new(true) })
	s.on(renewal)
	s.Kafka.RenewCertificate(s.user)
	s.Restart(slow...)
	s.Advance(time.Hour)
	s.NotReady("cart", binding.ReasonSecretImmutable)
	s.acknowledged()
	s.nearest(s.began.Add(life))
}

func TestAUserWhoseCertificateExpiredIsReplaced(t *testing.T) {
	s := provide(t)
	s.Sim.Adjust(func(s *aivensim.Settings) { s.UserLimit = 1 })
	s.on(life - day)
	s.Ready("cart")
	s.Stop()
	s.on(life)
	s.Start(slow...)
	app := s.NotReady("cart", binding.ReasonExpired)
	s.nearest(s.began.Add(life))
	if b := app.Status.Bindings[0]; b.Username != s.user || b.Reason != binding.ReasonExpired ||
		!strings.Contains(b.Message, "expired at "+s.began.Add(life).UTC().Format(time.RFC3339)) {
		t.Errorf("the binding does not tell what is wrong: %+v", b)
	}

	s.Sim.Adjust(func(s *aivensim.Settings) { s.UserLimit = 50 })
	s.Advance(time.Hour)
	s.Ready("cart")
	after := s.Secret("creds")
	if string(after.Data[key.KafkaSchemaRegistryUser]) == s.user || !s.opens(after) {
		t.Error("the Secret does not hold another user with a certificate that works")
	}
	if end := s.Metric("keysmith_certificate_expiry_timestamp_seconds"); end <= float64(s.Now().Unix()) {
		t.Errorf("the nearest end is %v, which has passed", end)
	}
	s.Advance(2 * recheck)
	if diff := cmp.Diff([]string{string(s.Secret("creds").Data[key.KafkaSchemaRegistryUser])}, world.Users(s.Kafka)); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	if s.Secret("creds").ResourceVersion == s.first.ResourceVersion {
		t.Error("the Secret was not written")
	}
	s.acknowledged()
}

func TestNoCertificateNoMetric(t *testing.T) {
	s := provide(t)
	s.Remove(s.App("cart"))
	s.Settle()
	s.Advance(2 * recheck)
	s.Gone(&corev1.Secret{}, "creds")
	s.Settle()
	if _, err := s.Operator.Metric(t.Context(), "keysmith_certificate_expiry_timestamp_seconds"); err == nil {
		t.Error("the metric speaks of a Secret that is gone")
	}
}
