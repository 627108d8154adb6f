package aivensim_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aiven/aiven-go-client/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// These tests use Aiven's client, version 2, as it comes: what it makes of the answers is what they promise.

func TestClientProjects(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.sim.AddProject("prod")
	c := f.client(t)

	list, err := c.Projects.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	if d := cmp.Diff([]string{"dev", "prod"}, names); d != "" {
		t.Error(d)
	}
	p, err := c.Projects.Get(t.Context(), "dev")
	if err != nil || p.Name != "dev" {
		t.Errorf("want project dev, got %v, %v", p, err)
	}
	ca, err := c.CA.Get(t.Context(), "dev")
	if err != nil || ca != f.project.CA() {
		t.Errorf("want the CA of the project, got %q, %v", ca, err)
	}
}

func TestClientServices(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.client(t)

	list, err := c.Services.List(t.Context(), "dev")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		got = append(got, s.Type+" "+s.State+" "+s.Users[0].Username)
	}
	want := []string{"kafka RUNNING avnadmin", "opensearch RUNNING avnadmin", "valkey RUNNING default"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	f.openSearch.SetState(aivensim.Rebuilding)
	s, err := c.Services.Get(t.Context(), "dev", "opensearch")
	if err != nil {
		t.Fatal(err)
	}
	if s.State != "REBUILDING" || !s.CreateTime.Equal(start) || len(s.Components) != 2 || s.ProjectVPCID != nil {
		t.Errorf("unexpected service: %+v", s)
	}
}

