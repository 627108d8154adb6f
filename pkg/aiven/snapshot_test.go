package aiven

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// content is all that a Service holds.
type content struct {
	Ref
	Type, State   string
	ReadAt        time.Time
	Components    []Component
	OpenSearchACL *OpenSearchACL
	Users         map[string]*User
	KafkaACL      []KafkaACL // sorted by user
}

func contentOf(s *Service) *content {
	c := &content{s.Ref, s.Type, s.State, s.ReadAt, s.Components, s.OpenSearchACL, map[string]*User{}, nil}
	for _, name := range s.Usernames() {
		u, _ := s.User(name)
		c.Users[name] = &u
	}
	for a := range all(s.kafkaACL) {
		c.KafkaACL = append(c.KafkaACL, a)
	}
	return c
}

func TestServiceHoldsWhatIsNeeded(t *testing.T) {
	f := newFixture(t)
	f.kafka.AddKafkaACL(aivensim.KafkaACL{ID: "acl1", Username: "app_*", Topic: "t", Permission: "read"})
	f.valkey.AddUser(aivensim.User{Username: "app", Password: "pw", AccessControl: aivensim.AccessControl{
		Categories: []string{"+@read"}, Commands: []string{"+info"}, Keys: []string{"*"},
	}})
	f.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{Enabled: true, ACLs: []aivensim.OpenSearchACL{
		{Username: "app", Rules: []aivensim.OpenSearchRule{{Index: "*", Permission: "read"}}},
		{Username: "app", Rules: []aivensim.OpenSearchRule{{Index: "_*", Permission: "read"}}},
	}})
	admin, _ := f.kafka.User("avnadmin")
	built, _ := f.valkey.User("default")
	searchAdmin, _ := f.search.User("avnadmin")

	tests := map[string]struct {
		ref  Ref
		want *content
	}{
		"kafka": {kafka, &content{
			Ref: kafka, Type: TypeKafka, State: StateRunning, ReadAt: start,
			Users: map[string]*User{"avnadmin": {
				Name: "avnadmin", Type: "primary", Password: admin.Password, Certificate: admin.AccessCert, Key: admin.AccessKey,
				CertificateExpires: admin.NotAfter, PasswordUpdated: start,
			}},
			KafkaACL: []KafkaACL{{"acl1", "app_*", "t", "read"}, {"default", "avnadmin", "*", "admin"}},
		}},
		"valkey": {valkey, &content{
			Ref: valkey, Type: TypeValkey, State: StateRunning, ReadAt: start,
			Users: map[string]*User{
				"default": {Name: "default", Type: "primary", Password: built.Password, PasswordUpdated: start, AccessControl: accessOf(built)},
				"app": {Name: "app", Type: "normal", Password: "pw", PasswordUpdated: start, AccessControl: AccessControl{
					Categories: []string{"+@read"}, Commands: []string{"+info"}, Keys: []string{"*"},
				}},
			},
		}},
		"opensearch": {search, &content{
			Ref: search, Type: TypeOpenSearch, State: StateRunning, ReadAt: start,
			Users: map[string]*User{"avnadmin": {Name: "avnadmin", Type: "primary", Password: searchAdmin.Password, PasswordUpdated: start}},
			OpenSearchACL: &OpenSearchACL{Enabled: true, Rules: map[string][]OpenSearchRule{
				"app": {{"*", "read"}, {"_*", "read"}},
			}},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := f.read(t, test.ref)
			ignore := []cmp.Option{cmpopts.IgnoreFields(content{}, "Components"), cmpopts.EquateEmpty()}
			if d := cmp.Diff(test.want, contentOf(got), ignore...); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			want := f.project.Service(test.ref.Service).Components()
			for i, c := range got.Components {
				diff(t, want[i].Component, c.Component)
				diff(t, []string{want[i].Usage, want[i].Route, want[i].Host}, []string{c.Usage, c.Route, c.Host})
				diff(t, want[i].Port, c.Port)
				diff(t, true, c.SSL)
			}
			diff(t, len(want), len(got.Components))
		})
	}
}

