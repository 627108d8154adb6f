package aiven

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

func TestCreateUser(t *testing.T) {
	f := newFixture(t)
	ac := AccessControl{Categories: []string{"-@all", "+@read"}, Keys: []string{"*"}}
	got, err := f.CreateUser(t.Context(), valkey, "app", &ac)
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := f.valkey.User("app")
	diff(t, &User{Name: "app", Type: "normal", Password: stored.Password, AccessControl: ac}, got)
	diff(t, true, ac.Equal(accessOf(stored)))

	_, err = f.CreateUser(t.Context(), valkey, "app", nil)
	isError(t, err, ErrExists)
	_, err = f.CreateUser(t.Context(), Ref{"dev", "gone"}, "app", nil)
	isError(t, err, ErrNotFound)
	for _, name := range []string{"avnadmin", "default", "os-sec-admin"} {
		if _, err = f.CreateUser(t.Context(), valkey, name, nil); !terminal(err) {
			t.Errorf("%s: want a terminal error, got %v", name, err)
		}
	}
	f.project.AddService("small", aivensim.ServiceConfig{Type: aivensim.Kafka, UserLimit: 1})
	f.create(t, Ref{"dev", "small"}, "a")
	if _, err = f.CreateUser(t.Context(), Ref{"dev", "small"}, "b", nil); !terminal(err) || errors.Is(err, ErrExists) {
		t.Errorf("want a terminal error that is no duplicate, got %v", err)
	}
}

func TestOutcomeOfCreateUser(t *testing.T) {
	answer := func(status int, body string) *aivensim.Answer { return &aivensim.Answer{Status: status, Body: body} }
	tests := map[string]struct {
		rule    aivensim.Rule
		unknown bool
		want    error // nil: any
	}{
		"it is unknown after a reset":                    {aivensim.Rule{Reset: true}, true, nil},
		"it is unknown after a reset that came too late": {aivensim.Rule{Reset: true, Commit: true}, true, nil},
		"it is unknown after a 500":                      {aivensim.Rule{Answer: aivensim.Error(500, "", "no"), Commit: true}, true, nil},
		"it is unknown after a 503":                      {aivensim.Rule{Answer: answer(503, "")}, true, nil},
		"it is unknown after an empty answer":            {aivensim.Rule{Answer: answer(200, ""), Commit: true}, true, nil},
		"it is unknown after an empty object":            {aivensim.Rule{Answer: answer(200, "{}"), Commit: true}, true, nil},
		"it is unknown after HTML":                       {aivensim.Rule{Answer: answer(200, "<p>"), Commit: true}, true, nil},
		"it is unknown after half an answer":             {aivensim.Rule{Answer: answer(200, `{"user":{"username":"app"`), Commit: true}, true, nil},
		"it is unknown if another user is answered":      {aivensim.Rule{Answer: answer(200, `{"user":{"username":"b"}}`)}, true, nil},
		"it is known after a duplicate":                  {aivensim.Rule{Answer: aivensim.Error(409, "", "User already exists")}, false, ErrExists},
		"it is known after a 409":                        {aivensim.Rule{Answer: aivensim.Error(409, "", "busy")}, false, ErrBusy},
		"it is known after a 400":                        {aivensim.Rule{Answer: aivensim.Error(400, "", "no")}, false, nil},
		"it is known after a 403":                        {aivensim.Rule{Answer: aivensim.Error(403, "", "no")}, false, ErrUnauthorized},
		"it is known after a 404":                        {aivensim.Rule{Answer: aivensim.Error(404, "", "no")}, false, ErrNotFound},
		"it is known after a 429":                        {aivensim.Rule{Answer: aivensim.Error(429, "", "no")}, false, ErrThrottled},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.read(t, kafka)
			f.sim.Inject(test.rule)
			_, err := f.CreateUser(t.Context(), kafka, "app", nil)
			diff(t, test.unknown, errors.Is(err, ErrOutcomeUnknown))
			if test.want != nil {
				isError(t, err, test.want)
			}
			diff(t, 1, f.requests(aivensim.ServiceUserCreate))

			// The next snapshot tells.
			f.sim.ClearRules()
			f.pass(6 * time.Minute)
			_, exists := f.kafka.User("app")
			_, shown := f.read(t, kafka).User("app")
			diff(t, exists, shown)
		})
	}
}

func TestOutcomeIsKnownIfNothingWasSent(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	c := newClient(t, nil, Options{URL: server.URL})
	_, err := c.CreateUser(t.Context(), kafka, "app", nil)
	if err == nil || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
}