func TestClientUsers(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, ShowSecrets: true})
	c := f.client(t)
	ctx := t.Context()
	rights := aiven.AccessControl{
		ValkeyACLCategories: []string{"-@all", "+@read"},
		ValkeyACLCommands:   []string{"+info"},
		ValkeyACLKeys:       []string{"*"},
		ValkeyACLChannels:   []string{},
	}
	created, err := c.ServiceUsers.Create(ctx, "dev", "valkey", aiven.CreateServiceUserRequest{Username: "app", AccessControl: &rights})
	if err != nil {
		t.Fatal(err)
	}
	want := &aiven.ServiceUser{
		Username: "app",
		Type:     "normal",
		Password: password(t, f.valkey, "app"),
		// A list without values is left out.
		AccessControl: aiven.AccessControl{
			ValkeyACLCategories: []string{"-@all", "+@read"}, ValkeyACLCommands: []string{"+info"}, ValkeyACLKeys: []string{"*"},
		},
	}
	if d := cmp.Diff(want, created); d != "" {
		t.Error(d)
	}
	got, err := c.ServiceUsers.Get(ctx, "dev", "valkey", "app")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	// Lists that are not given count as unset.
	operation := aiven.UpdateOperationSetAccessControl
	updated, err := c.ServiceUsers.Update(ctx, "dev", "valkey", "app", aiven.ModifyServiceUserRequest{
		Operation: &operation, AccessControl: &aiven.AccessControl{ValkeyACLKeys: []string{"a", "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want.AccessControl = aiven.AccessControl{ValkeyACLKeys: []string{"a", "b"}}
	if d := cmp.Diff(want, updated); d != "" {
		t.Error(d)
	}

	chosen := "a-chosen-password"
	updated, err = c.ServiceUsers.Update(ctx, "dev", "valkey", "app", aiven.ModifyServiceUserRequest{NewPassword: &chosen})
	if err != nil || updated.Password != chosen {
		t.Errorf("want the chosen password, got %q, %v", updated.Password, err)
	}
	updated, err = c.ServiceUsers.Update(ctx, "dev", "valkey", "app", aiven.ModifyServiceUserRequest{})
	if err != nil || !strings.HasPrefix(updated.Password, "AVNS_") {
		t.Errorf("want a generated password, got %q, %v", updated.Password, err)
	}

	if err := c.ServiceUsers.Delete(ctx, "dev", "valkey", "app"); err != nil {
		t.Fatal(err)
	}
	if err := c.ServiceUsers.Delete(ctx, "dev", "valkey", "app"); !aiven.IsNotFound(err) {
		t.Errorf("want not found, got %v", err)
	}
	if _, err := c.ServiceUsers.Get(ctx, "dev", "valkey", "app"); !aiven.IsNotFound(err) {
		t.Errorf("want not found, got %v", err)
	}
}

func TestClientKafkaUser(t *testing.T) {
	f := newFixture(t, aivensim.Options{ShowSecrets: true}) // RSA all through
	c := f.client(t)
	ctx := t.Context()

	created, err := c.ServiceUsers.Create(ctx, "dev", "kafka", aiven.CreateServiceUserRequest{Username: "app"})
	if err != nil {
		t.Fatal(err)
	}
	cert := verify(t, f.project.CA(), created.AccessCert, created.AccessKey)
	end := start.AddDate(0, 0, 820)
	if cert.Subject.String() != "CN=app,OU=kafka,O=dev" || !cert.NotAfter.Equal(end) || !created.AccessCertNotValidAfterTime.Equal(end) {
		t.Errorf("unexpected certificate: %s, until %s", cert.Subject, cert.NotAfter)
	}

	// A chosen password keeps certificate and key; a reset without one replaces both.
	chosen := "a-chosen-password"
	updated, err := c.ServiceUsers.Update(ctx, "dev", "kafka", "app", aiven.ModifyServiceUserRequest{NewPassword: &chosen})
	if err != nil || updated.AccessCert != created.AccessCert || updated.AccessKey != created.AccessKey {
		t.Errorf("want certificate and key kept, got %v", err)
	}
	updated, err = c.ServiceUsers.Update(ctx, "dev", "kafka", "app", aiven.ModifyServiceUserRequest{})
	if err != nil || updated.AccessCert == created.AccessCert || updated.AccessKey == created.AccessKey {
		t.Errorf("want certificate and key replaced, got %v", err)
	}
	verify(t, f.project.CA(), updated.AccessCert, updated.AccessKey)

	// A renewal leaves the password alone, and shows the end of the former certificate until it is acknowledged.
	f.pass(730 * 24 * time.Hour)
	if !f.kafka.RenewCertificate("app") {
		t.Fatal("want a renewal")
	}
	if got := f.do("GET", "/dev/service/kafka/user/app", "").at(t, "user", "expiring_cert_not_valid_after_time"); got != "2028-05-29T12:00:00Z" {
		t.Errorf("want the end of the former certificate, got %v", got)
	}
	acknowledge := "acknowledge-renewal"
	renewed, err := c.ServiceUsers.Update(ctx, "dev", "kafka", "app", aiven.ModifyServiceUserRequest{Operation: &acknowledge})
	if err != nil || renewed.Password != updated.Password || renewed.AccessKey == updated.AccessKey {
		t.Errorf("want a new key and the same password, got %v", err)
	}
	if got := f.do("GET", "/dev/service/kafka/user/app", "").at(t, "user", "expiring_cert_not_valid_after_time"); got != nil {
		t.Errorf("want nothing after the acknowledgement, got %v", got)
	}
}

func TestClientKafkaACLs(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.client(t)
	ctx := t.Context()

	created, err := c.KafkaACLs.Create(ctx, "dev", "kafka", aiven.CreateKafkaACLRequest{Permission: "read", Topic: "t-*", Username: "app"})
	if err != nil {
		t.Fatal(err)
	}
	if len(created.ID) != 14 || !strings.HasPrefix(created.ID, "acl") {
		t.Errorf("want acl and eleven digits, got %s", created.ID)
	}
	_, err = c.KafkaACLs.Create(ctx, "dev", "kafka", aiven.CreateKafkaACLRequest{Permission: "read", Topic: "t-*", Username: "app"})
	if !aiven.IsAlreadyExists(err) {
		t.Errorf("want already exists, got %v", err)
	}
	list, err := c.KafkaACLs.List(ctx, "dev", "kafka")
	if err != nil {
		t.Fatal(err)
	}
	want := []*aiven.KafkaACL{
		{ID: "default", Permission: "admin", Topic: "*", Username: "avnadmin"},
		{ID: created.ID, Permission: "read", Topic: "t-*", Username: "app"},
	}
	if d := cmp.Diff(want, list); d != "" {
		t.Error(d)
	}
	if err := c.KafkaACLs.Delete(ctx, "dev", "kafka", created.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.KafkaACLs.Delete(ctx, "dev", "kafka", created.ID); !aiven.IsNotFound(err) {
		t.Errorf("want not found, got %v", err)
	}
	wire := f.do("GET", "/dev/service/kafka/acl", "").must(t)
	if d := cmp.Diff(`{"acl":[{"id":"default","permission":"admin","topic":"*","username":"avnadmin"}]}`, wire.body); d != "" {
		t.Error(d)
	}
}

func TestClientOpenSearchACLs(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.client(t)
	ctx := t.Context()

	fresh, err := c.OpenSearchACLs.Get(ctx, "dev", "opensearch")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(aiven.OpenSearchACLConfig{ACLs: []aiven.OpenSearchACL{}}, fresh.OpenSearchACLConfig); d != "" {
		t.Error(d)
	}
	config := aiven.OpenSearchACLConfig{Enabled: true, ExtendedAcl: true, ACLs: []aiven.OpenSearchACL{
		{Username: "app", Rules: []aiven.OpenSearchACLRule{{Index: "_*", Permission: "read"}, {Index: "*", Permission: "read"}}},
		{Username: "app", Rules: []aiven.OpenSearchACLRule{}},
	}}
	if _, err := c.OpenSearchACLs.Update(ctx, "dev", "opensearch", aiven.OpenSearchACLRequest{OpenSearchACLConfig: config}); err != nil {
		t.Fatal(err)
	}
	got, err := c.OpenSearchACLs.Get(ctx, "dev", "opensearch")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(config, got.OpenSearchACLConfig); d != "" {
		t.Error(d)
	}
	// The zero value of the request switches access control off; its null list changes nothing.
	got, err = c.OpenSearchACLs.Update(ctx, "dev", "opensearch", aiven.OpenSearchACLRequest{})
	if err != nil || got.OpenSearchACLConfig.Enabled || len(got.OpenSearchACLConfig.ACLs) != 2 {
		t.Errorf("want it disabled with the same list, got %v, %v", got, err)
	}
}

// The tests below hold what this client is known to do where an answer is not the expected one: who builds on it has to
// be able to see the same here.

func TestClientRetries(t *testing.T) {
	tests := map[string]struct {
		answer   *aivensim.Answer
		method   string
		attempts int
	}{
		"tries eleven times when it is limited":         {aivensim.Error(429, "", "Rate limit 120 exceeded"), "GET", 11},
		"tries eleven times when Aiven is unavailable":  {aivensim.Error(503, "", "Service Unavailable"), "POST", 11},
		"tries eleven times for a backend out of sync":  {aivensim.Error(501, "", "Failed"), "GET", 11},
		"tries eleven times to create on a new service": {aivensim.Error(404, "", "Service kafka does not exist"), "POST", 11},
		"tries eleven times to delete with dependants":  {aivensim.Error(417, "", "Has dependent resources"), "DELETE", 11},
		"tries eleven times for the main component":     {aivensim.Error(404, "", "User avnadmin with component main not found"), "GET", 11},
		"gives up at once on another 404":               {aivensim.Error(404, "", "Service not found"), "POST", 1},
		"gives up at once on a read of no service":      {aivensim.Error(404, "", "Service kafka does not exist"), "GET", 1},
		"gives up at once without permission":           {aivensim.Error(403, "permission_denied", "Permission denied"), "GET", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			c := f.client(t)
			rule := f.sim.Inject(aivensim.Rule{Answer: tt.answer})
			var err error
			switch tt.method {
			case "GET":
				_, err = c.Services.Get(t.Context(), "dev", "kafka")
			case "POST":
				_, err = c.ServiceUsers.Create(t.Context(), "dev", "kafka", aiven.CreateServiceUserRequest{Username: "app"})
			case "DELETE":
				err = c.ServiceUsers.Delete(t.Context(), "dev", "kafka", "app")
			}
			if got := rule.Hits(); got != tt.attempts {
				t.Errorf("want %d attempts, got %d", tt.attempts, got)
			}
			var e aiven.Error
			known := errors.As(err, &e) && e.Status == tt.answer.Status
			if tt.attempts > 1 {
				var u *url.Error
				if known || !errors.As(err, &u) || !strings.Contains(u.Error(), "giving up after 11 attempt(s)") {
					t.Errorf("want the status lost, got %v", err)
				}
			} else if !known {
				t.Errorf("want status %d, got %v", tt.answer.Status, err)
			}
		})
	}
}

func TestClientKeepsTheStatusIfTold(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.client(t)
	r := c.Client.Transport.(*retryablehttp.RoundTripper).Client
	r.RetryMax, r.ErrorHandler = 1, retryablehttp.PassthroughErrorHandler
	f.sim.Inject(aivensim.Rule{Answer: aivensim.Error(503, "", "Service Unavailable")})
	_, err := c.CA.Get(t.Context(), "dev")
	if d := cmp.Diff(aiven.Error{Status: 503, Message: "Service Unavailable"}, err); d != "" {
		t.Error(d)
	}
}

// TestClientRepeatsACreate: the first attempt took effect and lost its answer, so the second one is refused.
func TestClientRepeatsACreate(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.client(t)
	f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Count: 1, Reset: true, Commit: true})
	_, err := c.ServiceUsers.Create(t.Context(), "dev", "kafka", aiven.CreateServiceUserRequest{Username: "app"})
	if !aiven.IsAlreadyExists(err) {
		t.Errorf("want already exists, got %v", err)
	}
	var got []aivensim.Entry
	for _, e := range f.sim.Journal() {
		got = append(got, aivensim.Entry{Request: e.Request, Status: e.Status, Lost: e.Lost})
	}
	create := aivensim.Request{
		Method: "POST", Operation: aivensim.ServiceUserCreate, Project: "dev", Service: "kafka", Username: "app",
		Query: "limit=999", // on every request
		Token: aivensim.TokenID("token"),
	}
	if d := cmp.Diff([]aivensim.Entry{{Request: create, Status: 200, Lost: true}, {Request: create, Status: 409}}, got); d != "" {
		t.Error(d)
	}
}

func TestClientPanicsOnAnEmptyObject(t *testing.T) {
	operation := aiven.UpdateOperationSetAccessControl
	tests := map[string]struct {
		call   func(*aiven.Client) error
		panics bool
	}{
		"panics when it lists users": {func(c *aiven.Client) error { _, err := c.ServiceUsers.List(t.Context(), "dev", "kafka"); return err }, true},
		"panics when it gets a user": {func(c *aiven.Client) error {
			_, err := c.ServiceUsers.Get(t.Context(), "dev", "kafka", "app")
			return err
		}, true},
		"panics when it updates a user": {func(c *aiven.Client) error {
			_, err := c.ServiceUsers.Update(t.Context(), "dev", "kafka", "app", aiven.ModifyServiceUserRequest{Operation: &operation})
			return err
		}, true},
		"panics when it lists ACLs": {func(c *aiven.Client) error { _, err := c.KafkaACLs.List(t.Context(), "dev", "kafka"); return err }, true},
		"returns no user and no error when it creates one": {func(c *aiven.Client) error {
			u, err := c.ServiceUsers.Create(t.Context(), "dev", "kafka", aiven.CreateServiceUserRequest{Username: "app"})
			if u != nil {
				t.Errorf("want no user, got %v", u)
			}
			return err
		}, false},
	}
	for name, tt := range tests {
		for _, body := range []string{`{}`, ``} {
			t.Run(name+" for "+body, func(t *testing.T) {
				f := newFixture(t, aivensim.Options{ECDSA: true})
				c := f.client(t)
				f.sim.Inject(aivensim.Rule{Answer: &aivensim.Answer{Status: 200, Body: body}})
				defer func() {
					if r := recover(); (r != nil) != tt.panics {
						t.Errorf("want panic %t, got %v", tt.panics, r)
					}
				}()
				if err := tt.call(c); err != nil {
					t.Errorf("want no error, got %v", err)
				}
			})
		}
	}
}

// TestClientLeaksABadBody: passwords and keys included.
func TestClientLeaksABadBody(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.client(t)
	f.sim.Inject(aivensim.Rule{Answer: &aivensim.Answer{
		Status: 200, Body: `{"service":{"service_uri_params":{"port":1},"users":[{"password":"AVNS_secret"}]}}`,
	}})
	_, err := c.Services.Get(t.Context(), "dev", "kafka")
	if err == nil || !strings.Contains(err.Error(), "AVNS_secret") {
		t.Errorf("want the secret in the error, got %v", err)
	}
}

// TestClientWaits: it obeys Retry-After in both forms, however long, and otherwise backs off as it likes.
func TestClientWaits(t *testing.T) {
	tests := map[string]struct {
		answer *aivensim.Answer
		want   time.Duration
	}{
		"waits its own time after a text":  {aivensim.TooManyRequests(28*time.Second, aivensim.RetryAfterText), time.Second},
		"waits as many seconds":            {aivensim.TooManyRequests(28*time.Second, aivensim.RetryAfterSeconds), 28 * time.Second},
		"waits until the date":             {aivensim.TooManyRequests(28*time.Second, aivensim.RetryAfterDate), 28 * time.Second},
		"waits for years":                  {aivensim.TooManyRequests(100*365*24*time.Hour, aivensim.RetryAfterSeconds), 100 * 365 * 24 * time.Hour},
		"waits when Aiven is unavailable":  {&aivensim.Answer{Status: 503, RetryAfter: &aivensim.RetryAfter{In: time.Minute, As: aivensim.RetryAfterSeconds}}, time.Minute},
		"waits its own time for a gateway": {&aivensim.Answer{Status: 504, RetryAfter: &aivensim.RetryAfter{In: time.Minute, As: aivensim.RetryAfterSeconds}}, time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			f.clock.SetTime(time.Now()) // a date is compared with the real time
			c := f.client(t)
			var waits []time.Duration
			r := c.Client.Transport.(*retryablehttp.RoundTripper).Client
			r.Backoff = func(least, most time.Duration, n int, rsp *http.Response) time.Duration {
				waits = append(waits, retryablehttp.DefaultBackoff(least, most, n, rsp))
				return 0
			}
			f.sim.Inject(aivensim.Rule{Count: 1, Answer: tt.answer})
			if _, err := c.CA.Get(t.Context(), "dev"); err != nil {
				t.Fatal(err)
			}
			if len(waits) != 1 || waits[0] > tt.want+time.Second || waits[0] < tt.want-10*time.Second {
				t.Errorf("want a wait of about %s, got %v", tt.want, waits)
			}
			early := 0
			if tt.answer.RetryAfter != nil {
				early = 1
			}
			if got := f.sim.Counters().EarlyRequests[aivensim.TokenID("token")]; got != early {
				t.Errorf("want %d early requests, got %d", early, got)
			}
		})
	}
}