func accessOf(u aivensim.User) AccessControl {
	a := u.AccessControl
	return AccessControl{a.Categories, a.Commands, a.Keys, a.Channels}
}

func TestRenewalOfACertificateShows(t *testing.T) {
	f := newFixture(t)
	f.create(t, kafka, "app")
	f.kafka.RenewCertificate("app")
	f.pass(5 * time.Minute)
	want, _ := f.kafka.User("app")
	got, _ := f.read(t, kafka).User("app")
	diff(t, []time.Time{want.NotAfter, want.ExpiringNotAfter}, []time.Time{got.CertificateExpires, got.ExpiringCertificateExpires})
	diff(t, want.AccessCert, got.Certificate)
}

func TestServiceToleratesAnswers(t *testing.T) {
	const rest = `"service_type":"kafka","state":"RUNNING"`
	tests := map[string]struct {
		body string
		want *content // nil: an error
	}{
		"values of types that are not expected": {
			`{"service":{"service_uri_params":{"port":123,"x":{"y":[null]}},"service_uri":null,"node_count":"3","users":[],"acl":null,"components":null,"new":[{}],` + rest + `},"message":5}`,
			&content{Type: TypeKafka, State: StateRunning, Users: map[string]*User{}},
		},
		"credentials that are not known": {
			`{"service":{"users":[{"username":"a","password":null,"access_key":"<redacted>","access_cert":"","access_control":null,"access_cert_not_valid_after_time":null}],` + rest + `}}`,
			&content{Type: TypeKafka, State: StateRunning, Users: map[string]*User{"a": {Name: "a", Redacted: true}}},
		},
		"a component without encryption": {
			`{"service":{"users":[],"components":[{"component":"kafka","ssl":false,"kafka_ssl_ca":"letsencrypt","kafka_authentication_method":"sasl","port":1,"host":"h"}],` + rest + `}}`,
			&content{Type: TypeKafka, State: StateRunning, Users: map[string]*User{}, Components: []Component{
				{Component: "kafka", KafkaSSLCA: "letsencrypt", KafkaAuthenticationMethod: "sasl", Host: "h", Port: 1},
			}},
		},
		"a service without users while it is built": {
			`{"service":{"service_type":"valkey","state":"REBUILDING"},"errors":[]}`,
			&content{Type: TypeValkey, State: StateRebuilding, Users: map[string]*User{}},
		},
		"an OpenSearch that is off, whose ACLs cannot be read": {
			`{"service":{"service_type":"opensearch","state":"POWEROFF","users":[]}}`,
			&content{Type: TypeOpenSearch, State: StatePowerOff, Users: map[string]*User{}},
		},
		"a running service without users": {`{"service":{` + rest + `}}`, nil},
		"no state":                        {`{"service":{"service_type":"kafka","users":[]}}`, nil},
		"an empty object":                 {`{}`, nil},
		"nothing":                         {``, nil},
		"null":                            {`{"service":null}`, nil},
		"an end too early":                {`{"service":{"users":[],` + rest + `}`, nil},
		"users of another type":           {`{"service":{"users":{},` + rest + `}}`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := answering(t, http.StatusOK, test.body).Service(t.Context(), kafka)
			if test.want == nil {
				if err == nil {
					t.Fatal("want an error")
				}
				diff(t, "read service dev/kafka: 200 the answer cannot be read", err.Error())
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			test.want.Ref, test.want.ReadAt = kafka, start
			diff(t, test.want, contentOf(got))
		})
	}
}

