//go:build k8srequired

package aivenapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

func TestThrottledApplicationKeepsItsState(t *testing.T) {
	tests := map[string]aivensim.RetryAfterForm{
		"in seconds":        aivensim.RetryAfterSeconds,
		"by a date":         aivensim.RetryAfterDate,
		"in the text alone": aivensim.RetryAfterText,
	}
	for name, form := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Start(quick...)
			apps := []string{"cart", "shop", "till"}
			for _, app := range apps {
				w.Apply(app, v1.AivenApplicationSpec{SecretName: app, Kafka: &v1.Kafka{Pool: world.Pool}})
			}
			for _, app := range apps {
				w.Ready(app)
			}
			secrets := map[string]string{}
			for _, app := range apps {
				secrets[app] = w.Secret(app).ResourceVersion
			}
			histories := map[string]func() []*v1.AivenApplication{}
			for _, app := range apps {
				histories[app] = w.History(app)
			}
			w.Sim.ResetCounters()
			w.Sim.Inject(aivensim.Rule{Count: 1, Answer: aivensim.TooManyRequests(12*time.Second, form)})
			for _, app := range apps {
				w.Eventually(func(context.Context) error {
					if text := message(w.App(app)); !strings.Contains(text, "allows no more calls") {
						return fmt.Errorf("application %s does not say that it is throttled: %q", app, text)
					}
					return nil
				})
			}
			w.Apply("new", v1.AivenApplicationSpec{SecretName: "new", Kafka: &v1.Kafka{Pool: world.Pool}})
			w.Ready("new")
			logsIn(w, "new")
			for _, app := range apps {
				w.Eventually(func(context.Context) error {
					if text := message(w.App(app)); !strings.HasPrefix(text, "Up to date") || strings.Contains(text, "allows no more calls") {
						return fmt.Errorf("application %s is still throttled: %q", app, text)
					}
					return nil
				})
				for _, version := range histories[app]() {
					ready := slices.ContainsFunc(version.Status.Conditions, func(c v1.Condition) bool {
						return c.Type == v1.ConditionReady && c.Status == corev1.ConditionTrue
					})
					if !ready || version.Status.SynchronizationState != v1.RolloutComplete {
						t.Errorf("application %s was shown as %+v", app, version.Status)
					}
				}
				if got := w.Secret(app).ResourceVersion; got != secrets[app] {
					t.Errorf("Secret %s was written", app)
				}
			}
			n := w.Sim.Counters()
			if early := n.EarlyRequests[aivensim.TokenID(world.Token)]; early > 16 {
				t.Errorf("%d requests came too early, want none but those that were on their way", early)
			}
			if refused := n.RateLimited[aivensim.TokenID(world.Token)]; refused != 1 {
				t.Errorf("%d requests were refused, want one", refused)
			}
			if n.BlindRepeats != 0 {
				t.Errorf("%d calls were repeated blindly", n.BlindRepeats)
			}
			if failed := w.Metric(failures); failed != 0 {
				t.Errorf("%v failures were counted, want none", failed)
			}
			w.MetricIs("keysmith_aiven_throttled_total", 1)
		})
	}
}

func TestManyApplicationsUnderARateLimit(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Sim.Adjust(func(s *aivensim.Settings) {
		s.RateLimit = aivensim.RateLimit{Requests: 30, Per: 10 * time.Second, RetryAfter: aivensim.RetryAfterSeconds}
		s.UserLimit = -1
	})
	w.Start("--resync=24h")
	const apps = 60
	for i := range apps {
		name := fmt.Sprintf("app-%d", i)
		w.Apply(name, v1.AivenApplicationSpec{SecretName: name, Kafka: &v1.Kafka{Pool: world.Pool}})
	}
	for i := range apps {
		w.Ready(fmt.Sprintf("app-%d", i))
	}
	n := w.Sim.Counters()
	if n.UsersCreated != apps || n.BlindRepeats != 0 {
		t.Errorf("%d users, %d calls repeated blindly: want %d and none", n.UsersCreated, n.BlindRepeats, apps)
	}
	id := aivensim.TokenID(world.Token)
	// Without restraint each application is refused several times. Calls that were under way are refused with any.
	if n.RateLimited[id] == 0 || n.RateLimited[id] > 2*apps {
		t.Errorf("%d requests were refused, want some, but fewer than two for each application", n.RateLimited[id])
	}
	if n.EarlyRequests[id] > apps {
		t.Errorf("%d requests came too early", n.EarlyRequests[id])
	}
	if failed := w.Metric(failures); failed != 0 {
		t.Errorf("%v failures were counted, want none", failed)
	}
	t.Logf("refused %d, early %d, in all %d", n.RateLimited[id], n.EarlyRequests[id], n.Total())
}

func TestABrokenProjectHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Sim.AddProject("broken").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
	w.Sim.Inject(aivensim.Rule{Project: "broken", Answer: aivensim.Error(http.StatusServiceUnavailable, "", "no")})
	w.Start("--projects=broken", "--resync=24h", "--workers=3")
	for i := range 6 { // more than there are workers
		name := fmt.Sprintf("broken-%d", i)
		w.Apply(name, v1.AivenApplicationSpec{SecretName: name, Kafka: &v1.Kafka{Pool: "broken"}})
		w.NotReady(name, "AivenFailure")
	}
	for i := range 6 {
		w.Apply(fmt.Sprintf("whole-%d", i), v1.AivenApplicationSpec{SecretName: fmt.Sprintf("whole-%d", i), Kafka: &v1.Kafka{Pool: world.Pool}})
	}
	for i := range 6 {
		w.Ready(fmt.Sprintf("whole-%d", i))
	}
	if err := w.Operator.Ready(t.Context()); err != nil {
		t.Errorf("one broken project makes the operator unready: %v", err)
	}
}
