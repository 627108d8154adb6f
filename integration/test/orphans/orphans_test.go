//go:build k8srequired

// Package orphans shows that keysmith orphans names the users that nothing records any more, and no other, and deletes those that it is told to.
package orphans

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/command/orphans"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

// list runs the command and returns the names of orphans and of unclear users.
func list(t *testing.T, w *world.World) (orphan, unclear []string, status int) {
	t.Helper()
	out, stderr, status := w.Command("", "", "orphans", "-o", "json")
	var r orphans.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr)
	}
	if r.Warning != "" {
		t.Error(r.Warning)
	}
	for _, f := range r.Orphans {
		orphan = append(orphan, f.Username)
	}
	for _, f := range r.Unclear {
		unclear = append(unclear, f.Username)
	}
	return orphan, unclear, status
}

// The records of an application's users are lost, in its status and in its Secret: they are told, and neither deleted nor adopted.
func TestLostRecords(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	valkey := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	strangers := []string{
		w.Earlier("earlier", "old"), // a Secret of the earlier operator has it
		w.Kafka.AddUser(aivensim.User{Username: "jane"}).Username,
		w.Kafka.AddUser(aivensim.User{Username: key.Identity{Cluster: "another", Namespace: w.Namespace, Application: "cart", Project: world.Pool, Service: "kafka"}.Kafka()}).Username,
	}
	w.Start("--janitor-grace=1h")
	spec := func(secret string) v1.AivenApplicationSpec {
		return v1.AivenApplicationSpec{
			Kafka:  &v1.Kafka{Pool: world.Pool, SecretName: secret, ACL: []v1.KafkaACL{{Topic: "orders"}}},
			Valkey: []v1.Valkey{{Instance: "cache", SecretName: secret + "-valkey"}},
		}
	}
	w.Apply("cart", spec("creds"))
	w.Apply("other", spec("other"))
	w.Ready("other")
	lost := w.Ready("cart").Status.Bindings
	if orphan, unclear, status := list(t, w); status != 0 || orphan != nil || !cmp.Equal(unclear, strangers[2:]) {
		t.Errorf("while all are recorded: status %d, %q, %q", status, orphan, unclear)
	}

	w.Stop()
	app := w.App("cart")
	app.Status.Bindings = nil
	if err := w.Status().Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"creds", "creds-valkey"} {
		w.Merge(w.Secret(name), `{"metadata":{"annotations":null}}`)
	}
	w.Sim.ResetCounters()
	w.Start("--janitor-grace=1h")
	w.NotReady("cart", binding.ReasonSecretNotOwned)
	kafka, cache := lost[0].Username, lost[1].Username
	check := func(want ...string) {
		t.Helper()
		orphan, unclear, status := list(t, w)
		if diff := cmp.Diff(want, orphan); diff != "" || status != 1 || !cmp.Equal(unclear, strangers[2:]) {
			t.Errorf("status %d, unclear %q, orphans (-want +got)\n%s", status, unclear, diff)
		}
	}
	check(kafka, cache)
	w.Stop() // what follows is about the command alone
	other := w.App("other").Status.Bindings
	w.UsersAre(w.Kafka, append(strangers, kafka, other[0].Username)...)
	w.UsersAre(valkey, cache, other[1].Username)
	if n := w.Sim.Counters().Requests[aivensim.ServiceUserDelete]; n > 0 {
		t.Errorf("%d users were deleted", n)
	}

	remove := func(stdin string, args ...string) (string, int) {
		_, stderr, status := w.Command("", stdin, append([]string{"orphans", "delete", "--project", world.Pool, "--service", "kafka"}, args...)...)
		return stderr, status
	}
	for name, refused := range map[string]struct{ user, why string }{
		"recorded by a status": {other[0].Username, "records it"},
		"recorded by a Secret": {strangers[0], "records it"},
		"a person's":           {"jane", "has no name"},
		"another cluster's":    {strangers[2], "nothing proves"},
		"built in":             {"avnadmin", "is built in"},
	} {
		if stderr, status := remove("", "--yes", kafka, refused.user); status != 1 || !strings.Contains(stderr, refused.why) {
			t.Errorf("%s: status %d, %s", name, status, stderr)
		}
	}
	if stderr, status := remove("n\n", kafka); status != 1 || !strings.Contains(stderr, "nothing was deleted") {
		t.Errorf("after a no: status %d, %s", status, stderr)
	}
	check(kafka, cache)
	if stderr, status := remove("yes\n", kafka); status != 0 {
		t.Errorf("status %d, %s", status, stderr)
	}
	check(cache)
	w.UsersAre(w.Kafka, append(strangers, other[0].Username)...)
	w.UsersAre(valkey, cache, other[1].Username)
	for _, e := range w.Kafka.KafkaACLs() {
		if e.Username == kafka {
			t.Errorf("the right %+v is left", e)
		}
	}
	if n := w.Sim.Counters().Requests[aivensim.ServiceUserDelete]; n != 1 {
		t.Errorf("there were %d calls to delete a user, want 1", n)
	}
}

func TestSomebodyWhoSeesANamespaceAloneIsToldNothing(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Kafka.AddUser(aivensim.User{Username: key.Identity{Cluster: "world", Namespace: w.Namespace, Application: "gone", Project: world.Pool, Service: "kafka"}.Kafka()})
	out, stderr, status := w.Command(w.Person("jane"), "", "orphans")
	if status != 1 || out != "" || !strings.Contains(stderr, "you (jane) lack the right to list namespaces in all namespaces") {
		t.Errorf("status %d, %s, %s", status, out, stderr)
	}
	if _, stderr, status := w.Command("", "", "orphans", "--aiven-url=nonsense"); status != 2 || !strings.Contains(stderr, "--aiven-url") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
