//go:build k8srequired

// Package rotation shows that users are replaced on time and on demand: the new one comes into the Secret in one write, the old one works for the
// overlap and goes then, whatever is stopped, lost or deleted in between. The tests move the time.
package rotation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

// silent is for an operator that nothing wakes but its own timers.
var silent = []string{"--resync=24h", "--janitor-period=24h", "--snapshot-age=10m"}

// hourly replaces users at each hour; each works for half an hour more.
var hourly = &v1.Rotation{Interval: "1h", Overlap: "30m"}

func start(t *testing.T) *world.Timed {
	t.Helper()
	t.Parallel()
	w := world.NewTimed(t)
	w.Start(silent...)
	return w
}

// provide makes an application that uses Kafka, and returns its first user.
func provide(w *world.Timed, rotation *v1.Rotation) string {
	w.Apply("cart", v1.AivenApplicationSpec{
		Rotation: rotation,
		Kafka:    &v1.Kafka{Pool: world.Pool, SecretName: "creds", ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessWrite}}},
	})
	w.Settle()
	w.Ready("cart")
	return user(w)
}

// user is the Kafka user that the Secret holds.
func user(w *world.Timed) string { return string(w.Secret("creds").Data[key.KafkaSchemaRegistryUser]) }

// are waits for nothing: it fails the test unless the service has these users.
func are(t *testing.T, w *world.Timed, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, world.Users(w.Kafka)); diff != "" {
		t.Errorf("users at %s (-want +got):\n%s", w.Now().Format(time.TimeOnly), diff)
	}
}

// open fails the test unless what a Secret holds opens Kafka.
func open(t *testing.T, w *world.Timed, s *corev1.Secret) {
	t.Helper()
	name := string(s.Data[key.KafkaSchemaRegistryUser])
	w.Login(world.Pool, w.Kafka, name, string(s.Data[key.KafkaSchemaRegistryPassword]))
	if !w.Kafka.AcceptsCertificate(name, string(s.Data[key.KafkaCertificate]), string(s.Data[key.KafkaPrivateKey])) {
		t.Errorf("the certificate of %s is refused at %s", name, w.Now().Format(time.TimeOnly))
	}
	if !slices.ContainsFunc(w.Kafka.KafkaACLs(), func(a aivensim.KafkaACL) bool { return a.Username == name && a.Topic == "orders" }) {
		t.Errorf("user %s has no right on its topic at %s", name, w.Now().Format(time.TimeOnly))
	}
}

func TestUsersAreReplacedOnTime(t *testing.T) {
	w := start(t)
	began := w.Now()
	users := []string{provide(w, hourly)}
	for n := 1; n <= 5; n++ {
		before := w.Secret("creds")
		w.AdvanceTo(began.Add(time.Duration(n)*time.Hour - time.Second))
		if s := w.Secret("creds"); s.ResourceVersion != before.ResourceVersion && n == 1 {
			t.Errorf("the Secret changed before its time")
		}
		w.AdvanceTo(began.Add(time.Duration(n) * time.Hour))
		after := w.Secret("creds")
		old, current := users[len(users)-1], user(w)
		if slices.Contains(users, current) {
			t.Fatalf("rotation %d: the Secret still holds %s", n, current)
		}
		users = append(users, current)
		are(t, w, old, current)
		if stamp := w.Now().Format(time.RFC3339); string(after.Data[key.SecretUpdated]) != stamp || string(after.Data[key.KafkaSecretUpdated]) != stamp {
			t.Errorf("rotation %d: the stamps are %s and %s, want %s", n, after.Data[key.SecretUpdated], after.Data[key.KafkaSecretUpdated], stamp)
		}
		open(t, w, before)
		open(t, w, after)
		if n := w.Metric("keysmith_users_retiring"); n != 1 {
			t.Errorf("%v users are counted as retiring", n)
		}
		w.Advance(30*time.Minute - time.Second)
		are(t, w, old, current)
		open(t, w, before)
		w.Advance(time.Second)
		are(t, w, current)
		if slices.ContainsFunc(w.Kafka.KafkaACLs(), func(a aivensim.KafkaACL) bool { return a.Username == old }) {
			t.Errorf("rights of %s are left behind", old)
		}
		open(t, w, after)
	}
	app := w.Ready("cart")
	want := []v1.Binding{{
		Kind: "kafka", Project: world.Pool, Service: "kafka", SecretName: "creds", Username: users[5], State: "Ready", Attempt: app.Status.Bindings[0].Attempt,
		IssuedAt: &metav1.Time{Time: began.Add(5 * time.Hour)}, RotatesAt: &metav1.Time{Time: began.Add(6 * time.Hour)},
	}}
	w.Advance(time.Minute)
	if diff := cmp.Diff(want, w.App("cart").Status.Bindings); diff != "" {
		t.Errorf("status.bindings (-want +got):\n%s", diff)
	}
	if at := w.Metric("keysmith_next_rotation_timestamp_seconds"); at != float64(began.Add(6*time.Hour).Unix()) {
		t.Errorf("the metric says %v, want %v", at, began.Add(6*time.Hour).Unix())
	}
	if c := w.Sim.Counters(); c.DuplicateCreates+c.BlindRepeats+c.BuiltInDeletes > 0 {
		t.Errorf("calls that none must ever make: %+v", c)
	}
}

func TestAnOutageIsFollowedByOneRotation(t *testing.T) {
	for name, tc := range map[string]struct{ off, on time.Duration }{
		"it was off over several moments":          {50 * time.Minute, 200 * time.Minute},
		"it was restarted before the moment":       {50 * time.Minute, 51 * time.Minute},
		"it was off when the old user was to go":   {70 * time.Minute, 100 * time.Minute},
		"it was restarted in the overlap":          {70 * time.Minute, 71 * time.Minute},
		"it was off until after the next rotation": {70 * time.Minute, 300 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			began := w.Now()
			first := provide(w, hourly)
			w.AdvanceTo(began.Add(tc.off))
			old := user(w)
			w.Stop()
			w.AdvanceTo(began.Add(tc.on))
			w.Start(silent...)
			if tc.off < time.Hour && tc.on > time.Hour { // one rotation is made up for
				at := w.Now()
				are(t, w, first, user(w))
				w.AdvanceTo(at.Add(30*time.Minute - time.Second))
				are(t, w, first, user(w))
				w.Advance(time.Second)
				are(t, w, user(w))
				w.AdvanceTo(at.Add(time.Hour - time.Second))
				are(t, w, user(w))
				w.Advance(time.Second)
				if n := len(world.Users(w.Kafka)); n != 2 {
					t.Errorf("there are %d users an hour after the late rotation, want 2", n)
				}
				return
			}
			switch {
			case tc.on < time.Hour:
				are(t, w, first)
				w.AdvanceTo(began.Add(time.Hour))
				are(t, w, first, user(w))
			case tc.on < 90*time.Minute:
				are(t, w, first, old)
				w.AdvanceTo(began.Add(90*time.Minute - time.Second))
				are(t, w, first, old)
				w.Advance(time.Second)
				are(t, w, old)
			default: // the old user has had its time
				w.Advance(20 * time.Second)
				if slices.Contains(world.Users(w.Kafka), first) {
					t.Errorf("%s is still there", first)
				}
				if rotated := user(w) != old; rotated != (tc.on > 2*time.Hour) {
					t.Errorf("rotated is %t", rotated)
				}
			}
			if n := len(w.Sim.Counters().Requests); n == 0 {
				t.Error("the simulator has counted nothing")
			}
		})
	}
}

