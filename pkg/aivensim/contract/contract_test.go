// Package contract tests the simulator of the Aiven API with Aiven's generated client, whose types come from the OpenAPI
// document. It is a module of its own, so that nothing else depends on that client.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	classic "github.com/aiven/aiven-go-client/v2"
	aiven "github.com/aiven/go-client-codegen"
	"github.com/aiven/go-client-codegen/handler/kafka"
	"github.com/aiven/go-client-codegen/handler/opensearch"
	"github.com/aiven/go-client-codegen/handler/service"
	"github.com/google/go-cmp/cmp"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// secrets asks a read for passwords and keys.
var secrets = [2]string{"include_secrets", "true"}

type fixture struct {
	aiven.Client
	sim                       *aivensim.Simulator
	kafka, openSearch, valkey *aivensim.Service
	url                       string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{sim: aivensim.New(aivensim.Options{KeySize: 2048, ECDSA: true, UserLimit: -1})}
	p := f.sim.AddProject("dev")
	f.kafka = p.AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, SASL: true, SchemaRegistry: true, Routes: []string{"privatelink"}})
	f.openSearch = p.AddService("opensearch", aivensim.ServiceConfig{Type: aivensim.OpenSearch})
	f.valkey = p.AddService("valkey", aivensim.ServiceConfig{Type: aivensim.Valkey, Replica: true})
	server := httptest.NewServer(f.sim)
	t.Cleanup(server.Close)
	f.url = server.URL
	var err error
	if f.Client, err = aiven.NewClient(aiven.TokenOpt("token"), aiven.HostOpt(server.URL), aiven.DoerOpt(server.Client())); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestProjects(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	list, err := f.ProjectList(ctx) //nolint:staticcheck // deprecated in favour of organizations, and works
	check(t, err)
	if len(list.Projects) != 1 || list.Projects[0].ProjectName != "dev" || list.ProjectMembership["dev"] != "admin" ||
		!cmp.Equal(list.ProjectMemberships["dev"], []string{"admin"}) {
		t.Errorf("unexpected list: %+v", list)
	}
	p, err := f.ProjectGet(ctx, "dev") //nolint:staticcheck // likewise
	check(t, err)
	if p.ProjectName != "dev" {
		t.Errorf("unexpected project: %+v", p)
	}
	ca, err := f.ProjectKmsGetCA(ctx, "dev")
	check(t, err)
	if d := cmp.Diff(f.sim.Project("dev").CA(), ca); d != "" {
		t.Error(d)
	}
}

func TestServices(t *testing.T) {
	f := newFixture(t)
	list, err := f.ServiceList(t.Context(), "dev", secrets)
	check(t, err)
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprint(s.ServiceType, " ", s.State, " ", s.Users[0].Username))
	}
	want := []string{"kafka RUNNING avnadmin", "opensearch RUNNING avnadmin", "valkey RUNNING default"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, s := range []*aivensim.Service{f.kafka, f.openSearch, f.valkey} {
		got, err := f.ServiceGet(t.Context(), "dev", s.Name(), secrets)
		check(t, err)
		if got.ServiceUriParams["port"] != fmt.Sprint(s.Components()[0].Port) || len(got.Components) != len(s.Components()) {
			t.Errorf("unexpected service: %+v", got)
		}
	}
}

