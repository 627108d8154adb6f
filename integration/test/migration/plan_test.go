//go:build k8srequired

package migration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/service/plan"
)

// planner returns what runs "keysmith plan", with the rights that read alone. It fails the test if the plan writes anything, or shows a credential.
func planner(t *testing.T, w *world.World) func(args ...string) (status int, stdout, stderr string) {
	t.Helper()
	user := reader(t, w.Namespace)
	return func(args ...string) (status int, stdout, stderr string) {
		t.Helper()
		return runPlan(t, w, user, args...)
	}
}

func runPlan(t *testing.T, w *world.World, user string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var writes atomic.Int32
	config := rest.CopyConfig(env.Config(t))
	config.Impersonate.UserName = user
	proxy := env.Proxy(t, config)
	server := httptest.NewServer(http.HandlerFunc(func(rsp http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			writes.Add(1)
			t.Errorf("the plan sends %s %s", req.Method, req.URL.Path)
		}
		proxy.ServeHTTP(rsp, req)
	}))
	defer server.Close()
	before, changed := versions(t, w), w.Sim.Counters().Writes

	o := w.Options(append(args, "--kubernetes-address="+server.URL)...)
	var out, log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), o.Binary, append([]string{"plan"}, o.Args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, o.Env...)
	cmd.Stdout, cmd.Stderr = &out, &log
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, versions(t, w)); diff != "" {
		t.Errorf("resource versions (-before +after):\n%s", diff)
	}
	if now := w.Sim.Counters().Writes; now != changed {
		t.Errorf("the plan made %d changes at Aiven", now-changed)
	}
	for what, canary := range w.Canaries() {
		if canary != "" && strings.Contains(out.String()+log.String(), canary) {
			t.Errorf("the plan shows %s", what)
		}
	}
	if strings.Contains(log.String(), "DATA RACE") {
		t.Errorf("the plan has a data race:\n%s", log.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

// reader is a user who has those of the operator's rights that read.
func reader(t *testing.T, namespace string) string {
	t.Helper()
	role := rbacv1.ClusterRole{Rules: world.ReadRules(t).Cluster()}
	for i := range role.Rules {
		role.Rules[i].Verbs = slices.DeleteFunc(role.Rules[i].Verbs, func(verb string) bool {
			return verb != "get" && verb != "list" && verb != "watch"
		})
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Verbs) == 0 })
	user := "keysmith-plan-" + namespace
	role.Name = user
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := env.Client(t, scheme)
	for _, obj := range []client.Object{&role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}} {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Delete(context.Background(), obj); err != nil {
				t.Error(err)
			}
		})
	}
	return user
}

