//go:build k8srequired

package access

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// topics are the entries of a user, "topic permission", sorted.
func topics(s *aivensim.Service, user string) []string {
	list := []string{}
	for _, e := range s.KafkaACLs() {
		if e.Username == user {
			list = append(list, e.Topic+" "+e.Permission)
		}
	}
	slices.Sort(list)
	return list
}

func TestTopicsFollowTheList(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds", ACL: []v1.KafkaACL{
		{Topic: "t1", Access: v1.AccessRead}, {Topic: "t2", Access: v1.AccessWrite},
	}}})
	user, before := w.Ready("cart").Status.Bindings[0].Username, w.Secret("creds")

	// A right that changes is given anew before the former one is taken away.
	var mu sync.Mutex
	var gaps [][]string
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceKafkaACLDelete, Before: func(aivensim.Request) {
		if list := topics(w.Kafka, user); !slices.Contains(list, "t1 readwrite") {
			mu.Lock()
			defer mu.Unlock()
			gaps = append(gaps, list)
		}
	}})
	steps := []struct {
		acl  []v1.KafkaACL
		want []string
	}{
		{[]v1.KafkaACL{{Topic: "t1", Access: v1.AccessReadWrite}, {Topic: "t2", Access: v1.AccessWrite}}, []string{"t1 readwrite", "t2 write"}},
		{[]v1.KafkaACL{{Topic: "t1", Access: v1.AccessReadWrite}}, []string{"t1 readwrite"}},
		{[]v1.KafkaACL{}, []string{}},
		{[]v1.KafkaACL{{Topic: "t3", Access: v1.AccessAdmin}}, []string{"t3 admin"}},
	}
	if diff := cmp.Diff([]string{"t1 read", "t2 write"}, topics(w.Kafka, user)); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	for i, step := range steps {
		w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Kafka.ACL = step.acl })
		w.Ready("cart")
		if diff := cmp.Diff(step.want, topics(w.Kafka, user)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i+1, diff)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(gaps) > 0 {
		t.Errorf("the former right was taken away while the rights were %q", gaps)
	}
	if now := w.Secret("creds"); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Secret was written:\n%s", cmp.Diff(before.ObjectMeta, now.ObjectMeta))
	}
	w.UsersAre(w.Kafka, user)
}

// Entries that name the user literally are the application's. All others, patterns that match the user among them, are somebody else's; and so are all
// while the application has no list.
func TestForeignTopicsStay(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	user := w.Ready("cart").Status.Bindings[0].Username
	for _, op := range []aivensim.Operation{aivensim.ServiceKafkaACLList, aivensim.ServiceKafkaACLAdd, aivensim.ServiceKafkaACLDelete} {
		if n := w.Sim.Counters().Requests[op]; n > 0 {
			t.Errorf("%d requests of %s without a list", n, op)
		}
	}
	w.Kafka.AddKafkaACL(aivensim.KafkaACL{Username: user[:len(user)-3] + "*", Topic: "by-another-tool", Permission: "read"})
	w.Kafka.AddKafkaACL(aivensim.KafkaACL{Username: "team_other_00000000_abc", Topic: "t1", Permission: "write"})
	foreign := w.Kafka.KafkaACLs()
	w.Kafka.AddKafkaACL(aivensim.KafkaACL{Username: user, Topic: "by-hand", Permission: "read"})

	// What is known of the service is read again by another process.
	w.Stop()
	w.Sim.ResetCounters()
	w.Start("--resync=1s")
	w.Passes(1)
	if diff := cmp.Diff([]string{"by-hand read"}, topics(w.Kafka, user)); diff != "" {
		t.Errorf("without a list (-want +got):\n%s", diff)
	}
	if n := w.Sim.Counters().Writes; n > 0 {
		t.Errorf("%d writes to Aiven", n)
	}

	others := func() []aivensim.KafkaACL {
		return slices.DeleteFunc(w.Kafka.KafkaACLs(), func(e aivensim.KafkaACL) bool { return e.Username == user })
	}
	w.Change("cart", func(app *v1.AivenApplication) {
		app.Spec.Kafka.ACL = []v1.KafkaACL{{Topic: "t1", Access: v1.AccessRead}}
	})
	w.Ready("cart")
	if diff := cmp.Diff([]string{"t1 read"}, topics(w.Kafka, user)); diff != "" {
		t.Errorf("with a list (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(foreign, others()); diff != "" {
		t.Errorf("other people's entries (-want +got):\n%s", diff)
	}

	w.Remove(&v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "cart"}})
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
	if diff := cmp.Diff(foreign, w.Kafka.KafkaACLs()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}