// A user that we deleted a moment ago, and that another process has made again since, is there.
func TestUserThatExistsIsReadAlthoughWeDeletedIt(t *testing.T) {
	f := newFixture(t)
	f.create(t, kafka, "app")
	if err := f.DeleteUser(t.Context(), kafka, "app"); err != nil {
		t.Fatal(err)
	}
	f.kafka.AddUser(aivensim.User{Username: "app"})
	_, err := f.CreateUser(t.Context(), kafka, "app", nil)
	isError(t, err, ErrExists)
	if _, err := f.User(t.Context(), kafka, "app"); err != nil {
		t.Errorf("it cannot be read: %v", err)
	}
}

func TestCallerWhoLeavesWhileAUserIsCreated(t *testing.T) {
	f := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	let := make(chan struct{})
	defer close(let)
	f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Before: func(aivensim.Request) { leave(); <-let }})
	_, err := f.CreateUser(ctx, kafka, "app", nil)
	isError(t, err, context.Canceled)
	isError(t, err, ErrOutcomeUnknown)
}

func TestUserWithoutCredentialsYet(t *testing.T) {
	f := newFixture(t)
	f.sim.SetLag(aivensim.Lag{Credentials: 20 * time.Second})
	got := f.create(t, kafka, "app")
	diff(t, []string{"", "", ""}, []string{got.Password, got.Certificate, got.Key})
	f.pass(10 * time.Second)
	got, err := f.User(t.Context(), kafka, "app")
	if err != nil || got.Password != "" {
		t.Errorf("got %v, %v", got, err)
	}
	f.pass(10 * time.Second)
	if got, err = f.User(t.Context(), kafka, "app"); err != nil || got.Password == "" || got.Certificate == "" || got.Key == "" {
		t.Errorf("got %v, %v", got, err)
	}
	shown, _ := f.read(t, kafka).User("app")
	diff(t, *got, shown)
}

func TestSetAccessControl(t *testing.T) {
	f := newFixture(t)
	full := AccessControl{[]string{"+@all"}, []string{"+info"}, []string{"*"}, []string{"*"}}
	if _, err := f.CreateUser(t.Context(), valkey, "app", &full); err != nil {
		t.Fatal(err)
	}
	f.read(t, valkey)
	want := AccessControl{Categories: []string{"-@all", "+@read"}, Keys: []string{"b", "a"}}
	if err := f.SetAccessControl(t.Context(), valkey, "app", want); err != nil {
		t.Fatal(err)
	}
	stored, _ := f.valkey.User("app")
	diff(t, true, want.Equal(accessOf(stored)))

	f.valkey.SetAccessControl("app", aivensim.AccessControl{Commands: []string{"+stale"}}) // what a read that lags shows
	f.pass(time.Minute)
	f.Invalidate(valkey)
	shown, _ := f.read(t, valkey).User("app")
	diff(t, want, shown.AccessControl)
	read, err := f.User(t.Context(), valkey, "app")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, want, read.AccessControl)
	f.pass(time.Minute)
	f.Invalidate(valkey)
	shown, _ = f.read(t, valkey).User("app")
	diff(t, AccessControl{Commands: []string{"+stale"}}, shown.AccessControl)

	isError(t, f.SetAccessControl(t.Context(), valkey, "gone", want), ErrNotFound)
	if err := f.SetAccessControl(t.Context(), valkey, "default", want); !terminal(err) {
		t.Errorf("want a terminal error, got %v", err)
	}
}

func TestDeleteUser(t *testing.T) {
	f := newFixture(t)
	f.create(t, kafka, "app")
	if err := f.DeleteUser(t.Context(), kafka, "app"); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		ref  Ref
		name string
		rule *aivensim.Answer
		want error // nil: a terminal error
	}{
		"a user that is gone":          {kafka, "app", nil, ErrNotFound},
		"a service that is gone":       {Ref{"dev", "gone"}, "app", nil, ErrNotFound},
		"a project that is gone":       {Ref{"gone", "kafka"}, "app", nil, ErrNotFound},
		"no permission":                {kafka, "app", aivensim.Error(403, "", "no"), ErrUnauthorized},
		"a hiccup that looks so":       {kafka, "app", aivensim.Error(404, "", "User root with component main not found"), ErrBusy},
		"a built-in user":              {kafka, "avnadmin", nil, nil},
		"a built-in user of Valkey":    {valkey, "default", nil, nil},
		"a built-in user, by snapshot": {kafka, "made_by_aiven", nil, nil},
	}
	f.kafka.AddUser(aivensim.User{Username: "made_by_aiven", Type: "primary"})
	f.pass(time.Minute)
	f.read(t, kafka)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f.sim.ResetCounters()
			if test.rule != nil {
				defer f.sim.Inject(aivensim.Rule{Answer: test.rule}).Remove()
			}
			err := f.DeleteUser(t.Context(), test.ref, test.name)
			if test.want != nil {
				isError(t, err, test.want)
				return
			}
			if !terminal(err) {
				t.Errorf("want a terminal error, got %v", err)
			}
			diff(t, 0, f.sim.Counters().Total())
		})
	}
}

