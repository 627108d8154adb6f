//go:build k8srequired

// Package rotation shows that users are replaced on time and on demand: the new one comes into the Secret in one write, the old one works for the
// overlap and goes then, whatever is stopped, lost or deleted in between. The tests move the time.
package rotation

import (
	"fmt"
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

// wake makes the operator look at the application once more.
func wake(w *world.Timed) {
	w.Touch("cart", 1)
	w.Settle()
}

// demand asks for a rotation.
func demand(w *world.Timed, value string) {
	w.Change("cart", func(a *v1.AivenApplication) { a.Annotations = map[string]string{key.AnnotationRotate: value} })
	w.Settle()
}

func TestARotationOnDemand(t *testing.T) {
	for name, tc := range map[string]struct {
		rotation *v1.Rotation
		overlap  time.Duration
	}{
		"it works without a rotation by time": {nil, 24 * time.Hour},
		"it takes the application's overlap":  {&v1.Rotation{Interval: "720h", Overlap: "2h"}, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			first := provide(w, tc.rotation)
			before := w.Secret("creds")
			_, has := before.Annotations[key.AnnotationRotation]
			if want := tc.rotation != nil; has != want {
				t.Errorf("the Secret has the record of rotation: %t, want %t", has, want)
			}
			if _, has := before.Annotations[key.AnnotationReloader]; has != (tc.rotation != nil) {
				t.Errorf("the Secret has the mark for Reloader: %t", has)
			}
			w.Advance(time.Minute)
			demand(w, "password seen in a log")
			second := user(w)
			are(t, w, first, second)
			open(t, w, before)
			demand(w, "password seen in a log") // and it stays
			wake(w)
			w.Restart(silent...)
			are(t, w, first, second)
			demand(w, "once more") // waits until the first is gone
			are(t, w, first, second)
			w.Advance(tc.overlap - time.Second)
			are(t, w, first, second)
			w.Advance(time.Second)
			w.Advance(20 * time.Second)
			third := user(w)
			are(t, w, second, third)
			w.Advance(tc.overlap + 20*time.Second)
			are(t, w, third)
			if s := w.Secret("creds"); (s.Annotations[key.AnnotationRotation] != "") != (tc.rotation != nil) {
				t.Errorf("the Secret records of rotation: %q", s.Annotations[key.AnnotationRotation])
			}
			w.Advance(100 * time.Hour)
			are(t, w, third)
		})
	}
}