func TestSecretsThatMayNotBeRead(t *testing.T) {
	f := newFixture(t)
	f.create(t, kafka, "app")
	f.pass(5 * time.Minute)
	f.sim.SetToken(token, aivensim.Token{Secrets: aivensim.SecretsForbidden})
	_, err := f.Service(t.Context(), kafka)
	isError(t, err, ErrUnauthorized)
	if !strings.Contains(err.Error(), "service:secrets:read") {
		t.Errorf("want the permission in %v", err)
	}
	diff(t, 0., f.gauge(t))

	f.pass(time.Minute)
	f.sim.SetToken(token, aivensim.Token{Secrets: aivensim.SecretsHidden})
	u, _ := f.read(t, kafka).User("app")
	diff(t, []any{true, "", ""}, []any{u.Redacted, u.Password, u.Key})
	diff(t, 0., f.gauge(t))

	f.pass(5 * time.Minute)
	f.sim.SetToken(token, aivensim.Token{})
	if u, _ = f.read(t, kafka).User("app"); u.Password == "" || u.Key == "" {
		t.Error("want the credentials")
	}
	diff(t, 1., f.gauge(t))
}

func TestServiceIsReadOnceForAll(t *testing.T) {
	f := newFixture(t)
	arrived, let := make(chan struct{}, 9), make(chan struct{})
	rule := f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceGet, Before: func(aivensim.Request) { arrived <- struct{}{}; <-let }})
	defer rule.Remove()

	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { _, err := f.Service(ctx, kafka); left <- err }()
	<-arrived
	var callers sync.WaitGroup
	var got [100]*Service
	for i := range got {
		callers.Go(func() { got[i], _ = f.Service(t.Context(), kafka) })
	}
	leave() // the first caller, who started the read
	isError(t, <-left, context.Canceled)
	close(let)
	callers.Wait()
	for _, s := range got {
		if s == nil || s != got[0] {
			t.Fatal("want one snapshot for all")
		}
	}
	diff(t, 1, f.requests(aivensim.ServiceGet))
}

func TestServiceIsReadAgain(t *testing.T) {
	f := newFixture(t)
	steps := []struct {
		name string
		do   func()
		want int // reads so far
	}{
		{"at first", func() {}, 1},
		{"not while it is young", func() { f.pass(3*time.Minute + 59*time.Second) }, 1},
		{"when it is old", func() { f.pass(time.Minute + time.Second) }, 2},
		{"not right after, even if it is invalid", func() { f.Invalidate(kafka); f.pass(2 * time.Second) }, 2},
		{"a little later", func() { f.pass(time.Second) }, 3},
		{"not again", func() { f.pass(4 * time.Second) }, 3},
		{"at once, if the last read was long ago", func() { f.Invalidate(kafka) }, 4},
	}
	for _, step := range steps {
		step.do()
		f.read(t, kafka)
		if got := f.requests(aivensim.ServiceGet); got != step.want {
			t.Errorf("%s: want %d reads, got %d", step.name, step.want, got)
		}
	}
}

func TestFailureToReadIsShared(t *testing.T) {
	f := newFixture(t)
	f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceGet, Count: 1, Answer: aivensim.Error(403, "", "Not a project member")})
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if _, err := f.Service(t.Context(), kafka); !errors.Is(err, ErrUnauthorized) {
				t.Errorf("got %v", err)
			}
		})
	}
	callers.Wait()
	diff(t, 1, f.requests(aivensim.ServiceGet))
	f.pass(1500 * time.Millisecond)
	f.read(t, kafka)
}

func TestErrorInASuccess(t *testing.T) {
	c := answering(t, http.StatusOK, `{"errors":[{"message":"Service kafka does not exist","status":404}],"service":null}`)
	_, err := c.Service(t.Context(), kafka)
	isError(t, err, ErrNotFound)
	diff(t, "read service dev/kafka: 404 Service kafka does not exist", err.Error())
}

func TestServiceOfOpenSearchNeedsItsACLs(t *testing.T) {
	f := newFixture(t)
	f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceOpenSearchACLGet, Answer: aivensim.Error(403, "", "no")})
	_, err := f.Service(t.Context(), search)
	isError(t, err, ErrUnauthorized)
}

func TestUnusedServicesAreForgotten(t *testing.T) {
	f := newFixture(t)
	f.read(t, kafka)
	f.pass(10 * time.Minute)
	f.read(t, valkey)
	f.pass(6 * time.Minute)
	f.read(t, search)
	diff(t, 2, len(f.services))
}