// TestClientMeetsFaults has what the client makes of each way to break an answer that has taken effect, or could have.
func TestClientMeetsFaults(t *testing.T) {
	tests := map[string]struct {
		rule     aivensim.Rule
		lag      aivensim.Lag
		want     string // the beginning of the error
		attempts int
	}{
		"repeats a create that was reset, and is refused": {aivensim.Rule{Count: 1, Loss: aivensim.LossReset, Commit: true}, aivensim.Lag{}, "409: Identical ACL entry already exists", 2},
		"repeats a create that was lost before":           {aivensim.Rule{Count: 1, Loss: aivensim.LossReset}, aivensim.Lag{}, "", 2},
		"does not repeat after a cut body":                {aivensim.Rule{Loss: aivensim.LossCut}, aivensim.Lag{}, "200: failed to read response body", 1},
		"cannot read half a body":                         {aivensim.Rule{Truncate: true}, aivensim.Lag{}, "cannot unmarshal JSON", 1},
		"misses the entry that it made":                   {aivensim.Rule{}, aivensim.Lag{KafkaACL: time.Minute}, "created ACL not found from response ACL list", 1},
		"bears a slow answer":                             {aivensim.Rule{Delay: 1, Stall: 1, StallBody: 1, BytesPerSecond: 1e6}, aivensim.Lag{}, "", 1},
		"gives up on a commit that fails each time":       {aivensim.Rule{Commit: true, Answer: aivensim.Error(500, "", "No")}, aivensim.Lag{}, "Post", 11},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true, Lag: tt.lag})
			c := f.client(t)
			f.sim.Inject(tt.rule)
			_, err := c.KafkaACLs.Create(t.Context(), "dev", "kafka", aiven.CreateKafkaACLRequest{Permission: "read", Topic: "t", Username: "app"})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("want error %q, got %q", tt.want, got)
			}
			counters := f.sim.Counters()
			if n := counters.Requests[aivensim.ServiceKafkaACLAdd]; n != tt.attempts || counters.Repeats != n-1 {
				t.Errorf("want %d attempts, got %d, of which repeated: %d", tt.attempts, n, counters.Repeats)
			}
			if n := len(f.kafka.KafkaACLs()); n != 2 {
				t.Errorf("want the entry to exist once, got %d entries", n)
			}
		})
	}
}