func TestUsers(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	categories, keys := []string{"-@all", "+@read"}, []string{"*"}
	rights := &service.AccessControlIn{ValkeyAclCategories: &categories, ValkeyAclKeys: &keys, ValkeyAclChannels: &[]string{}}
	created, err := f.ServiceUserCreate(ctx, "dev", "valkey", &service.ServiceUserCreateIn{Username: "app", AccessControl: rights})
	check(t, err)
	want := &service.AccessControlOut{ValkeyAclCategories: categories, ValkeyAclKeys: keys}
	if d := cmp.Diff(want, created.AccessControl); d != "" {
		t.Error(d)
	}
	got, err := f.ServiceUserGet(ctx, "dev", "valkey", "app", secrets)
	check(t, err)
	if d := cmp.Diff(service.ServiceUserGetOut(*created), *got); d != "" {
		t.Error(d)
	}
	hidden, err := f.ServiceUserGet(ctx, "dev", "valkey", "app")
	check(t, err)
	if hidden.Password != "<redacted>" {
		t.Error("want the password hidden")
	}
	_, err = f.ServiceUserCreate(ctx, "dev", "valkey", &service.ServiceUserCreateIn{Username: "app"})
	if !aiven.IsAlreadyExists(err) {
		t.Errorf("want already exists, got %v", err)
	}

	modified, err := f.ServiceUserCredentialsModify(ctx, "dev", "valkey", "app", &service.ServiceUserCredentialsModifyIn{
		Operation: service.ServiceUserCredentialsModifyOperationTypeSetAccessControl, AccessControl: &service.AccessControlIn{ValkeyAclKeys: &keys},
	})
	check(t, err)
	if d := cmp.Diff(&service.AccessControlOut{ValkeyAclKeys: keys}, modified.Users[1].AccessControl); d != "" {
		t.Error(d)
	}
	chosen := "a-chosen-password"
	_, err = f.ServiceUserCredentialsModify(ctx, "dev", "valkey", "app", &service.ServiceUserCredentialsModifyIn{
		Operation: service.ServiceUserCredentialsModifyOperationTypeResetCredentials, NewPassword: &chosen,
	})
	check(t, err)
	if !f.sim.Authenticate("dev", "valkey", "app", chosen) {
		t.Error("want a login with the chosen password")
	}
	_, err = f.ServiceUserCredentialsReset(ctx, "dev", "valkey", "app")
	check(t, err)
	got, err = f.ServiceUserGet(ctx, "dev", "valkey", "app", secrets)
	check(t, err)
	if got.Password == chosen || !f.sim.Authenticate("dev", "valkey", "app", got.Password) {
		t.Error("want a login with a generated password")
	}
	check(t, f.ServiceUserDelete(ctx, "dev", "valkey", "app"))
	if err := f.ServiceUserDelete(ctx, "dev", "valkey", "app"); !aiven.IsNotFound(err) {
		t.Errorf("want not found, got %v", err)
	}
	f.valkey.AddUser(aivensim.User{Username: "a/b"})
	if got, err := f.ServiceUserGet(ctx, "dev", "valkey", "a/b"); err != nil || got.Username != "a/b" {
		t.Errorf("want the user with a slash, got %v", err)
	}
}

func TestRenewal(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	created, err := f.ServiceUserCreate(ctx, "dev", "kafka", &service.ServiceUserCreateIn{Username: "app"})
	check(t, err)
	f.kafka.RenewCertificate("app")
	renewed, err := f.ServiceUserGet(ctx, "dev", "kafka", "app", secrets)
	check(t, err)
	if *renewed.AccessKey == *created.AccessKey || !cmp.Equal(renewed.ExpiringCertNotValidAfterTime, created.AccessCertNotValidAfterTime) {
		t.Error("want another key and the end of the former certificate")
	}
	_, err = f.ServiceUserCredentialsModify(ctx, "dev", "kafka", "app", &service.ServiceUserCredentialsModifyIn{
		Operation: service.ServiceUserCredentialsModifyOperationTypeAcknowledgeRenewal,
	})
	check(t, err)
	got, err := f.ServiceUserGet(ctx, "dev", "kafka", "app", secrets)
	check(t, err)
	if got.ExpiringCertNotValidAfterTime != nil || *got.AccessKey != *renewed.AccessKey {
		t.Error("want the renewal acknowledged")
	}
}

func TestKafkaACLs(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	in := &kafka.ServiceKafkaAclAddIn{Permission: kafka.PermissionTypeRead, Topic: "t-*", Username: "app"}
	added, err := f.ServiceKafkaAclAdd(ctx, "dev", "kafka", in)
	check(t, err)
	if len(added) != 2 || added[1].Topic != "t-*" {
		t.Fatalf("want the new entry last, got %+v", added)
	}
	if _, err := f.ServiceKafkaAclAdd(ctx, "dev", "kafka", in); !aiven.IsAlreadyExists(err) {
		t.Errorf("want already exists, got %v", err)
	}
	list, err := f.ServiceKafkaAclList(ctx, "dev", "kafka")
	check(t, err)
	if len(list) != 2 || *list[1].Id != added[1].Id {
		t.Errorf("want both entries, got %+v", list)
	}
	left, err := f.ServiceKafkaAclDelete(ctx, "dev", "kafka", added[1].Id)
	check(t, err)
	if len(left) != 1 {
		t.Errorf("want one entry left, got %+v", left)
	}
	if _, err := f.ServiceKafkaAclDelete(ctx, "dev", "kafka", added[1].Id); !aiven.IsNotFound(err) {
		t.Errorf("want not found, got %v", err)
	}
}