// versions are the resource versions of all applications, Secrets and events of a world.
func versions(t *testing.T, w *world.World) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{&v1.AivenApplicationList{}, &corev1.SecretList{}, &eventsv1.EventList{}} {
		if err := w.List(t.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			o, err := meta.Accessor(obj)
			if err == nil {
				out[fmt.Sprintf("%T %s", obj, o.GetName())] = o.GetResourceVersion()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// report reads a plan in JSON.
func report(t *testing.T, stdout string) plan.Report {
	t.Helper()
	var r plan.Report
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("decode the plan: %v\n%s", err, stdout)
	}
	return r
}

// steps are those of an application or a Secret but for what is kept, without what they say to people.
func steps(subjects []*plan.Subject, name string) []plan.Step {
	var out []plan.Step
	for _, s := range subjects {
		if s.Name != name {
			continue
		}
		for _, step := range s.Steps {
			if step.Action != plan.Keep {
				step.Message = ""
				out = append(out, step)
			}
		}
	}
	return out
}

// Whatever would go another way than one might think is in the plan.
func TestAPlanSaysWhatWouldChange(t *testing.T) {
	t.Parallel()
	e := world.Inherit(t)
	onKafka, onSearch, onCache := world.Pool+"/kafka", world.Main+"/"+e.Search.Name(), world.Main+"/"+e.Cache.Name()
	user := func(action plan.Action, service, name string, changes ...string) plan.Step {
		return plan.Step{Action: action, Kind: "user", Service: service, Name: name, Changes: changes}
	}
	secret := func(action plan.Action, name string, changes ...string) plan.Step {
		return plan.Step{Action: action, Kind: "Secret", Name: name, Changes: changes}
	}
	blocked := func(name, reason string) []plan.Step {
		return []plan.Step{{Action: plan.Blocked, Kind: "Secret", Name: name, Reason: reason}}
	}
	kafkaKeys := []string{"KAFKA_CERTIFICATE", "KAFKA_PRIVATE_KEY", "KAFKA_SCHEMA_REGISTRY_PASSWORD"}
	data := func(names ...string) []string {
		names = append(names, "AIVEN_SECRET_UPDATED")
		slices.Sort(names)
		for i := range names {
			names[i] = "data " + names[i]
		}
		return names
	}
	kafka := func(pool, secret string) v1.AivenApplicationSpec {
		return v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: pool, SecretName: secret}}
	}
	fresh := func(name string) string {
		return key.Identity{Cluster: "world", Namespace: e.Namespace, Application: name, Project: world.Pool, Service: "kafka"}.Kafka()
	}
	inherited := []string{
		"fine-001", "edited-002", "gone-003", "label-004", "drift-005", "rights-006", "forged-007", "expired-008", "orphan-009", "paused-010", "leaving-011",
	}
	users := map[string]map[string]string{} // annotations, by application
	for _, name := range inherited {
		e.Add(name)
		users[name] = e.Secret(name).Annotations
	}

	e.ChangeSecret("edited-002", func(s *corev1.Secret) { s.Data["KAFKA_BROKERS"] = []byte("elsewhere:1") })
	e.Kafka.DeleteUser(users["gone-003"][key.AnnotationKafkaUser])
	e.ChangeSecret("label-004", func(s *corev1.Secret) { s.Labels[key.LabelTeam] = "nobody" })
	e.Cache.SetAccessControl(users["drift-005"][key.ValkeyUser("cache")], aivensim.AccessControl{Categories: []string{"+@all"}})
	acl := e.Search.OpenSearchACLs()
	acl.ACLs = slices.DeleteFunc(acl.ACLs, func(a aivensim.OpenSearchACL) bool {
		return a.Username == users["rights-006"][key.AnnotationOpenSearchUser]
	})
	e.Search.SetOpenSearchACLs(acl)
	e.ChangeSecret("forged-007", func(s *corev1.Secret) { s.Annotations[key.AnnotationKafkaUser] = "avnadmin" })
	e.Change("expired-008", func(app *v1.AivenApplication) { app.Spec.ExpiresAt = "2024-01-02T03:04:05Z" })
	e.Merge(e.App("orphan-009"), `{"metadata":{"finalizers":null}}`)
	e.Remove(e.App("orphan-009"))
	e.Merge(e.App("paused-010"), `{"metadata":{"annotations":{"operatorkit.giantswarm.io/paused":"true"}}}`)
	e.Remove(e.Secret("leaving-011")) // the earlier operator's finalizer holds it
	e.Apply("new", kafka(world.Pool, "new"))
	e.Apply("pool", kafka("forbidden", "pool"))
	e.Make(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "theirs"}})
	e.Apply("foreign", kafka(world.Pool, "theirs"))
	e.Apply("nowhere", v1.AivenApplicationSpec{Valkey: []v1.Valkey{{Instance: "nowhere", SecretName: "nowhere"}}})

	run := planner(t, e.World)
	status, stdout, stderr := run("--output=json")
	if status != 1 {
		t.Errorf("exit status %d, want 1\n%s", status, stderr)
	}
	got := report(t, stdout)
	taken := func(name string) []plan.Step {
		return []plan.Step{
			user(plan.Delete, onKafka, users[name][key.AnnotationKafkaUser]), user(plan.Delete, onSearch, users[name][key.AnnotationOpenSearchUser]),
			user(plan.Delete, onCache, users[name][key.ValkeyUser("cache")]), secret(plan.Delete, name),
		}
	}
	made := data(append(kafkaKeys, "KAFKA_SECRET_UPDATED", "client.keystore.p12", "client.truststore.jks")...)
	tests := map[string]struct{ apps, secrets []plan.Step }{
		"fine-001": {},
		"edited-002": {apps: []plan.Step{
			secret(plan.Update, "edited-002", data("KAFKA_BROKERS", "KAFKA_SECRET_UPDATED")...),
		}},
		"gone-003": {apps: []plan.Step{
			user(plan.Create, onKafka, users["gone-003"][key.AnnotationKafkaUser]), secret(plan.Update, "gone-003", made...),
		}},
		"label-004":  {apps: []plan.Step{secret(plan.Update, "label-004", "label team")}},
		"drift-005":  {apps: []plan.Step{user(plan.Update, onCache, users["drift-005"][key.ValkeyUser("cache")], "rights")}},
		"rights-006": {apps: []plan.Step{user(plan.Update, onSearch, users["rights-006"][key.AnnotationOpenSearchUser], "grant read on index _*", "grant read on index *")}},
		"forged-007": {apps: []plan.Step{
			{Action: plan.Warn, Kind: "AivenApplication", Name: "forged-007", Reason: "RecordRestored"},
			user(plan.Create, onKafka, fresh("forged-007")),
			secret(plan.Update, "forged-007", append(data(append(kafkaKeys, "KAFKA_SCHEMA_REGISTRY_USER", "KAFKA_SECRET_UPDATED",
				"client.keystore.p12", "client.truststore.jks")...), "annotation kafka.aiven.nais.io/serviceUser")...),
		}},
		"expired-008": {
			apps:    []plan.Step{{Action: plan.Delete, Kind: "AivenApplication", Name: "expired-008"}},
			secrets: taken("expired-008"),
		},
		"orphan-009": {secrets: taken("orphan-009")},
		"paused-010": {apps: []plan.Step{{Action: plan.Paused, Kind: "AivenApplication", Name: "paused-010"}}},
		"new": {apps: []plan.Step{
			user(plan.Create, onKafka, fresh("new")),
			secret(plan.Create, "new", data(append(kafkaKeys, "AIVEN_CA", "KAFKA_BROKERS", "KAFKA_CA", "KAFKA_CREDSTORE_PASSWORD", "KAFKA_SCHEMA_REGISTRY",
				"KAFKA_SCHEMA_REGISTRY_USER", "KAFKA_SECRET_UPDATED", "client.keystore.p12", "client.truststore.jks")...)...),
		}},
		"pool":    {apps: blocked("pool", "PoolNotAllowed")},
		"foreign": {apps: blocked("theirs", "SecretNotOwned")},
		"nowhere": {apps: blocked("nowhere", "InstanceNotFound")},
	}
	for name, want := range tests {
		if diff := cmp.Diff(want.apps, steps(got.Applications, name)); diff != "" {
			t.Errorf("application %s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(want.secrets, steps(got.Secrets, name)); diff != "" {
			t.Errorf("Secret %s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(taken("leaving-011"), steps(got.Secrets, "leaving-011")); diff != "" {
		t.Errorf("a Secret that is being deleted (-want +got):\n%s", diff)
	}
	again := steps(got.Applications, "leaving-011")
	if last := again[len(again)-1]; last.Action != plan.Create || last.Kind != "Secret" {
		t.Errorf("a Secret that is being deleted would not be made again: %+v", again)
	}
	_, table, stderr := run()
	for _, line := range []string{
		`fine-001 +keep +user ` + users["fine-001"][key.AnnotationKafkaUser] + ` on dev/kafka`,
		`edited-002 +update +Secret edited-002 +data AIVEN_SECRET_UPDATED, data KAFKA_BROKERS, data KAFKA_SECRET_UPDATED`,
		`pool +blocked +Secret pool +PoolNotAllowed: .*spec\.kafka\.pool: "forbidden" is not one of the projects that this cluster may use: dev`,
		`secret/orphan-009 +delete +Secret orphan-009 +no application asks for it and no workload refers to it`,
		`Applications: 2 unchanged, 9 changes, 3 not ready\.`,
	} {
		if !regexp.MustCompile("(?m)" + line + "$").MatchString(table) {
			t.Fatalf("no line of the table is %s:\n%s%s", line, table, stderr)
		}
	}

	// What the plan says is what happens.
	expected := map[string][]string{} // users, by service
	for _, s := range e.Services() {
		expected[s.Name()] = world.Users(s)
	}
	for _, subject := range slices.Concat(got.Secrets, got.Applications) {
		for _, step := range subject.Steps {
			_, service, _ := strings.Cut(step.Service, "/")
			switch {
			case step.Kind == "user" && step.Action == plan.Create:
				expected[service] = append(expected[service], step.Name)
			case step.Kind == "user" && step.Action == plan.Delete:
				expected[service] = slices.DeleteFunc(expected[service], func(name string) bool { return name == step.Name })
			}
		}
	}
	e.Start()
	for _, s := range e.Services() {
		e.UsersAre(s, expected[s.Name()]...)
	}
	for name, want := range tests {
		if len(want.apps) > 0 && want.apps[0].Action == plan.Blocked {
			e.NotReady(name, want.apps[0].Reason)
		}
	}
	e.Ready("edited-002")
	e.Ready("new")
	e.Gone(&corev1.Secret{}, "orphan-009")
	e.Gone(&v1.AivenApplication{}, "expired-008")
}
