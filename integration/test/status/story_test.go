//go:build k8srequired

package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// What kubectl describe shows of a life: each line says what happened, and to what.
func TestEventsTellTheStory(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	broken := w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Answer: aivensim.Error(500, "", "broken")})
	spec := kafka(world.Pool)
	spec.Kafka.ACL = []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}
	w.Apply("cart", spec)
	w.NotReady("cart", "AivenFailure")
	broken.Remove()
	first := w.Ready("cart").Status.Bindings[0].Username
	w.ChangeSecret("creds", func(s *corev1.Secret) { s.Data["KAFKA_BROKERS"] = []byte("elsewhere") })
	w.Event("cart", "SecretUpdated")
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.ACL[0].Access = v1.AccessWrite })
	w.Event("cart", "AccessChanged")
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.Pool = "elsewhere" })
	w.NotReady("cart", "PoolNotAllowed")
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.Pool = world.Pool })
	w.Ready("cart")
	s := w.Secret("creds")
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Delay: 2 * time.Second}) // long enough for the application's controller to see it
	w.Remove(s)
	w.Replaced(s)
	second := w.Ready("cart").Status.Bindings[0].Username
	w.Remove(w.App("cart"))
	w.Gone(&v1.AivenApplication{}, "cart")
	w.Gone(&corev1.Secret{}, "creds")

	want := []string{
		"Warning AivenFailure",
		"Normal SecretCreated Secret creds was made for user " + first + " of dev/kafka",
		"Normal Synchronized Up to date: creds (kafka)",
		"Normal SecretUpdated Secret creds was brought up to date: KAFKA_BROKERS",
		"Normal AccessChanged Rights of user " + first + " of dev/kafka: write on topic orders granted, read on topic orders revoked",
		`Warning PoolNotAllowed spec.kafka.pool: "elsewhere" is not one of the projects that this cluster may use: dev`,
		"Normal SecretBeingDeleted Secret creds is being deleted and will be made again",
		"Normal SecretCreated Secret creds was made for user " + second + " of dev/kafka",
		"Normal Deleted Secrets stay, with their users, until no workload refers to them: creds",
	}
	w.Eventually(func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := w.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
			return err
		}
		slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		var got []string
		for _, e := range list.Items {
			told := e.Type + " " + e.Reason + " " + e.Note
			if e.Reason == "AivenFailure" { // its text is Aiven's
				told = e.Type + " " + e.Reason
			}
			// An event that comes again is counted with the first, unless that is some time ago. Whether the first user is gone before or after
			// the second is there, nobody says.
			if e.Regarding.Name == "cart" && e.Reason != "UserDeleted" && !slices.Contains(got, told) {
				got = append(got, told)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("the story (-want +got):\n%s", diff)
		}
		if i := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == "creds" && strings.Contains(e.Note, "gone from Aiven")
		}); i < 0 {
			return errors.New("no event about the Secret says that its users are gone")
		}
		return nil
	})
}