// stay edits the status: users that were replaced are to work until then, and nobody knows since when their successors have.
func stay(t *testing.T, w *world.Timed, until time.Time) {
	t.Helper()
	app := w.App("cart")
	for i := range app.Status.Bindings {
		app.Status.Bindings[i].IssuedAt = nil
		if app.Status.Bindings[i].RetiresAt != nil {
			app.Status.Bindings[i].RetiresAt = &metav1.Time{Time: until}
		}
	}
	if err := w.Status().Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsLostOrDeletedInTheOverlap(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(t *testing.T, w *world.Timed)
		want func(first, second string, now string) []string // users right afterwards, now being what the Secret holds
		ends bool                                            // half an hour after the rotation exactly what the Secret holds is left
	}{
		"the status is lost": {
			do: func(t *testing.T, w *world.Timed) {
				w.Stop()
				app := w.App("cart")
				if err := w.Status().Patch(t.Context(), app, client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))); err != nil {
					t.Fatal(err)
				}
				w.Start(silent...)
			},
			want: func(first, second, _ string) []string { return []string{first, second} }, ends: true,
		},
		"the status and the operator's annotations of time are lost": {
			do: func(t *testing.T, w *world.Timed) {
				w.Stop()
				app := w.App("cart")
				for i := range app.Status.Bindings {
					app.Status.Bindings[i].IssuedAt = nil
				}
				if err := w.Status().Update(t.Context(), app); err != nil {
					t.Fatal(err)
				}
				w.Start(silent...)
			},
			want: func(first, second, _ string) []string { return []string{first, second} }, ends: true,
		},
		"the Secret is deleted": {
			do: func(_ *testing.T, w *world.Timed) {
				w.Remove(w.Secret("creds"))
				w.Settle()
				w.Advance(time.Minute)
			},
			want: func(_, _, now string) []string { return []string{now} }, ends: true,
		},
		"rotation is switched off": {
			do: func(_ *testing.T, w *world.Timed) {
				w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Rotation = nil })
				w.Settle()
			},
			want: func(first, second, _ string) []string { return []string{first, second} }, ends: true,
		},
		"the overlap is shortened to what has passed": {
			do: func(_ *testing.T, w *world.Timed) {
				w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Rotation.Overlap = "9m" })
				w.Settle()
			},
			want: func(_, second, _ string) []string { return []string{second} }, ends: true,
		},
		"somebody says that the old user stays for ever": {
			do: func(t *testing.T, w *world.Timed) {
				stay(t, w, w.Now().Add(1e6*time.Hour))
				wake(w)
			},
			want: func(first, second, _ string) []string { return []string{first, second} }, ends: true,
		},
		"somebody says so once rotation is switched off": {
			do: func(t *testing.T, w *world.Timed) {
				w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Rotation = nil })
				w.Settle()
				stay(t, w, w.Now().Add(1e6*time.Hour))
				wake(w)
			},
			want: func(first, second, _ string) []string { return []string{first, second} }, ends: true,
		},
		"the service is no longer asked for": {
			do: func(_ *testing.T, w *world.Timed) {
				w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Kafka = nil })
				w.Settle()
				w.Advance(2 * time.Minute)
			},
			want: func(_, _, _ string) []string { return nil },
		},
		"the application is deleted": {
			do: func(_ *testing.T, w *world.Timed) {
				w.Remove(w.App("cart"))
				w.Settle()
				w.Advance(2 * time.Minute)
			},
			want: func(_, _, _ string) []string { return nil },
		},
		"the application is deleted and its Secret is in use": {
			do: func(_ *testing.T, w *world.Timed) {
				w.Make(pod(w, "user"))
				w.Settle()
				w.Remove(w.App("cart"))
				w.Settle()
				w.Advance(30 * time.Hour)
				if n := len(world.Users(w.Kafka)); n != 2 {
					panic(fmt.Sprintf("%d users are left of a Secret that is in use", n))
				}
				w.Remove(pod(w, "user"))
				w.Settle()
				w.Advance(50 * time.Hour)
			},
			want: func(_, _, _ string) []string { return nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			began := w.Now()
			first := provide(w, &v1.Rotation{Interval: "1h", Overlap: "30m"})
			w.AdvanceTo(began.Add(70 * time.Minute))
			second := user(w)
			are(t, w, first, second)
			tc.do(t, w)
			now := ""
			if tc.ends {
				now = user(w)
			}
			are(t, w, tc.want(first, second, now)...)
			if !tc.ends {
				return
			}
			w.AdvanceTo(began.Add(90*time.Minute + 20*time.Second))
			are(t, w, now)
			if user(w) != now {
				t.Errorf("a user was replaced that nobody asked to replace")
			}
			w.Ready("cart")
		})
	}
}

func pod(w *world.Timed, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "one", Image: "none", EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "creds"}}},
		}}}},
	}
}

func TestIntervalCountsFromTheIssue(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to *v1.Rotation // at minute 20
		at       time.Duration
	}{
		"it comes later where the interval is raised":      {&v1.Rotation{Interval: "1h"}, &v1.Rotation{Interval: "2h"}, 2 * time.Hour},
		"it comes earlier where the interval is lowered":   {&v1.Rotation{Interval: "2h"}, &v1.Rotation{Interval: "30m"}, 30 * time.Minute},
		"it comes at once where that has passed":           {&v1.Rotation{Interval: "2h"}, &v1.Rotation{Interval: "10m"}, 20 * time.Minute},
		"it counts from when rotation was first asked for": {nil, &v1.Rotation{Interval: "1h"}, 80 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			began := w.Now()
			first := provide(w, tc.from)
			w.AdvanceTo(began.Add(20*time.Minute - time.Second))
			w.Advance(time.Second)
			if tc.at > 20*time.Minute {
				w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Rotation = tc.to })
				w.AdvanceTo(began.Add(tc.at - time.Second))
			}
			are(t, w, first)
			if tc.at == 20*time.Minute {
				w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Rotation = tc.to })
			}
			w.AdvanceTo(began.Add(tc.at))
			are(t, w, first, user(w))
		})
	}
}

