//go:build k8srequired

package status

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

const failures = "operatorkit_controller_errors_total"

// Whenever the operator asks something of Aiven, somebody else has just written the application: by the time of the answer, what the operator
// knows of it is old.
func TestSomebodyElseWritesAllTheTime(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	services := []*aivensim.Service{
		w.Kafka, w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{}), w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{}),
	}
	var writes atomic.Int32
	w.Sim.Inject(aivensim.Rule{Operation: "Service*", Before: func(aivensim.Request) {
		w.Merge(w.App("cart"), fmt.Sprintf(`{"metadata":{"annotations":{"example.com/writes":"%d"}}}`, writes.Add(1)))
	}})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders"}}},
		OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache"}},
	})
	app := w.Ready("cart")
	if n := writes.Load(); n < 6 { // each service is read, and is given a user
		t.Fatalf("the application was written %d times: this shows nothing", n)
	}
	for i, s := range services {
		w.UsersAre(s, app.Status.Bindings[i].Username)
	}
	n := w.Sim.Counters()
	if posts := n.Requests[aivensim.ServiceUserCreate]; posts != len(services) {
		t.Errorf("%d users were made, want %d", posts, len(services))
	}
	if got := w.Metric(failures); got != 0 {
		t.Errorf("%v failures were counted, want none", got)
	}
	w.NoErrorLogged()
}

// An application that goes before its status can be written is no failure, and leaves nothing behind, even if somebody has taken its finalizer away.
func TestGoneBeforeItsStatusIsWritten(t *testing.T) {
	for name, force := range map[string]bool{"it is deleted": false, "its finalizer is taken away too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Count: 1, Before: func(aivensim.Request) {
				app := w.App("cart")
				w.Remove(app)
				if force {
					w.Merge(app, `{"metadata":{"finalizers":null}}`)
				}
			}})
			w.Start()
			app := w.Apply("cart", kafka(world.Pool))
			w.Eventually(func(context.Context) error {
				if w.Sim.Counters().UsersCreated == 0 || w.Metric("aivenator_aiven_applications_processed") == 0 {
					return errors.New("no user was made yet, or its pass has not ended")
				}
				return nil
			})
			w.Gone(app, "cart")
			w.Gone(&corev1.Secret{}, "creds")
			w.UsersAre(w.Kafka)
			w.Sweep()
			if got := w.Metric(failures); got != 0 {
				t.Errorf("%v failures were counted, want none", got)
			}
			w.NoErrorLogged()
		})
	}
}