func TestCreatedUserShowsAtOnce(t *testing.T) {
	f := newFixture(t)
	f.sim.SetLag(aivensim.Lag{ServiceGet: 20 * time.Second, UserGet: 20 * time.Second})
	f.read(t, kafka)
	want := f.create(t, kafka, "app")
	if want.Password == "" || want.Certificate == "" || want.Key == "" {
		t.Fatal("want credentials")
	}
	unless := cmpopts.IgnoreFields(User{}, "PasswordUpdated") // which only a read tells
	shows := func(when string) {
		t.Helper()
		if got, _ := f.read(t, kafka).User("app"); !cmp.Equal(*want, got, unless) {
			t.Errorf("%s: got %v", when, got)
		}
		if got, err := f.User(t.Context(), kafka, "app"); err != nil || !cmp.Equal(want, got, unless) {
			t.Errorf("%s: got %v, %v", when, got, err)
		}
	}
	shows("in the former snapshot")
	f.pass(10 * time.Second)
	f.Invalidate(kafka)
	shows("in a read that lags")
	f.pass(15 * time.Second)
	f.Invalidate(kafka)
	shows("in a read that does not")
	diff(t, 3, f.requests(aivensim.ServiceGet))
	diff(t, 1, f.requests(aivensim.ServiceUserCreate))
}

func TestCreatedUserKeepsItsCredentialsWhileAReadHasNone(t *testing.T) {
	f := newFixture(t)
	want := f.create(t, kafka, "app")
	f.kafka.OverridePassword("app", "changed") // answered as null
	f.pass(time.Minute)
	f.Invalidate(kafka)
	got, _ := f.read(t, kafka).User("app")
	diff(t, []string{want.Password, want.Certificate, want.Key}, []string{got.Password, got.Certificate, got.Key})
	f.pass(time.Minute)
	f.Invalidate(kafka)
	got, _ = f.read(t, kafka).User("app")
	diff(t, "", got.Password)
}

func TestLostUserIsNoticed(t *testing.T) {
	f := newFixture(t)
	f.create(t, kafka, "app")
	f.kafka.DeleteUser("app")
	f.pass(2*time.Minute - time.Second)
	diff(t, []string{"app", "avnadmin"}, f.read(t, kafka).Usernames())
	f.pass(time.Second)
	diff(t, []string{"app", "avnadmin"}, f.read(t, kafka).Usernames()) // the read is not old enough
	f.pass(5 * time.Minute)
	diff(t, []string{"avnadmin"}, f.read(t, kafka).Usernames())
	_, err := f.User(t.Context(), kafka, "app")
	isError(t, err, ErrNotFound)
}

func TestDeletedUserDoesNotComeBack(t *testing.T) {
	f := newFixture(t)
	u := f.create(t, kafka, "app")
	f.read(t, kafka)
	if err := f.DeleteUser(t.Context(), kafka, "app"); err != nil {
		t.Fatal(err)
	}
	f.kafka.AddUser(aivensim.User{Username: "app", Password: u.Password}) // what a read that lags shows
	for range 2 {
		diff(t, []string{"avnadmin"}, f.read(t, kafka).Usernames())
		_, err := f.User(t.Context(), kafka, "app")
		isError(t, err, ErrNotFound)
		f.pass(30 * time.Second)
		f.Invalidate(kafka)
	}
	f.pass(time.Minute)
	f.Invalidate(kafka)
	diff(t, []string{"app", "avnadmin"}, f.read(t, kafka).Usernames())
}

func TestUserRenewsTheSnapshot(t *testing.T) {
	f := newFixture(t)
	f.valkey.AddUser(aivensim.User{Username: "app"})
	f.read(t, valkey)
	f.valkey.SetPassword("app", "new")
	f.valkey.AddUser(aivensim.User{Username: "other"})
	for _, name := range []string{"app", "other"} {
		want, err := f.User(t.Context(), valkey, name)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := f.read(t, valkey).User(name)
		diff(t, *want, got)
	}
	f.valkey.DeleteUser("app")
	_, err := f.User(t.Context(), valkey, "app")
	isError(t, err, ErrNotFound)
	diff(t, []string{"default", "other"}, f.read(t, valkey).Usernames())
	diff(t, 1, f.requests(aivensim.ServiceGet))
	f.valkey.AddUser(aivensim.User{Username: "app"})
	f.pass(5 * time.Minute)
	diff(t, []string{"app", "default", "other"}, f.read(t, valkey).Usernames())
}

