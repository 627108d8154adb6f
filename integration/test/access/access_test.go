//go:build k8srequired

// Package access shows that users have the rights that their application asks for, no more and no less, and that nobody else's rights are touched.
package access

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

func TestMain(m *testing.M) { world.Run(m) }

// foreign are entries of other people in the document that all users of an OpenSearch service share.
var foreign = []aivensim.OpenSearchACL{
	{Username: "stranger", Rules: []aivensim.OpenSearchRule{{Index: "logs-*", Permission: "readwrite"}, {Index: "*", Permission: "deny"}}},
	{Username: "team-*", Rules: []aivensim.OpenSearchRule{{Index: "shared", Permission: "read"}}},
	{Username: "stranger", Rules: []aivensim.OpenSearchRule{{Index: "metrics", Permission: "admin"}}},
}

func level(permission string) []aivensim.OpenSearchRule {
	return []aivensim.OpenSearchRule{{Index: "_*", Permission: permission}, {Index: "*", Permission: permission}}
}

func TestLoweredAccessReplacesTheRules(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	logs.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{ACLs: foreign, Enabled: true, ExtendedACL: true})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "logs", Access: v1.AccessReadWrite, SecretName: "creds"}})
	app := w.Ready("cart")
	user, before := app.Status.Bindings[0].Username, w.Secret("creds")
	expect := func(permission string) {
		t.Helper()
		want := aivensim.OpenSearchACLConfig{
			Enabled: true, ExtendedACL: true,
			ACLs: append(slices.Clone(foreign), aivensim.OpenSearchACL{Username: user, Rules: level(permission)}),
		}
		if diff := cmp.Diff(want, logs.OpenSearchACLs()); diff != "" {
			t.Errorf("access control for %s (-want +got):\n%s", permission, diff)
		}
	}
	expect("readwrite")
	for _, access := range []v1.Access{v1.AccessRead, v1.AccessAdmin, v1.AccessWrite} {
		w.Change("cart", func(app *v1.AivenApplication) { app.Spec.OpenSearch.Access = access })
		app = w.Ready("cart")
		expect(string(access))
		if now := app.Status.Bindings[0].Username; now != user {
			t.Errorf("the user %q became %q", user, now)
		}
	}
	if now := w.Secret("creds"); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Secret was written:\n%s", cmp.Diff(before.Data, now.Data))
	}
	w.Login(world.Main, logs, user, string(before.Data["OPEN_SEARCH_PASSWORD"]))
}

// The document of an OpenSearch service is written as a whole, and the last writer wins: writers must not overtake each other.
func TestManyApplicationsShareADocument(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	logs.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{ACLs: foreign, Enabled: true})
	w.Sim.SetLatency(200 * time.Millisecond)
	w.Start("--workers=64")
	const n = 20
	name := func(i int) string { return fmt.Sprintf("app-%d", i) }
	for i := range n {
		w.Apply(name(i), v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: name(i)}})
	}
	users := make([]string, n)
	for i := range n {
		users[i] = w.Ready(name(i)).Status.Bindings[0].Username
	}
	expect := func(users []string) {
		t.Helper()
		want := map[string][]aivensim.OpenSearchRule{}
		for _, u := range users {
			want[u] = level("read")
		}
		got := map[string][]aivensim.OpenSearchRule{}
		var others []aivensim.OpenSearchACL
		for _, entry := range logs.OpenSearchACLs().ACLs {
			if entry.Username == "stranger" || entry.Username == "team-*" {
				others = append(others, entry)
				continue
			}
			got[entry.Username] = append(got[entry.Username], entry.Rules...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rules (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(foreign, others); diff != "" {
			t.Errorf("other people's entries (-want +got):\n%s", diff)
		}
	}
	expect(users)

	for i := range n / 2 {
		w.Remove(&v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name(i)}})
		w.Remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name(i)}})
	}
	for i := range n / 2 {
		w.Gone(&corev1.Secret{}, name(i))
		w.Gone(&v1.AivenApplication{}, name(i))
	}
	expect(users[n/2:])
	w.UsersAre(logs, slices.Clone(users[n/2:])...)
}

// Who asks for no level may read; the object stays as it was written.
func TestDefaultIsRead(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Start("--resync=24h")
	spec := v1.AivenApplicationSpec{
		SecretName: "creds", OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache", Access: ""}},
	}
	w.Apply("cart", spec)
	app := w.Ready("cart")
	if diff := cmp.Diff(spec, app.Spec); diff != "" || app.Generation != 1 {
		t.Errorf("the spec changed, generation %d (-want +got):\n%s", app.Generation, diff)
	}
	const passes, touches = "aivenator_aiven_applications_processed", 3
	before := w.Metric(passes)
	w.Touch("cart", touches)
	if n := w.Metric(passes) - before; n != touches {
		t.Errorf("%v passes after %d edits: a pass causes another one", n, touches)
	}
	if diff := cmp.Diff(level("read"), logs.OpenSearchACLs().ACLs[0].Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	user, _ := cache.User(world.Users(cache)[0])
	want := []string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction", "+@read"}
	if diff := cmp.Diff(want, user.AccessControl.Categories); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
}

// An instance belongs to the namespace that has its object. Names run into each other: instance "b-logs" of namespace "a" has the service of instance
// "logs" of namespace "a-b".
func TestAnotherTeamsInstance(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	other := w.Neighbour(t, "b")
	logs := other.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	cache := other.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Start("--namespaces=" + other.Namespace)
	w.Apply("thief", v1.AivenApplicationSpec{
		SecretName: "creds", OpenSearch: &v1.OpenSearch{Instance: "b-logs"}, Valkey: []v1.Valkey{{Instance: "b-cache"}},
	})
	w.Apply("second-thief", v1.AivenApplicationSpec{
		SecretName: "creds-2", OpenSearch: &v1.OpenSearch{Instance: logs.Name()}, Valkey: []v1.Valkey{{Instance: cache.Name()}},
	})
	w.NotReady("thief", "InstanceNotFound")
	w.NotReady("second-thief", "InstanceNotFound")

	// An object of that name that never ran helps no better.
	w.State(binding.OpenSearch, logs.Name(), "REBUILDING")
	w.State(binding.Valkey, cache.Name(), "")
	w.NotReady("thief", "WaitingForService")
	w.NotReady("second-thief", "WaitingForService")
	if names := slices.Concat(world.Users(logs), world.Users(cache)); len(names) > 0 {
		t.Errorf("there are users: %q", names)
	}
	if n := w.Sim.Counters().Writes; n > 0 {
		t.Errorf("%d writes to Aiven", n)
	}

	other.Apply("owner", v1.AivenApplicationSpec{
		SecretName: "creds", OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache"}},
	})
	other.Ready("owner")
	s := other.Secret("creds")
	w.Login(world.Main, logs, string(s.Data["OPEN_SEARCH_USERNAME"]), string(s.Data["OPEN_SEARCH_PASSWORD"]))
	w.Login(world.Main, cache, string(s.Data["VALKEY_USERNAME_CACHE"]), string(s.Data["VALKEY_PASSWORD_CACHE"]))
	w.UsersAre(logs, string(s.Data["OPEN_SEARCH_USERNAME"]))
}
