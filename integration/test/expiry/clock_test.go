//go:build k8srequired

package expiry

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// exists tells whether an object is there.
func exists(t *testing.T, w *world.Timed, obj client.Object, name string) bool {
	t.Helper()
	err := w.Get(t.Context(), w.Key(name), obj)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func TestTimersKeepTheirTime(t *testing.T) {
	const never = 48 * time.Hour
	for name, tc := range map[string]struct {
		first         time.Duration // the limit
		second        time.Duration // the limit from minute 5 on; zero: it stays
		removed       bool          // at minute 5
		zone          *time.Location
		off, on, gone time.Duration // when the operator stops and starts, zero: never; when the application goes; its Secret follows a minute later
	}{
		"it goes at its moment":    {first: 10 * time.Minute, gone: 10 * time.Minute},
		"it reads every time zone": {first: 10 * time.Minute, zone: time.FixedZone("far away", -9*60*60), gone: 10 * time.Minute},
		"it goes at once where the operator was off": {
			first: 10 * time.Minute, off: 5 * time.Minute, on: 30 * time.Minute, gone: 30 * time.Minute,
		},
		"it keeps its time over a restart": {
			first: 10 * time.Minute, off: 5 * time.Minute, on: 6 * time.Minute, gone: 10 * time.Minute,
		},
		"it stays where the limit was moved on":                   {first: 10 * time.Minute, second: 20 * time.Minute, gone: 20 * time.Minute},
		"it goes earlier where the limit was moved back":          {first: time.Hour, second: 6 * time.Minute, gone: 6 * time.Minute},
		"it goes at once where the limit was moved into the past": {first: time.Hour, second: -time.Hour, gone: 5 * time.Minute},
		"it stays where the limit was removed":                    {first: 10 * time.Minute, removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.NewTimed(t)
			w.Start(silent...)
			start := w.Now()
			in := func(d time.Duration) string {
				at := start.Add(d)
				if tc.zone != nil {
					at = at.In(tc.zone)
				}
				return at.Format(time.RFC3339)
			}
			w.Apply("cart", v1.AivenApplicationSpec{ExpiresAt: in(tc.first), Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
			w.Settle()
			username := w.Ready("cart").Status.Bindings[0].Username
			if tc.second != 0 || tc.removed {
				w.AdvanceTo(start.Add(5*time.Minute - time.Second))
				w.Ready("cart")
				w.AdvanceTo(start.Add(5 * time.Minute))
				w.Change("cart", func(a *v1.AivenApplication) {
					a.Spec.ExpiresAt = in(tc.second)
					if tc.removed {
						a.Spec.ExpiresAt = ""
					}
				})
				w.Settle()
			}
			if tc.off > 0 {
				w.AdvanceTo(start.Add(tc.off))
				w.Stop()
				w.AdvanceTo(start.Add(tc.on - time.Second))
				w.App("cart")
				w.AdvanceTo(start.Add(tc.on))
				w.Start(silent...)
			}
			if tc.gone == 0 {
				w.AdvanceTo(start.Add(never))
				w.Ready("cart")
				w.UsersAre(w.Kafka, username)
				return
			}
			if last := start.Add(tc.gone - time.Second); w.Now().Before(last) {
				w.AdvanceTo(last)
				w.Ready("cart")
			}
			w.AdvanceTo(start.Add(tc.gone))
			if exists(t, w, &v1.AivenApplication{}, "cart") {
				t.Errorf("the application is still there %s after its beginning", tc.gone)
			}
			if !exists(t, w, &corev1.Secret{}, "creds") {
				t.Error("the Secret is gone before it was unused for the grace period")
			}
			w.Advance(time.Minute + 2*time.Second) // the grace, and the time in which many triggers become one round
			if exists(t, w, &corev1.Secret{}, "creds") || len(world.Users(w.Kafka)) > 0 {
				t.Error("the Secret or its user is still there although nobody has used it for the grace period")
			}
		})
	}
}