func TestUserOfAnotherNameIsNoAnswer(t *testing.T) {
	_, err := answering(t, http.StatusOK, `{"user":{"username":"b"}}`).User(t.Context(), kafka, "a")
	diff(t, "read user a on dev/kafka: 200 the answer cannot be read", err.Error())
}

func TestSnapshotIsNotChangedAfterwards(t *testing.T) {
	f := newFixture(t)
	before := f.read(t, valkey)
	ac := AccessControl{Categories: []string{"+@read"}}
	f.create(t, valkey, "app")
	if err := f.SetAccessControl(t.Context(), valkey, "app", ac); err != nil {
		t.Fatal(err)
	}
	after := f.read(t, valkey)
	diff(t, []string{"default"}, before.Usernames())
	u, _ := after.User("app")
	diff(t, ac, u.AccessControl)
	if f.read(t, valkey) != after {
		t.Error("want the same snapshot while nothing changes")
	}
}

func TestCA(t *testing.T) {
	f := newFixture(t)
	f.project.RotateCA()
	want := f.project.CA()
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if got, err := f.CA(t.Context(), "dev"); err != nil || got != want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	callers.Wait()
	diff(t, 1, f.requests(aivensim.ProjectKmsGetCA))
	f.project.RetireCAs()
	f.pass(5 * time.Minute)
	got, err := f.CA(t.Context(), "dev")
	if err != nil || got == want || got != f.project.CA() {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = f.CA(t.Context(), "gone")
	isError(t, err, ErrNotFound)
}

func TestCARefuses(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":          `{}`,
		"another text":     `{"certificate":"canary"}`,
		"a broken one":     `{"certificate":"-----BEGIN CERTIFICATE-----\nY2FuYXJ5\n-----END CERTIFICATE-----\n"}`,
		"something broken": `{"certificate":5}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answering(t, http.StatusOK, body).CA(t.Context(), "dev")
			if err == nil || got != "" || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestManyUsers reads a service with 2,000 users, while users are created.
func TestManyUsers(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"service":{"service_type":"kafka","state":"RUNNING","users":[{"username":"avnadmin"}`)
	pem := strings.Repeat("x", 1600)
	for i := range 2000 {
		b.WriteString(`,{"username":"u` + strings.Repeat("0", i%7) + time.Duration(i).String() + `","access_cert":"` + pem + `"}`)
	}
	b.WriteString(`]}}`)
	var reads atomic.Int32
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = w.Write([]byte(`{"user":{"username":"new"}}`))
			return
		}
		reads.Add(1)
		_, _ = w.Write([]byte(b.String()))
	}), Options{Clock: clocktesting.NewFakePassiveClock(start)})
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			_, err := c.CreateUser(t.Context(), kafka, "new", nil)
			s, readErr := c.Service(t.Context(), kafka)
			if err != nil || readErr != nil || len(s.Usernames()) != 2002 {
				t.Error(err, readErr)
			}
		})
	}
	callers.Wait()
	diff(t, int32(1), reads.Load())
}

