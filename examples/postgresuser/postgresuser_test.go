package postgresuser

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/aiven/aiventest"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

var postgres = aiven.Ref{Project: aiventest.Project, Service: "postgresql-shop-orders"}

// world is a simulated Aiven with a PostgreSQL service.
func world(t *testing.T) *aiventest.Aiven {
	t.Helper()
	a := aiventest.New(t)
	a.Sim.Project(postgres.Project).AddService(postgres.Service, aivensim.ServiceConfig{Type: aivensim.PostgreSQL})
	return a
}

// claimed is a binding as the controller hands it to the resource.
func claimed(resumed bool) *binding.Binding {
	b := FromSpec(PostgreSQL{Instance: "orders", SecretName: "cart-postgres"}, binding.Settings{Project: postgres.Project})
	b.Ref.Service = postgres.Service
	b.Username, b.Resumed = Name(b, "test", "shop", "cart", 0), resumed
	return b
}

func TestEnsureCreated(t *testing.T) {
	tests := map[string]struct {
		before  func(a *aiventest.Aiven, user string)
		resumed bool
		want    resource.Outcome
		writes  int
	}{
		"it makes a user": {want: resource.Done, writes: 1},
		"it leaves a user of ours alone": {
			before:  func(a *aiventest.Aiven, user string) { a.At(postgres).AddUser(aivensim.User{Username: user}) },
			resumed: true, want: resource.Done,
		},
		"it makes a user of ours again that somebody deleted": {resumed: true, want: resource.Done, writes: 1},
		"it leaves a stranger's user to him": {
			before: func(a *aiventest.Aiven, user string) { a.At(postgres).AddUser(aivensim.User{Username: user}) },
			want:   resource.Waiting,
		},
		"it says that the API is down": {
			before: func(a *aiventest.Aiven, _ string) { a.Break(aivensim.ServiceUserCreate) },
			want:   resource.Failed, writes: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := world(t), claimed(tt.resumed)
			if tt.before != nil {
				tt.before(a, b.Username)
			}
			err := New(a).EnsureCreated(t.Context(), &binding.Set{Bindings: []*binding.Binding{b}})
			if got := resource.OutcomeOf(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
			if got := a.Sim.Counters().Writes; got != tt.writes {
				t.Errorf("got %d writes, want %d", got, tt.writes)
			}
			u, _ := a.At(postgres).User(b.Username)
			if known := b.User != nil && b.User.Password == u.Password; known != (tt.want == resource.Done) {
				t.Errorf("the password was handed on: %t", known)
			}
		})
	}
}

// A user from its spec to its Secret, and from the Secret's annotations to its end.
func TestLifeOfAUser(t *testing.T) {
	a, b := world(t), claimed(false)
	r := New(a)
	for range 2 { // the second time changes nothing
		if err := r.EnsureCreated(t.Context(), &binding.Set{Bindings: []*binding.Binding{b}}); err != nil {
			t.Fatal(err)
		}
	}
	service, err := a.Service(t.Context(), postgres)
	if err != nil {
		t.Fatal(err)
	}
	data, err := Content(b, service)
	if err != nil {
		t.Fatal(err)
	}
	uri, err := url.Parse(string(data["PGURI_ORDERS"]))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := uri.User.Password()
	want := map[string]string{
		"PGHOST_ORDERS": uri.Hostname(), "PGPORT_ORDERS": uri.Port(), "PGDATABASE_ORDERS": strings.Trim(uri.Path, "/"),
		"PGSSLMODE_ORDERS": uri.Query().Get("sslmode"), "PGUSER_ORDERS": uri.User.Username(), "PGPASSWORD_ORDERS": password, "PGURI_ORDERS": uri.String(),
	}
	got := map[string]string{}
	for k, v := range data {
		got[k] = string(v)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("data (-URI +keys):\n%s", diff)
	}
	if u, ok := a.At(postgres).User(b.Username); !ok || u.Password != password {
		t.Errorf("the user exists: %t, or its password is another one", ok)
	}

	recorded := FromRecord(Record(b))
	if recorded == nil || !Matches(recorded.Username, "cart") || Matches(recorded.Username, "card") || Matches("avnadmin", "cart") {
		t.Fatalf("the annotations record %v", recorded)
	}
	for range 2 { // the second time it is gone already
		if err := r.EnsureDeleted(t.Context(), &binding.Set{Bindings: []*binding.Binding{recorded}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, left := a.At(postgres).User(b.Username); left {
		t.Error("the user is left")
	}
	if FromRecord(nil) != nil {
		t.Error("no annotation records a user")
	}
}

func TestContentWaitsForAnAddress(t *testing.T) {
	b := claimed(true)
	b.User = &aiven.User{Name: b.Username, Password: "p"}
	if _, err := Content(b, &aiven.Service{Ref: postgres}); resource.OutcomeOf(err) != resource.Waiting {
		t.Errorf("got %v, want to wait", err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The guide shows each file whole, in a block marked with its name.
func TestGuideShowsTheCode(t *testing.T) {
	block := regexp.MustCompile("(?ms)^<!-- (\\w+\\.go) -->\n```go\n(.*?)^```$")
	got, want := map[string]string{}, map[string]string{}
	for _, m := range block.FindAllStringSubmatch(read(t, "../../docs/adding-a-service.md"), -1) {
		got[m[1]] = m[2]
	}
	for _, name := range []string{"spec.go", "binding.go", "resource.go", "content.go"} {
		want[name] = read(t, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("code (-files +guide):\n%s", diff)
	}
}