func TestNoRotationWhereItCannotBe(t *testing.T) {
	t.Run("the Secret is immutable", func(t *testing.T) {
		w := start(t)
		first := provide(w, hourly)
		w.ChangeSecret("creds", func(s *corev1.Secret) { s.Immutable = new(true) })
		w.Settle()
		w.Advance(61 * time.Minute)
		w.NotReady("cart", binding.ReasonSecretImmutable)
		are(t, w, first)
		w.Remove(w.Secret("creds"))
		w.Settle()
		w.Advance(time.Minute)
		w.Ready("cart")
		are(t, w, user(w))
	})
	t.Run("the application is paused", func(t *testing.T) {
		w := start(t)
		first := provide(w, hourly)
		pause := func(value string) {
			w.Change("cart", func(a *v1.AivenApplication) {
				a.Annotations = map[string]string{"operatorkit.giantswarm.io/paused": value}
			})
			w.Settle()
		}
		pause("true")
		w.Advance(150 * time.Minute)
		are(t, w, first)
		if n := w.Metric("keysmith_rotations_overdue"); n != 1 {
			t.Errorf("%v rotations are counted as overdue, want 1", n)
		}
		pause("false")
		are(t, w, first, user(w))
		w.MetricIs("keysmith_rotations_overdue", 0)
	})
	t.Run("the application expires first", func(t *testing.T) {
		w := start(t)
		w.Apply("cart", v1.AivenApplicationSpec{
			Rotation: hourly, ExpiresAt: w.Now().Add(59 * time.Minute).Format(time.RFC3339), Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"},
		})
		w.Settle()
		w.Advance(62 * time.Minute)
		are(t, w)
		if n := w.Sim.Counters().Requests[aivensim.ServiceUserCreate]; n != 1 {
			t.Errorf("%d users were made, want 1", n)
		}
	})
	t.Run("the service has no room for another user", func(t *testing.T) {
		w := start(t)
		first := provide(w, hourly)
		before := w.Secret("creds")
		w.Sim.Adjust(func(s *aivensim.Settings) { s.UserLimit = 1 })
		w.Advance(3 * time.Hour)
		app := w.Ready("cart")
		if s := w.Secret("creds"); s.ResourceVersion != before.ResourceVersion {
			t.Error("the Secret was written")
		}
		are(t, w, first)
		w.Event("cart", "Warning RotationFailed The user of kafka in Secret creds works and cannot be replaced yet")
		if c := app.Status.Conditions; !slices.ContainsFunc(c, func(c v1.Condition) bool {
			return c.Type == v1.ConditionReady && strings.Contains(c.Message, "cannot be replaced yet")
		}) {
			t.Errorf("the condition Ready does not say that a rotation is overdue: %+v", c)
		}
		var names []string
		for _, e := range w.Sim.Journal() {
			if e.Operation == aivensim.ServiceUserCreate && !slices.Contains(names, e.Username) {
				names = append(names, e.Username)
			}
		}
		if len(names) != 2 {
			t.Errorf("users of these names were to be made: %q, want two", names)
		}
		w.MetricIs("keysmith_rotations_overdue", 1)
		w.Sim.Adjust(func(s *aivensim.Settings) { s.UserLimit = 50 })
		w.Advance(30 * time.Hour) // nobody says when there is room: the next look is taken at the resync
		if user(w) == first {
			t.Error("the user is not replaced although there is room")
		}
	})
}

func TestAnOverlapThatIsSetAsideGoesOnAsAnnounced(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(w *world.Timed)
		ends time.Duration // after the rotation
	}{
		"rotation is switched off": {func(*world.Timed) {}, 100 * time.Hour},
		"somebody edits the status too": {func(w *world.Timed) {
			stay(t, w, w.Now().Add(1e6*time.Hour))
		}, 100 * time.Hour},
		"somebody edits the status, and drops what the Secret says": {func(w *world.Timed) {
			stay(t, w, w.Now().Add(1e6*time.Hour))
			w.ChangeSecret("creds", func(s *corev1.Secret) { delete(s.Annotations, key.AnnotationRotation) })
		}, time.Hour + binding.DefaultOverlap + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			began := w.Now()
			first := provide(w, &v1.Rotation{Interval: "500h", Overlap: "100h"})
			rotated := began.Add(500 * time.Hour)
			w.AdvanceTo(rotated.Add(time.Hour))
			second := user(w)
			w.Stop()
			w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Rotation = nil })
			tc.edit(w)
			w.Start(silent...)
			w.AdvanceTo(rotated.Add(tc.ends - 2*time.Second))
			are(t, w, first, second)
			w.AdvanceTo(rotated.Add(tc.ends))
			are(t, w, second)
			w.Ready("cart")
		})
	}
}