// Somebody who changes a right and takes that back while the outcome of the change is open must not be told that all is well.
func TestChangeOfOpenOutcomeIsLookedAtAnew(t *testing.T) {
	lost := aivensim.Rule{Commit: true, Loss: aivensim.LossClose, Count: 1}
	tests := map[string]struct {
		ref                     Ref
		prepare                 func(t *testing.T, f fixture) (shown func(*Service) bool)
		operation               aivensim.Operation
		change                  func(t *testing.T, f fixture) error
		shownBefore, shownAfter bool
	}{
		"it sees the entry of a topic that was added": {
			ref: kafka, operation: aivensim.ServiceKafkaACLAdd,
			prepare: func(*testing.T, fixture) func(*Service) bool {
				return func(s *Service) bool { return len(s.KafkaACLOf("app")) > 0 }
			},
			change: func(t *testing.T, f fixture) error {
				return f.AddKafkaACL(t.Context(), kafka, KafkaACL{Username: "app", Topic: "t", Permission: "read"})
			},
			shownAfter: true,
		},
		"it misses the entry of a topic that was deleted": {
			ref: kafka, operation: aivensim.ServiceKafkaACLDelete,
			prepare: func(t *testing.T, f fixture) func(*Service) bool {
				if err := f.AddKafkaACL(t.Context(), kafka, KafkaACL{Username: "app", Topic: "t", Permission: "read"}); err != nil {
					t.Fatal(err)
				}
				return func(s *Service) bool { return len(s.KafkaACLOf("app")) > 0 }
			},
			change: func(t *testing.T, f fixture) error {
				return f.DeleteKafkaACL(t.Context(), kafka, f.read(t, kafka).KafkaACLOf("app")[0])
			},
			shownBefore: true,
		},
		"it sees the rights of a Valkey user that were raised": {
			ref: valkey, operation: aivensim.ServiceUserCredentialsModify,
			prepare: func(t *testing.T, f fixture) func(*Service) bool {
				if _, err := f.CreateUser(t.Context(), valkey, "app", &AccessControl{Categories: []string{"+@read"}}); err != nil {
					t.Fatal(err)
				}
				return func(s *Service) bool {
					u, _ := s.User("app")
					return u.AccessControl.Equal(AccessControl{Categories: []string{"+@all"}})
				}
			},
			change: func(t *testing.T, f fixture) error {
				return f.SetAccessControl(t.Context(), valkey, "app", AccessControl{Categories: []string{"+@all"}})
			},
			shownAfter: true,
		},
		"it sees the rules of an OpenSearch user that were raised": {
			ref: search, operation: aivensim.ServiceOpenSearchACLUpdate,
			prepare: func(t *testing.T, f fixture) func(*Service) bool {
				if err := f.GrantOpenSearch(t.Context(), search, "app", []OpenSearchRule{{"*", "read"}}); err != nil {
					t.Fatal(err)
				}
				return func(s *Service) bool { return s.OpenSearchACL.Grants("app", []OpenSearchRule{{"*", "admin"}}) }
			},
			change: func(t *testing.T, f fixture) error {
				return f.GrantOpenSearch(t.Context(), search, "app", []OpenSearchRule{{"*", "admin"}})
			},
			shownAfter: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			shown := tt.prepare(t, f)
			if got := shown(f.read(t, tt.ref)); got != tt.shownBefore {
				t.Fatalf("before: shown %t", got)
			}
			rule := lost
			rule.Operation = tt.operation
			f.sim.Inject(rule)
			isError(t, tt.change(t, f), ErrOutcomeUnknown)
			if got := shown(f.read(t, tt.ref)); got != tt.shownAfter {
				t.Errorf("after: shown %t", got)
			}
		})
	}
}

// A read that is under way when a change is left without an answer may have been answered before the change.
func TestReadThatBeganBeforeAChangeOfOpenOutcomeIsNotEnough(t *testing.T) {
	f := newFixture(t)
	arrived, let := make(chan struct{}), make(chan struct{})
	f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceGet, Count: 1, Stall: 200 * time.Millisecond, Before: func(aivensim.Request) {
		close(arrived)
		<-let
	}})
	first := make(chan *Service)
	go func() { s, _ := f.Service(t.Context(), kafka); first <- s }()
	<-arrived
	close(let)
	f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceKafkaACLAdd, Commit: true, Loss: aivensim.LossClose})
	isError(t, f.AddKafkaACL(t.Context(), kafka, KafkaACL{Username: "app", Topic: "t", Permission: "read"}), ErrOutcomeUnknown)
	diff(t, 1, len(f.read(t, kafka).KafkaACLOf("app")))
	if <-first == nil {
		t.Error("who asked before got nothing")
	}
}