// TestClientServiceQuirks: what is null is fine, and a number where a text is expected puts secrets into the error.
func TestClientServiceQuirks(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, ShowSecrets: true})
	c := f.client(t)
	config := f.valkey.Config()
	config.NullURI = true
	check := func(set aivensim.ServiceConfig) error {
		if err := f.valkey.SetConfig(set); err != nil {
			t.Fatal(err)
		}
		_, err := c.Services.Get(t.Context(), "dev", "valkey")
		return err
	}
	if err := check(config); err != nil {
		t.Errorf("want no error, got %v", err)
	}
	config.NumericPort = true
	if err := check(config); err == nil || !strings.Contains(err.Error(), password(t, f.valkey, "default")) {
		t.Errorf("want the password in the error, got %v", err)
	}
	f.sim.Adjust(func(s *aivensim.Settings) { s.Redaction = aivensim.RedactedNull })
	users, err := c.ServiceUsers.List(t.Context(), "dev", "openSearch")
	if !aiven.IsNotFound(err) {
		t.Errorf("want not found, got %v, %v", users, err)
	}
	users, err = c.ServiceUsers.List(t.Context(), "dev", "opensearch")
	if err != nil || users[0].Password != "" {
		t.Errorf("want an empty password, got %v, %v", users, err)
	}
}