func TestKafkaNativeACLs(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	in := &kafka.ServiceKafkaNativeAclAddIn{
		Operation: kafka.OperationTypeRead, PatternType: kafka.PatternTypeLiteral, PermissionType: kafka.ServiceKafkaNativeAclPermissionTypeAllow,
		Principal: "User:app", ResourceName: "t", ResourceType: kafka.ResourceTypeTopic,
	}
	added, err := f.ServiceKafkaNativeAclAdd(ctx, "dev", "kafka", in)
	check(t, err)
	got, err := f.ServiceKafkaNativeAclGet(ctx, "dev", "kafka", added.Id)
	check(t, err)
	if d := cmp.Diff(kafka.ServiceKafkaNativeAclGetOut(*added), *got); d != "" || got.Host != "*" {
		t.Error(d)
	}
	if _, err := f.ServiceKafkaNativeAclAdd(ctx, "dev", "kafka", in); !aiven.IsAlreadyExists(err) {
		t.Errorf("want already exists, got %v", err)
	}
	list, err := f.ServiceKafkaNativeAclList(ctx, "dev", "kafka")
	check(t, err)
	if len(list.Acl) != 1 || len(list.KafkaAcl) != 1 || list.KafkaAcl[0].Id != added.Id {
		t.Errorf("want one entry of each kind, got %+v", list)
	}
	check(t, f.ServiceKafkaNativeAclDelete(ctx, "dev", "kafka", added.Id))
	if _, err := f.ServiceKafkaNativeAclGet(ctx, "dev", "kafka", added.Id); !aiven.IsNotFound(err) {
		t.Errorf("want not found, got %v", err)
	}
}

func TestOpenSearchACLs(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	fresh, err := f.ServiceOpenSearchAclGet(ctx, "dev", "opensearch")
	check(t, err)
	if d := cmp.Diff(&opensearch.ServiceOpenSearchAclGetOut{Acls: []opensearch.AclOut{}}, fresh); d != "" {
		t.Error(d)
	}
	rules := []opensearch.RuleIn{{Index: "logs-*", Permission: opensearch.PermissionTypeReadwrite}}
	acls := []opensearch.AclIn{{Username: "app", Rules: rules}}
	set, err := f.ServiceOpenSearchAclSet(ctx, "dev", "opensearch", &opensearch.ServiceOpenSearchAclSetIn{
		OpensearchAclConfig: opensearch.OpensearchAclConfigIn{Enabled: true, Acls: acls},
	})
	check(t, err)
	want := opensearch.ServiceOpenSearchAclSetOut{Enabled: true, Acls: []opensearch.AclOut{
		{Username: "app", Rules: []opensearch.RuleOut{{Index: "logs-*", Permission: opensearch.PermissionTypeReadwrite}}},
	}}
	if d := cmp.Diff(want, *set); d != "" {
		t.Error(d)
	}
	off := false
	updated, err := f.ServiceOpenSearchAclUpdate(ctx, "dev", "opensearch", &opensearch.ServiceOpenSearchAclUpdateIn{
		OpensearchAclConfig: opensearch.ServiceOpenSearchAclUpdateOpensearchAclConfigIn{Enabled: &off},
	})
	check(t, err)
	want.Enabled = false
	if d := cmp.Diff(opensearch.ServiceOpenSearchAclUpdateOut(want), *updated); d != "" {
		t.Error(d)
	}
}