func TestServicesOfOneSecretRotateTogether(t *testing.T) {
	w := start(t)
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	services := map[string]*aivensim.Service{"kafka": w.Kafka, "cache": cache, "logs": logs}
	began := w.Now()
	w.Apply("cart", v1.AivenApplicationSpec{
		Rotation: hourly, SecretName: "creds", Protected: true,
		Kafka:      &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessWrite}}},
		Valkey:     []v1.Valkey{{Instance: "cache", Access: v1.AccessReadWrite}},
		OpenSearch: &v1.OpenSearch{Instance: "logs", Access: v1.AccessRead},
	})
	w.Settle()
	w.Ready("cart")
	counts := func(want map[string]int) {
		t.Helper()
		got := map[string]int{}
		for name, s := range services {
			got[name] = len(world.Users(s))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("users at %s (-want +got):\n%s", w.Now().Sub(began), diff)
		}
	}
	before := w.Secret("creds")
	w.AdvanceTo(began.Add(time.Hour))
	counts(map[string]int{"kafka": 2, "cache": 2, "logs": 2})
	if after, n := w.Secret("creds"), w.Metric("aivenator_kubernetes_resources_written"); n != 2 || after.UID != before.UID {
		t.Errorf("%v writes of Secrets, want one to make it and one to rotate three users", n)
	}
	// A level that changes in the overlap holds for both users.
	w.Change("cart", func(a *v1.AivenApplication) {
		a.Spec.Valkey[0].Access, a.Spec.OpenSearch.Access = v1.AccessRead, v1.AccessAdmin
	})
	w.Settle()
	for _, u := range world.Users(cache) {
		if user, _ := cache.User(u); slices.Contains(user.AccessControl.Categories, "+@write") {
			t.Errorf("user %s may still write", u)
		}
	}
	for _, e := range logs.OpenSearchACLs().ACLs {
		if e.Rules[0].Permission != "admin" {
			t.Errorf("user %s has the right %s", e.Username, e.Rules[0].Permission)
		}
	}
	w.AdvanceTo(began.Add(90*time.Minute + 20*time.Second))
	counts(map[string]int{"kafka": 1, "cache": 1, "logs": 1})
	if n := len(logs.OpenSearchACLs().ACLs); n != 1 {
		t.Errorf("OpenSearch has rules of %d users, want 1", n)
	}
	// A service that is off when its time comes is left out, and rotates once it is back.
	w.State(binding.Valkey, cache.Name(), "POWEROFF")
	w.AdvanceTo(began.Add(125 * time.Minute))
	counts(map[string]int{"kafka": 2, "cache": 1, "logs": 2})
	w.State(binding.Valkey, cache.Name(), "RUNNING")
	w.Settle()
	w.Advance(time.Minute)
	counts(map[string]int{"kafka": 2, "cache": 2, "logs": 2})
	w.Ready("cart")
	w.AdvanceTo(began.Add(157*time.Minute + 20*time.Second))
	counts(map[string]int{"kafka": 1, "cache": 1, "logs": 1})
	w.AdvanceTo(began.Add(3 * time.Hour))
	counts(map[string]int{"kafka": 2, "cache": 2, "logs": 2})
}

