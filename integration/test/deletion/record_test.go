//go:build k8srequired

package deletion

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// incomplete counts users that may be left behind.
const incomplete = "keysmith_cleanup_incomplete_total"

func TestTheApplicationKnowsWhatTheSecretForgot(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Start(idle...)
	w.Apply("cart", v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: "creds"}})
	before := w.Ready("cart").Status.Bindings[0].Username
	w.Stop()
	s := w.Secret("creds")
	w.Merge(s, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key.AnnotationOpenSearchProject))
	w.Remove(s)

	w.Start(idle...)
	after := string(w.Replaced(s).Data[key.OpenSearchUsername])
	w.Ready("cart")
	if after == before {
		t.Errorf("the new Secret holds the user of the old one, %s", before)
	}
	w.UsersAre(logs, after)
	if got := w.Metric(incomplete); got != 0 {
		t.Errorf("users that may be left: got %v, want none", got)
	}
}

func TestAnIncompleteRecordDoesNotHoldTheSecret(t *testing.T) {
	for name, tc := range map[string]struct {
		without []string // annotations
		event   string
		others  bool // whether users of other services are known
	}{
		"it names the user whose project is not known": {
			without: []string{key.AnnotationOpenSearchProject}, event: "Warning NotCleanedUp user ", others: true,
		},
		"it says that no user is known": {
			without: []string{
				key.AnnotationOpenSearchProject, key.AnnotationOpenSearchService, key.AnnotationOpenSearchUser,
				key.AnnotationKafkaUser, key.AnnotationKafkaPool,
			},
			event: "Warning NotCleanedUp a user may be left at Aiven: no annotation records one",
		},
		"it says that the owner is not known": {
			without: []string{
				key.AnnotationOpenSearchProject, key.AnnotationOpenSearchService, key.AnnotationOpenSearchUser,
				key.AnnotationKafkaUser, key.AnnotationKafkaPool, key.AnnotationOwner,
			},
			event: "Warning NotCleanedUp nothing proves that this Secret is the original of an application",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
			w.Start(idle...)
			app := w.Apply("cart", v1.AivenApplicationSpec{
				SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"},
			})
			w.Ready("cart")
			users := world.Users(logs)
			w.Remove(app)
			w.Gone(app, "cart")
			s := w.Secret("creds")
			for _, annotation := range tc.without {
				w.Merge(s, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, annotation))
			}
			if tc.others {
				// What can be cleaned up fails for a while, and is tried again: what cannot be is told of once.
				w.Sim.Inject(aivensim.Rule{
					Operation: aivensim.ServiceUserDelete, Project: world.Pool, Count: 6,
					Answer: aivensim.Error(503, "", "Service unavailable"),
				})
			}
			w.Remove(s)
			w.Gone(&corev1.Secret{}, "creds")
			w.MetricIs(incomplete, 1)
			w.Event("creds", tc.event)
			w.UsersAre(logs, users...)
			if tc.others {
				w.Event("creds", users[0])
				w.UsersAre(w.Kafka)
			}
			events, err := w.Events(t.Context(), "creds")
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, e := range events {
				if strings.Contains(e, "NotCleanedUp") {
					n++
				}
				if strings.Contains(e, "CredentialsRevoked") && !tc.others {
					t.Errorf("nothing was revoked, but the owner was told %q", e)
				}
			}
			if n != 1 {
				t.Errorf("events that say what was not cleaned up: got %q, want one", events)
			}
		})
	}
}