func TestErrors(t *testing.T) {
	f := newFixture(t)
	f.sim.SetToken("token", aivensim.Token{Secrets: aivensim.SecretsForbidden})
	f.openSearch.SetState(aivensim.PowerOff)
	tests := map[string]struct {
		call func() error
		want aiven.Error
	}{
		"keeps the code of a permission": {
			func() error { _, err := f.ServiceGet(t.Context(), "dev", "kafka", secrets); return err },
			aiven.Error{OperationID: "ServiceGet", Status: 403, Message: "Permission denied", Errors: failure(403, "permission_denied", "Permission denied")},
		},
		"keeps the code of a state": {
			func() error { return f.ServiceUserDelete(t.Context(), "dev", "opensearch", "app") },
			aiven.Error{OperationID: "ServiceUserDelete", Status: 409, Message: "Service is not powered", Errors: failure(409, "not_powered", "Service is not powered")},
		},
		"keeps a text without a code": {
			func() error { _, err := f.ServiceUserGet(t.Context(), "dev", "kafka", "app"); return err },
			aiven.Error{OperationID: "ServiceUserGet", Status: 404, Message: "User 'app' does not exist", Errors: failure(404, "", "User 'app' does not exist")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got aiven.Error
			if err := tt.call(); !errors.As(err, &got) {
				t.Fatalf("want an error of the API, got %v", err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// failure is the errors of an answer as the client decodes them.
func failure(status int, code, message string) any {
	e := map[string]any{"status": float64(status), "message": message}
	if code != "" {
		e["error_code"] = code
	}
	return []any{e}
}

// TestSchema: no answer has a field that the OpenAPI document does not know.
func TestSchema(t *testing.T) {
	f := newFixture(t)
	f.kafka.AddUser(aivensim.User{Username: "app"})
	f.kafka.RenewCertificate("app")
	f.kafka.AddKafkaNativeACL(aivensim.KafkaNativeACL{Principal: "User:app"})
	f.valkey.AddUser(aivensim.User{Username: "app", AccessControl: aivensim.AccessControl{Keys: []string{"*"}, Databases: []string{"0"}}})
	var one struct {
		Service service.ServiceGetOut `json:"service"`
	}
	var all struct {
		Services []service.ServiceOut `json:"services"`
	}
	var user struct {
		User service.ServiceUserGetOut `json:"user"`
	}
	tests := map[string]struct {
		path string
		into any
	}{
		"fits for Kafka":           {"/service/kafka", &one},
		"fits for OpenSearch":      {"/service/opensearch", &one},
		"fits for Valkey":          {"/service/valkey", &one},
		"fits for the list":        {"/service", &all},
		"fits for a Kafka user":    {"/service/kafka/user/app", &user},
		"fits for a Valkey user":   {"/service/valkey/user/app", &user},
		"fits for a built-in user": {"/service/opensearch/user/avnadmin", &user},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			body := f.read(t, tt.path)
			defer body.Close()
			d := json.NewDecoder(body)
			d.DisallowUnknownFields()
			check(t, d.Decode(tt.into))
		})
	}
}

// TestScale reads services with many users through the types of both clients, which have to see the same.
func TestScale(t *testing.T) {
	tests := map[string]struct {
		kind  aivensim.ServiceType
		users int
		long  bool
	}{
		"reads 1 user":               {aivensim.Kafka, 1, false},
		"reads 50 users":             {aivensim.Kafka, 50, false},
		"reads 1,000 users":          {aivensim.Kafka, 1_000, false},
		"reads 10,000 users without": {aivensim.Valkey, 10_000, true}, // certificates
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.long && testing.Short() {
				t.Skip("long")
			}
			f := newFixture(t)
			s := f.sim.Project("dev").AddService("s", aivensim.ServiceConfig{Type: tt.kind})
			for i := range tt.users {
				s.AddUser(aivensim.User{Username: fmt.Sprintf("app-%05d", i), AccessControl: aivensim.AccessControl{Keys: []string{"*"}}})
			}
			var want []credentials
			for _, u := range s.Users() {
				want = append(want, credentialsOf(u.Username, u.Password, &u.AccessCert, &u.AccessKey, &u.NotAfter))
			}

			generated, err := f.ServiceGet(t.Context(), "dev", "s", secrets)
			check(t, err)
			var got []credentials
			for _, u := range generated.Users {
				got = append(got, credentialsOf(u.Username, u.Password, u.AccessCert, u.AccessKey, u.AccessCertNotValidAfterTime))
			}
			if !slices.Equal(want, got) {
				t.Error("want the same users from the generated client")
			}

			var old classic.ServiceResponse
			body := f.read(t, "/service/s")
			defer body.Close()
			check(t, json.NewDecoder(body).Decode(&old))
			got = nil
			for _, u := range old.Service.Users {
				got = append(got, credentialsOf(u.Username, u.Password, &u.AccessCert, &u.AccessKey, u.AccessCertNotValidAfterTime))
			}
			if !slices.Equal(want, got) {
				t.Error("want the same users from the client of version 2")
			}
		})
	}
}

// credentials is what both clients know of a user.
type credentials struct {
	username, password, cert, key string
	end                           time.Time
}

func credentialsOf(username, password string, cert, key *string, end *time.Time) credentials {
	c := credentials{username: username, password: password}
	if cert != nil && key != nil {
		c.cert, c.key = *cert, *key
	}
	if end != nil {
		c.end = *end
	}
	return c
}

// read returns the body of a read in project dev, secrets shown.
func (f fixture) read(t *testing.T, path string) io.ReadCloser {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/v1/project/dev"+path+"?include_secrets=true", nil)
	check(t, err)
	q.Header.Set("Authorization", "Bearer token")
	r, err := http.DefaultClient.Do(q)
	check(t, err)
	return r.Body
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