// Tools such as Reloader restart workloads when the data of a Secret change: a restart without need is somebody's outage.
func TestDataChangeOnlyWithACredentialOrAnAddress(t *testing.T) {
	for name, rotation := range map[string]*v1.Rotation{
		"it is not rotated":        nil,
		"it is rotated some day":   {Interval: "8760h", Overlap: "24h"},
		"it was rotated on demand": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{Replica: true})
			logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
			w.Apply("cart", v1.AivenApplicationSpec{
				Rotation: rotation, SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool},
				Valkey: []v1.Valkey{{Instance: "cache"}}, OpenSearch: &v1.OpenSearch{Instance: "logs"},
			})
			w.Settle()
			w.Ready("cart")
			if strings.Contains(name, "demand") {
				demand(w, "now")
				w.Advance(25 * time.Hour)
			}
			before := w.Secret("creds")
			const resync = 29 * time.Hour // --resync=24h is spread by a fifth
			looks := func() {
				passes := w.Metric("aivenator_aiven_applications_processed")
				if w.Advance(3 * resync); w.Metric("aivenator_aiven_applications_processed") < passes+3 {
					t.Error("nobody has looked")
				}
			}
			for _, step := range []struct {
				what string
				do   func()
				meta bool // labels or annotations of the Secret follow
			}{
				{"three looks without a reason", looks, false},
				{"a restart of the operator", func() { w.Restart(silent...) }, false},
				{"a restart with other settings that concern no Secret", func() {
					w.Restart("--resync=24h", "--janitor-period=24h", "--snapshot-age=1m", "--janitor-grace=2m")
				}, false},
				{"Aiven's answers in another order", func() {
					for _, service := range []*aivensim.Service{w.Kafka, cache, logs} {
						service.ShuffleComponents()
					}
					cache.ShuffleAccessControl(world.Users(cache)[0])
					w.Advance(resync)
				}, false},
				{"a label of the application", func() {
					w.Change("cart", func(a *v1.AivenApplication) { a.Labels = map[string]string{"team": "shop"} })
					w.Settle()
				}, false},
				{"another level of access", func() {
					w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Valkey[0].Access = v1.AccessAdmin })
					w.Settle()
				}, false},
				{"topics", func() {
					w.Change("cart", func(a *v1.AivenApplication) { a.Spec.Kafka.ACL = []v1.KafkaACL{{Topic: "orders"}} })
					w.Settle()
				}, false},
				{"another generation, and protection", func() {
					w.Change("cart", func(a *v1.AivenApplication) {
						a.Labels, a.Spec.Protected = map[string]string{key.LabelGeneration: "7"}, true
						a.Annotations = map[string]string{key.AnnotationCorrelationID: "another"}
					})
					w.Settle()
				}, true},
				{"three more looks", looks, false},
			} {
				last := w.Secret("creds")
				step.do()
				w.Ready("cart")
				after := w.Secret("creds")
				if diff := cmp.Diff(before.Data, after.Data); diff != "" {
					t.Errorf("%s changed the data (-before +after):\n%s", step.what, diff)
				}
				if written := after.ResourceVersion != last.ResourceVersion; written != step.meta {
					t.Errorf("%s: the Secret was written: %t, want %t", step.what, written, step.meta)
				}
			}
		})
	}
}

func TestWhatFallsDueWhileTheServiceIsOff(t *testing.T) {
	for name, tc := range map[string]struct {
		off, on time.Duration // minutes after the beginning; rotations are due each hour
		lost    bool          // the service comes back without its users
		rotated bool          // once it is back
	}{
		"one rotation is made up for":                    {off: 50 * time.Minute, on: 100 * time.Minute, rotated: true},
		"one is made up for where many were missed":      {off: 50 * time.Minute, on: 1000 * time.Minute, rotated: true},
		"one is made up for though the users were lost":  {off: 50 * time.Minute, on: 100 * time.Minute, lost: true, rotated: true},
		"the old user goes late":                         {off: 70 * time.Minute, on: 110 * time.Minute},
		"the old user is not made again":                 {off: 70 * time.Minute, on: 110 * time.Minute, lost: true},
		"the old user goes late, and the next with it":   {off: 70 * time.Minute, on: 130 * time.Minute, rotated: true},
		"the old user does not come back in its overlap": {off: 70 * time.Minute, on: 80 * time.Minute, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			began := w.Now()
			provide(w, hourly)
			w.AdvanceTo(began.Add(tc.off))
			before, there := w.Secret("creds"), world.Users(w.Kafka)
			w.Kafka.SetState(aivensim.PowerOff)
			wake(w)
			w.Advance(10*time.Minute - time.Second)
			w.Sim.ResetCounters()
			w.AdvanceTo(began.Add(tc.on))
			app := w.NotReady("cart", binding.ReasonPoweredOff)
			if b := app.Status.Bindings[0]; b.State != "Waiting" || b.Reason != binding.ReasonPoweredOff || b.Username != string(before.Data[key.KafkaSchemaRegistryUser]) {
				t.Errorf("the binding does not say that its service is off: %+v", b)
			}
			if n := w.Metric("keysmith_rotations_overdue"); n != 0 {
				t.Errorf("%v rotations are overdue, want none that anybody could do something about", n)
			}
			if n := w.Sim.Counters(); n.Writes > 0 {
				t.Errorf("%d writes to a service that is off", n.Writes)
			}
			are(t, w, there...)
			if s := w.Secret("creds"); s.ResourceVersion != before.ResourceVersion {
				t.Error("the Secret was written while its service is off")
			}

			if tc.lost {
				for _, u := range there {
					w.Kafka.DeleteUser(u)
				}
			}
			w.Kafka.SetState(aivensim.Running)
			w.Advance(5*time.Minute + 20*time.Second) // it is looked at each five minutes, and again when a user is gone
			w.Ready("cart")
			after := w.Secret("creds")
			open(t, w, after)
			was, is := string(before.Data[key.KafkaSchemaRegistryUser]), user(w)
			if rotated := is != was; rotated != tc.rotated {
				t.Errorf("rotated: %t, want %t", rotated, tc.rotated)
			}
			if renewed := string(before.Data[key.KafkaSchemaRegistryPassword]) != string(after.Data[key.KafkaSchemaRegistryPassword]); renewed != (tc.rotated || tc.lost) {
				t.Errorf("the password is another one: %t", renewed)
			}
			if tc.rotated {
				are(t, w, was, is)
				w.Advance(31 * time.Minute)
			}
			are(t, w, is)
			w.Ready("cart")
			w.NoErrorLogged()
		})
	}
}