func TestPoweredOff(t *testing.T) {
	f := newFixture(t)
	f.kafka.SetState(aivensim.PowerOff)
	f.search.SetState(aivensim.PowerOff)
	diff(t, StatePowerOff, f.read(t, kafka).State)
	diff(t, StatePowerOff, f.read(t, search).State)
	_, err := f.CreateUser(t.Context(), kafka, "app", nil)
	isError(t, err, ErrNotPowered)
	isError(t, f.GrantOpenSearch(t.Context(), search, "app", []OpenSearchRule{{"*", "read"}}), ErrBusy)
}

func TestAReadOnlyClientChangesNothing(t *testing.T) {
	for name, options := range map[string]Options{
		"it never may": {ReadOnly: true}, "it may not now": {MayWrite: func() error { return errors.New("another process may lead") }},
	} {
		t.Run(name, func(t *testing.T) { changesNothing(t, options) })
	}
}

func changesNothing(t *testing.T, options Options) {
	t.Helper()
	f := newFixture(t)
	c := newClient(t, f.sim, options)
	ctx := t.Context()
	if _, err := c.Service(ctx, kafka); err != nil {
		t.Errorf("read: %v", err)
	}
	_, err := c.CreateUser(ctx, kafka, "app", nil)
	for what, err := range map[string]error{
		"create a user": err, "delete a user": c.DeleteUser(ctx, kafka, "app"), "set rights": c.SetAccessControl(ctx, valkey, "app", AccessControl{}),
		"add an ACL entry": c.AddKafkaACL(ctx, kafka, KafkaACL{Username: "app", Topic: "t", Permission: "read"}), "delete an ACL entry": c.DeleteKafkaACL(ctx, kafka, KafkaACL{ID: "1"}),
		"grant rules": c.GrantOpenSearch(ctx, search, "app", []OpenSearchRule{{Index: "*", Permission: "read"}}),
	} {
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
	}
	if n := f.sim.Counters().Writes; n != 0 {
		t.Errorf("%d writes were sent", n)
	}
}

func TestAcknowledgeRenewal(t *testing.T) {
	f := newFixture(t)
	f.create(t, kafka, "app")
	f.kafka.RenewCertificate("app")
	f.pass(window)
	f.Invalidate(kafka)
	ends := func() []bool {
		t.Helper()
		shown, _ := f.read(t, kafka).User("app")
		read, err := f.User(t.Context(), kafka, "app")
		if err != nil {
			t.Fatal(err)
		}
		return []bool{shown.ExpiringCertificateExpires.IsZero(), read.ExpiringCertificateExpires.IsZero()}
	}
	diff(t, []bool{false, false}, ends())
	if err := f.AcknowledgeRenewal(t.Context(), kafka, "app"); err != nil {
		t.Fatal(err)
	}
	stored, _ := f.kafka.User("app")
	diff(t, true, stored.ExpiringNotAfter.IsZero())

	f.kafka.RenewCertificate("app") // what a read that lags shows
	f.pass(window / 2)
	f.Invalidate(kafka)
	diff(t, []bool{true, true}, ends())
	f.pass(window / 2)
	f.Invalidate(kafka)
	diff(t, []bool{false, false}, ends())

	isError(t, f.AcknowledgeRenewal(t.Context(), kafka, "gone"), ErrNotFound)
	if err := f.AcknowledgeRenewal(t.Context(), kafka, "avnadmin"); !terminal(err) {
		t.Errorf("want a terminal error, got %v", err)
	}
}

func TestIsExpired(t *testing.T) {
	tests := map[string]struct {
		ends time.Time
		want bool
	}{
		"it has not where the end is not known": {time.Time{}, false},
		"it has not before the end":             {start.Add(time.Second), false},
		"it has at the end":                     {start, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { diff(t, tt.want, User{CertificateExpires: tt.ends}.IsExpired(start)) })
	}
}