func TestClientReadsErrors(t *testing.T) {
	tests := map[string]struct {
		answer *aivensim.Answer
		want   aiven.Error
	}{
		"drops all but the message":         {aivensim.Error(404, "service_not_found", "Service not found"), aiven.Error{Status: 404, Message: "Service not found"}},
		"reads no message from HTML":        {&aivensim.Answer{Status: 403, Body: "<html>"}, aiven.Error{Status: 403, Message: "failed to parse error response"}},
		"takes errors in a good answer":     {&aivensim.Answer{Status: 200, Body: `{"errors":[{"message":"No","status":409}]}`}, aiven.Error{Status: 409, Message: "No"}},
		"takes a status that is a text too": {&aivensim.Answer{Status: 400, Body: `{"errors":[{"message":"No","status":"400"}],"message":"No"}`}, aiven.Error{Status: 400, Message: "No"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			c := f.client(t)
			f.sim.Inject(aivensim.Rule{Answer: tt.answer})
			_, err := c.Services.Get(t.Context(), "dev", "kafka")
			if d := cmp.Diff(tt.want, err); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestClientEscapesPaths(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.client(t)
	f.kafka.AddUser(aivensim.User{Username: "a/b c"})
	if err := c.ServiceUsers.Delete(t.Context(), "dev", "kafka", "a/b c"); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.kafka.User("a/b c"); ok {
		t.Error("want the user gone")
	}
}

// TestClientMissesAUser: it looks for the user in the service that the change answers.
func TestClientMissesAUser(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	c := f.client(t)
	f.sim.SetLag(aivensim.Lag{ServiceGet: time.Minute})
	if _, err := c.ServiceUsers.Create(t.Context(), "dev", "valkey", aiven.CreateServiceUserRequest{Username: "app"}); err != nil {
		t.Fatal(err)
	}
	chosen := "a-chosen-password"
	_, err := c.ServiceUsers.Update(t.Context(), "dev", "valkey", "app", aiven.ModifyServiceUserRequest{NewPassword: &chosen})
	if err == nil || err.Error() != "user not found" {
		t.Errorf("want user not found, got %v", err)
	}
	if !f.sim.Authenticate("dev", "valkey", "app", chosen) {
		t.Error("want the change to have taken effect")
	}
}

func password(t *testing.T, s *aivensim.Service, username string) string {
	t.Helper()
	u, ok := s.User(username)
	if !ok {
		t.Fatalf("want user %s", username)
	}
	return u.Password
}

// verify checks that the certificate is signed by the CA for client authentication and fits the key.
func verify(t *testing.T, ca, cert, key string) *x509.Certificate {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		t.Fatal("want a CA")
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := pem.Decode([]byte(key)); b.Type != "PRIVATE KEY" {
		t.Errorf("want a PKCS#8 key, got %s", b.Type)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: pair.Leaf.NotBefore,
	})
	if err != nil {
		t.Error(err)
	}
	return pair.Leaf
}