func TestPodsThatHoldTheOldUserAreNamed(t *testing.T) {
	w := start(t)
	began := w.Now()
	first := provide(w, &v1.Rotation{Interval: "24h", Overlap: "10m"})
	run := func(name string) {
		p := pod(w, name)
		w.Make(p)
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: w.Now()}}
		if err := w.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		w.Settle()
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "cart"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "cart"}}, Spec: pod(w, "").Spec},
	}}
	deployment.Spec.Template.Spec.TerminationGracePeriodSeconds = nil
	w.Make(deployment)
	for _, name := range []string{"one", "two", "three"} {
		run(name)
	}
	passwords := map[string]*corev1.Secret{"one": w.Secret("creds"), "two": w.Secret("creds"), "three": w.Secret("creds")}
	w.AdvanceTo(began.Add(24 * time.Hour))
	for i, name := range []string{"one", "two"} {
		w.AdvanceTo(began.Add(24*time.Hour + time.Duration(i+1)*time.Minute))
		for _, s := range passwords {
			open(t, w, s)
		}
		w.Remove(pod(w, name))
		w.Gone(&corev1.Pod{}, name)
		run(name + "-rolled")
		delete(passwords, name)
		passwords[name+"-rolled"] = w.Secret("creds")
	}
	warnings := func() (out []string) {
		events, err := w.Events(t.Context(), "cart")
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(events, func(e string) bool { return !strings.Contains(e, "OldCredentialsInUse") })
	}
	w.AdvanceTo(began.Add(24*time.Hour + 9*time.Minute - time.Second))
	if got := warnings(); len(got) > 0 {
		t.Errorf("the owner was warned too early: %q", got)
	}
	w.Advance(time.Second)
	w.Event("cart", "Warning OldCredentialsInUse User "+first+" of Secret creds")
	if got := warnings(); len(got) != 1 || !strings.HasSuffix(got[0], ": Pod/three") {
		t.Errorf("warnings: %q, want one that names Pod three alone", got)
	}
	wake(w)
	for _, s := range passwords {
		open(t, w, s)
	}
	w.AdvanceTo(began.Add(24*time.Hour + 10*time.Minute))
	are(t, w, user(w))
	delete(passwords, "three")
	for _, s := range passwords {
		open(t, w, s)
	}
	// Nobody is left to be named the next time.
	w.Remove(pod(w, "three"))
	w.Gone(&corev1.Pod{}, "three")
	w.AdvanceTo(began.Add(48 * time.Hour))
	for _, name := range []string{"one-rolled", "two-rolled"} {
		w.Remove(pod(w, name))
	}
	w.Settle()
	w.Advance(11 * time.Minute)
	if got := warnings(); len(got) != 1 {
		t.Errorf("warnings: %q, want none for a rotation after which all were restarted", got)
	}
}
