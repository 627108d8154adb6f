package aivensim_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

func TestSecrets(t *testing.T) {
	const hidden = "<redacted>"
	tests := map[string]struct {
		options      aivensim.Options
		token        aivensim.Token
		method, path string
		body         string
		user         []any // where the user is in the answer
		shown        bool
	}{
		"hides them from service get":             {method: "GET", path: "/dev/service/kafka", user: []any{"service", "users", 1}},
		"shows them to service get on demand":     {method: "GET", path: "/dev/service/kafka?include_secrets=true", user: []any{"service", "users", 1}, shown: true},
		"hides them from service list":            {method: "GET", path: "/dev/service", user: []any{"services", 0, "users", 1}},
		"shows them to service list on demand":    {method: "GET", path: "/dev/service?include_secrets=true", user: []any{"services", 0, "users", 1}, shown: true},
		"hides them from user get":                {method: "GET", path: "/dev/service/kafka/user/app", user: []any{"user"}},
		"shows them to user get on demand":        {method: "GET", path: "/dev/service/kafka/user/app?include_secrets=true", user: []any{"user"}, shown: true},
		"hides them if the demand is false":       {method: "GET", path: "/dev/service/kafka/user/app?include_secrets=false", user: []any{"user"}},
		"hides them from a modification":          {method: "PUT", path: "/dev/service/kafka/user/app?include_secrets=true", body: `{"operation":"reset-credentials"}`, user: []any{"service", "users", 1}},
		"hides them from a reset":                 {method: "PUT", path: "/dev/service/kafka/user/app/credentials/reset", user: []any{"service", "users", 1}},
		"shows them to user create":               {method: "POST", path: "/dev/service/kafka/user", body: `{"username":"other"}`, user: []any{"user"}, shown: true},
		"shows them to everybody as it did":       {options: aivensim.Options{ShowSecrets: true}, method: "GET", path: "/dev/service/kafka", user: []any{"service", "users", 1}, shown: true},
		"hides them from a token that reads only": {token: aivensim.Token{Secrets: aivensim.SecretsHidden}, method: "GET", path: "/dev/service/kafka?include_secrets=true", user: []any{"service", "users", 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.options.ECDSA = true
			f := newFixture(t, tt.options)
			f.kafka.AddUser(aivensim.User{Username: "app"})
			f.sim.SetToken("token", tt.token)
			r := f.do(tt.method, tt.path, tt.body).must(t)
			u := r.at(t, tt.user...).(map[string]any)
			truth, _ := f.kafka.User(u["username"].(string))
			want := []any{hidden, hidden, truth.AccessCert}
			if tt.shown {
				want = []any{truth.Password, truth.AccessKey, truth.AccessCert}
			}
			if d := cmp.Diff(want, []any{u["password"], u["access_key"], u["access_cert"]}); d != "" {
				t.Error(d)
			}
			if !tt.shown && (strings.Contains(r.body, "AVNS_") || strings.Contains(r.body, "PRIVATE KEY")) {
				t.Error("want no secret anywhere in the answer")
			}
		})
	}
}

func TestServiceURI(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.project.AddService("plain", aivensim.ServiceConfig{Type: aivensim.Valkey, NoTLS: true})
	f.project.AddService("pg", aivensim.ServiceConfig{Type: aivensim.PostgreSQL})
	f.project.AddService("young", aivensim.ServiceConfig{Type: aivensim.Valkey, NoComponents: true})
	tests := map[string]struct {
		service   string
		uri       string
		uriParams string
	}{
		"has no scheme for Kafka":       {"kafka", `^kafka-dev\.aivencloud\.com:\d+$`, "host port"},
		"has a password for OpenSearch": {"opensearch", `^https://avnadmin:AVNS_.{19}@opensearch-dev\.aivencloud\.com:\d+$`, "host password port user"},
		"has a password for Valkey":     {"valkey", `^valkeys://default:AVNS_.{19}@valkey-dev\.aivencloud\.com:\d+$`, "host password port ssl user"},
		"has another scheme for Valkey": {"plain", `^valkey://`, "host password port ssl user"},
		"has a database for PostgreSQL": {
			"pg", `^postgres://avnadmin:AVNS_.{19}@pg-dev\.aivencloud\.com:\d+/defaultdb\?sslmode=require$`, "dbname host password port sslmode user",
		},
		"is null while the service is built": {"young", ``, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, shown := range []bool{false, true} {
				r := f.do("GET", fmt.Sprintf("/dev/service/%s?include_secrets=%t", tt.service, shown), "").must(t)
				uri := r.at(t, "service", "service_uri")
				switch {
				case tt.uri == "":
					if uri != nil {
						t.Errorf("want null, got %v", uri)
					}
				case !shown && uri != "<redacted>", shown && !regexp.MustCompile(tt.uri).MatchString(uri.(string)):
					t.Errorf("unexpected service_uri %v", uri)
				}
				params, _ := r.at(t, "service", "service_uri_params").(map[string]any)
				var names []string
				for k, v := range params {
					names = append(names, k)
					if !shown && v != "<redacted>" {
						t.Errorf("want %s hidden, got %v", k, v)
					}
				}
				less := func(a, b string) bool { return a < b }
				if d := cmp.Diff(strings.Fields(tt.uriParams), names, cmpopts.SortSlices(less), cmpopts.EquateEmpty()); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

// TestLag: reads show a new user late, each in its own time; what is not read knows it at once.
func TestLag(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.sim.SetLag(aivensim.Lag{UserGet: 10 * time.Second, ServiceGet: 20 * time.Second, Credentials: 30 * time.Second})
	created := f.do("POST", "/dev/service/kafka/user", `{"username":"app"}`).must(t)
	f.sim.SetLag(aivensim.Lag{}) // concerns later users

	type view struct {
		status, listed             int
		password, key, cert, again bool
	}
	look := func() view {
		get := f.do("GET", "/dev/service/kafka/user/app?include_secrets=true", "")
		v := view{status: get.status}
		service := f.do("GET", "/dev/service/kafka?include_secrets=true", "").must(t)
		v.listed = len(service.at(t, "service", "users").([]any)) - 1
		v.again = f.do("POST", "/dev/service/kafka/user", `{"username":"app"}`).status == http.StatusConflict
		if get.status == http.StatusOK {
			v.password = get.at(t, "user", "password") != ""
			v.key = get.at(t, "user", "access_key") != ""
			v.cert = get.at(t, "user", "access_cert") != ""
		}
		return v
	}
	for _, field := range []string{"password", "access_key", "access_cert"} {
		if got := created.at(t, "user", field); got != "" {
			t.Errorf("want an empty %s at creation, got %v", field, got)
		}
	}
	got := []view{look()}
	for range 3 {
		f.pass(10 * time.Second)
		got = append(got, look())
	}
	want := []view{
		{status: 404, again: true},
		{status: 200, again: true},
		{status: 200, listed: 1, again: true},
		{status: 200, listed: 1, again: true, password: true, key: true, cert: true},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(view{})); d != "" {
		t.Error(d)
	}
	truth, _ := f.kafka.User("app")
	if !f.sim.Authenticate("dev", "kafka", "app", truth.Password) {
		t.Error("want a login")
	}
}

func TestLogin(t *testing.T) {
	tests := map[string]struct {
		change   func(fixture)
		password string
		want     bool
		shown    any // what the API answers as password
	}{
		"accepts the password":                     {func(fixture) {}, "first-password", true, "first-password"},
		"refuses another password":                 {func(fixture) {}, "other", false, "first-password"},
		"accepts a password that somebody changed": {func(f fixture) { f.valkey.SetPassword("app", "second-password") }, "second-password", true, "second-password"},
		"accepts a password changed inside the database, which the API does not know": {
			func(f fixture) { f.valkey.OverridePassword("app", "second-password") }, "second-password", true, nil,
		},
		"refuses a deleted user":       {func(f fixture) { f.valkey.DeleteUser("app") }, "first-password", false, nil},
		"refuses while powered off":    {func(f fixture) { f.valkey.SetState(aivensim.PowerOff) }, "first-password", false, nil},
		"refuses on a service removed": {func(f fixture) { f.project.RemoveService("valkey") }, "first-password", false, nil},
		"refuses on a service made anew": {
			func(f fixture) { f.project.AddService("valkey", aivensim.ServiceConfig{Type: aivensim.Valkey}) }, "first-password", false, nil,
		},
		"refuses in a project removed": {func(f fixture) { f.sim.RemoveProject("dev") }, "first-password", false, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true, ShowSecrets: true})
			f.valkey.AddUser(aivensim.User{Username: "app", Password: "first-password"})
			tt.change(f)
			if got := f.sim.Authenticate("dev", "valkey", "app", tt.password); got != tt.want {
				t.Errorf("want %t, got %t", tt.want, got)
			}
			if r := f.do("GET", "/dev/service/valkey/user/app", ""); r.status == http.StatusOK {
				if d := cmp.Diff(tt.shown, r.at(t, "user", "password")); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func TestComponents(t *testing.T) {
	tests := map[string]struct {
		config aivensim.ServiceConfig
		want   []string // component usage route method ca ssl, port counted from that of the URI, host
	}{
		"has one for Kafka": {aivensim.ServiceConfig{Type: aivensim.Kafka}, []string{
			"kafka primary dynamic certificate  true 0 s-dev.aivencloud.com",
		}},
		"has all for Kafka": {
			aivensim.ServiceConfig{Type: aivensim.Kafka, SASL: true, LetsEncryptSASL: true, SchemaRegistry: true, KafkaREST: true, KafkaConnect: true},
			[]string{
				"kafka primary dynamic certificate  true 0 s-dev.aivencloud.com",
				"kafka primary dynamic sasl  true 1 s-dev.aivencloud.com",
				"kafka primary dynamic sasl letsencrypt true 2 s-dev.aivencloud.com",
				"schema_registry primary dynamic   null 3 s-dev.aivencloud.com",
				"kafka_rest primary dynamic   null 4 s-dev.aivencloud.com",
				"kafka_connect primary dynamic   null 5 s-dev.aivencloud.com",
			},
		},
		"has another port without certificates": {aivensim.ServiceConfig{Type: aivensim.Kafka, SASL: true, NoCertificate: true}, []string{
			"kafka primary dynamic sasl  true 1 s-dev.aivencloud.com",
		}},
		"has dashboards for OpenSearch": {aivensim.ServiceConfig{Type: aivensim.OpenSearch}, []string{
			"opensearch primary dynamic   null 0 s-dev.aivencloud.com",
			"opensearch_dashboards primary dynamic   null 1 s-dev.aivencloud.com",
		}},
		"has no dashboards for OpenSearch": {aivensim.ServiceConfig{Type: aivensim.OpenSearch, NoDashboards: true}, []string{
			"opensearch primary dynamic   null 0 s-dev.aivencloud.com",
		}},
		"has a replica and a route for Valkey": {
			aivensim.ServiceConfig{Type: aivensim.Valkey, Replica: true, NoTLS: true, Routes: []string{"public"}},
			[]string{
				"valkey primary dynamic   false 0 s-dev.aivencloud.com",
				"valkey replica dynamic   false 0 replica.s-dev.aivencloud.com",
				"valkey primary public   false 0 public-s-dev.aivencloud.com",
				"valkey replica public   false 0 public-replica.s-dev.aivencloud.com",
			},
		},
		"has a pool of connections for PostgreSQL": {aivensim.ServiceConfig{Type: aivensim.PostgreSQL}, []string{
			"pg primary dynamic   null 0 s-dev.aivencloud.com",
			"pgbouncer primary dynamic   null 1 s-dev.aivencloud.com",
		}},
		"has none": {aivensim.ServiceConfig{Type: aivensim.Kafka, NoComponents: true}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, aivensim.Options{ECDSA: true})
			s := f.project.AddService("s", tt.config)
			if !tt.config.NoComponents {
				s.SetAddress("s-dev.aivencloud.com", 20_000)
			}
			var got []string
			for _, c := range f.do("GET", "/dev/service/s", "").must(t).at(t, "service", "components").([]any) {
				c := c.(map[string]any)
				word := func(k string) any {
					if v, ok := c[k]; ok {
						return v
					}
					return ""
				}
				ssl, _ := json.Marshal(c["ssl"])
				got = append(got, fmt.Sprint(c["component"], " ", c["usage"], " ", c["route"], " ", word("kafka_authentication_method"), " ",
					word("kafka_ssl_ca"), " ", string(ssl), " ", int(c["port"].(float64))-20_000, " ", c["host"]))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestComponentsChange(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	s := f.project.AddService("s", aivensim.ServiceConfig{Type: aivensim.Kafka, SASL: true, SchemaRegistry: true, KafkaREST: true, KafkaConnect: true})
	before := s.Components()
	byPort := cmpopts.SortSlices(func(a, b aivensim.Component) bool { return a.Port < b.Port })
	moved := false
	for range 20 { // a shuffle may leave everything in its place
		s.ShuffleComponents()
		moved = moved || !cmp.Equal(before, s.Components())
	}
	if d := cmp.Diff(before, s.Components(), byPort); d != "" || !moved {
		t.Errorf("want the same in another order: %s", d)
	}
	s.SetComponents(before[1:2])
	if d := cmp.Diff(before[1:2], s.Components()); d != "" {
		t.Error(d)
	}
	s.SetComponents(nil)
	r := f.do("GET", "/dev/service/s", "").must(t)
	if d := cmp.Diff([]any{[]any{}, nil}, []any{r.at(t, "service", "components"), r.at(t, "service", "service_uri")}); d != "" {
		t.Error(d)
	}
}

func TestCertificateOff(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.project.AddService("s", aivensim.ServiceConfig{Type: aivensim.Kafka, SASL: true, NoCertificate: true})
	u := f.do("POST", "/dev/service/s/user", `{"username":"app"}`).must(t).at(t, "user").(map[string]any)
	delete(u, "password")
	want := map[string]any{
		"username": "app", "type": "normal", "password_updated_time": "2026-03-01T12:00:00Z", "access_cert": "", "access_key": "",
	}
	if d := cmp.Diff(want, u); d != "" {
		t.Error(d)
	}
}

func TestCA(t *testing.T) {
	f := newFixture(t, aivensim.Options{}) // RSA
	first := f.project.CA()
	old := f.kafka.AddUser(aivensim.User{Username: "old"})
	f.project.RotateCA()
	both := f.project.CA()
	young := f.kafka.AddUser(aivensim.User{Username: "young"})
	f.project.RetireCAs()
	second := f.project.CA()

	verify(t, first, old.AccessCert, old.AccessKey)
	verify(t, both, old.AccessCert, old.AccessKey)
	verify(t, both, young.AccessCert, young.AccessKey)
	verify(t, second, young.AccessCert, young.AccessKey)
	if d := cmp.Diff(second+first, both); d != "" {
		t.Error(d)
	}
	for generation, text := range []string{first, second} {
		block, rest := pem.Decode([]byte(text))
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil || len(rest) > 0 {
			t.Fatalf("want one certificate, got %v", err)
		}
		name := regexp.MustCompile(fmt.Sprintf(`^CN=[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12} GEN %d Project CA$`, generation+1))
		if !name.MatchString(ca.Subject.String()) {
			t.Errorf("unexpected subject %s", ca.Subject)
		}
		got := []any{ca.IsCA, ca.MaxPathLen, ca.MaxPathLenZero, ca.KeyUsage, ca.SignatureAlgorithm, ca.NotBefore, ca.NotAfter}
		want := []any{true, 0, true, x509.KeyUsageCertSign | x509.KeyUsageCRLSign, x509.SHA384WithRSA, start, start.AddDate(10, 0, 0)}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	f.project.SetCA("# both\n\n" + first + "\n" + second)
	if got := f.do("GET", "/dev/kms/ca", "").must(t).at(t, "certificate"); got != "# both\n\n"+first+"\n"+second {
		t.Errorf("want the text as it was set, got %v", got)
	}
}

// TestReset checks the operation that the client of version 2 does not have.
func TestReset(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	before := f.kafka.AddUser(aivensim.User{Username: "app"})
	r := f.do("PUT", "/dev/service/kafka/user/app/credentials/reset", "").must(t)
	if got := []any{r.at(t, "message"), r.at(t, "service", "service_name")}; !cmp.Equal(got, []any{"updated", "kafka"}) {
		t.Errorf("want the service, got %v", got)
	}
	after, _ := f.kafka.User("app")
	if after.Password == before.Password || after.AccessKey == before.AccessKey || after.AccessCert == before.AccessCert || after.Generation != 2 {
		t.Error("want new credentials")
	}
	verify(t, f.project.CA(), after.AccessCert, after.AccessKey)
}

// TestAccessControl covers what the client of version 2 cannot send.
func TestAccessControl(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.do("POST", "/dev/service/valkey/user", `{"username":"app","access_control":{"redis_acl_keys":["k"],"valkey_acl_databases":["0"],"m3_group":null}}`).must(t)
	r := f.do("GET", "/dev/service/valkey/user/app", "").must(t)
	want := map[string]any{"valkey_acl_keys": []any{"k"}, "valkey_acl_databases": []any{"0"}}
	if d := cmp.Diff(want, r.at(t, "user", "access_control")); d != "" {
		t.Error(d)
	}
	f.valkey.SetAccessControl("app", aivensim.AccessControl{Channels: []string{}})
	if got := f.do("GET", "/dev/service/valkey/user/app", "").must(t).at(t, "user", "access_control"); got != nil {
		t.Errorf("want none, got %v", got)
	}
}

func TestNativeACLs(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	const path = "/dev/service/kafka/kafka/acl"
	added := f.do("POST", path, `{"principal":"User:app","operation":"Read","resource_type":"Topic","resource_name":"t","pattern_type":"LITERAL","permission_type":"ALLOW"}`).must(t)
	id := added.at(t, "acl", "id").(string)
	entry := map[string]any{
		"id": id, "principal": "User:app", "host": "*", "operation": "Read", "resource_type": "Topic", "resource_name": "t",
		"pattern_type": "LITERAL", "permission_type": "ALLOW",
	}
	if d := cmp.Diff(map[string]any{"acl": entry, "message": "added"}, added.object(t)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]any{"acl": entry}, f.do("GET", path+"/"+id, "").must(t).object(t)); d != "" {
		t.Error(d)
	}
	list := f.do("GET", path, "").must(t)
	if d := cmp.Diff([]any{entry}, list.at(t, "kafka_acl")); d != "" {
		t.Error(d)
	}
	if got := list.at(t, "acl").([]any); len(got) != 1 {
		t.Errorf("want Aiven's own entry too, got %v", got)
	}
	if d := cmp.Diff(`{"message":"deleted"}`, f.do("DELETE", path+"/"+id, "").must(t).body); d != "" {
		t.Error(d)
	}
	direct := f.kafka.AddKafkaNativeACL(aivensim.KafkaNativeACL{Principal: "User:b"})
	if got := f.kafka.KafkaNativeACLs(); !cmp.Equal(got, []aivensim.KafkaNativeACL{direct}) || !f.kafka.DeleteKafkaNativeACL(direct.ID) {
		t.Errorf("want the entry added directly, got %v", got)
	}
}

func TestOpenSearchACLs(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	const path = "/dev/service/opensearch/opensearch/acl"
	f.openSearch.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{ACLs: []aivensim.OpenSearchACL{
		{Username: "other", Rules: []aivensim.OpenSearchRule{{Index: "*", Permission: "deny"}}},
	}})
	r := f.do("PUT", path, `{"opensearch_acl_config":{"enabled":true}}`).must(t)
	want := `{"message":"updated","opensearch_acl_config":{"acls":[{"rules":[{"index":"*","permission":"deny"}],"username":"other"}],"enabled":true}}`
	if d := cmp.Diff(want, r.body); d != "" {
		t.Error(d)
	}
	f.do("POST", path, `{"opensearch_acl_config":{"enabled":false,"acls":[]}}`).must(t)
	if d := cmp.Diff(aivensim.OpenSearchACLConfig{ACLs: []aivensim.OpenSearchACL{}}, f.openSearch.OpenSearchACLs()); d != "" {
		t.Error(d)
	}
}

// TestOrphans: entries that name a user outlive it, and a foreign entry can be taken away.
func TestOrphans(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.kafka.AddUser(aivensim.User{Username: "app"})
	entry := f.kafka.AddKafkaACL(aivensim.KafkaACL{Permission: "read", Topic: "t", Username: "app"})
	f.do("DELETE", "/dev/service/kafka/user/app", "").must(t)
	if got := f.kafka.KafkaACLs(); len(got) != 2 || got[1] != entry {
		t.Errorf("want the entry kept, got %v", got)
	}
	if !f.kafka.DeleteKafkaACL(entry.ID) || f.kafka.DeleteKafkaACL(entry.ID) {
		t.Error("want the entry deleted once")
	}
}

func TestRules(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	address := "http://" + f.serve(t)
	send := func(user string) int {
		body := strings.NewReader(`{"username":"` + user + `"}`)
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/v1/project/dev/service/valkey/user", body)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", bearer)
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			return 0
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	exists := func(user string) bool { _, ok := f.valkey.User(user); return ok }
	var seen []aivensim.Request

	tests := map[string]struct {
		rule   aivensim.Rule
		status int // 0: no answer
		exists bool
	}{
		"changes nothing":                        {aivensim.Rule{}, 200, true},
		"answers instead":                        {aivensim.Rule{Answer: aivensim.Error(500, "", "No")}, 500, false},
		"answers afterwards":                     {aivensim.Rule{Answer: aivensim.Error(500, "", "No"), Commit: true}, 500, true},
		"closes before":                          {aivensim.Rule{Reset: true}, 0, false},
		"closes afterwards":                      {aivensim.Rule{Reset: true, Commit: true}, 0, true},
		"delays":                                 {aivensim.Rule{Delay: time.Millisecond}, 200, true},
		"matches a pattern":                      {aivensim.Rule{Operation: aivensim.ServiceUserCreate, Project: "d*", Service: "valkey", Username: "app-?", Answer: aivensim.Error(500, "", "No")}, 500, false},
		"does not match another operation":       {aivensim.Rule{Operation: aivensim.ServiceUserGet, Reset: true}, 200, true},
		"does not match another user":            {aivensim.Rule{Username: "ap", Reset: true}, 200, true},
		"does not match another service":         {aivensim.Rule{Service: "kafka", Reset: true}, 200, true},
		"calls back, where the Go API works too": {aivensim.Rule{Before: func(r aivensim.Request) { seen = append(seen, r); f.valkey.AddUser(aivensim.User{Username: "app-1"}) }}, 409, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f.valkey.DeleteUser("app-1")
			f.sim.ClearRules()
			f.sim.Inject(tt.rule)
			if got := send("app-1"); got != tt.status {
				t.Errorf("want status %d, got %d", tt.status, got)
			}
			if got := exists("app-1"); got != tt.exists {
				t.Errorf("want the user to exist: %t, got %t", tt.exists, got)
			}
		})
	}
	want := []aivensim.Request{{Method: "POST", Operation: aivensim.ServiceUserCreate, Project: "dev", Service: "valkey", Username: "app-1", Token: aivensim.TokenID("token")}}
	if d := cmp.Diff(want, seen); d != "" {
		t.Error(d)
	}

	t.Run("ends after its count, and then the next rule applies", func(t *testing.T) {
		f.sim.ClearRules()
		first := f.sim.Inject(aivensim.Rule{Count: 2, Answer: aivensim.Error(500, "", "No")})
		second := f.sim.Inject(aivensim.Rule{Answer: aivensim.Error(503, "", "No")})
		got := []int{send("x"), send("x"), send("x")}
		second.Remove()
		got = append(got, send("x"))
		if d := cmp.Diff([]int{500, 500, 503, 200}, got); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]int{2, 1}, []int{first.Hits(), second.Hits()}); d != "" {
			t.Error(d)
		}
	})
}

// TestGivingUp: a request whose client goes away while it waits does not take effect.
func TestGivingUp(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, Latency: time.Hour})
	address := f.serve(t)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/project/dev/service/valkey/user", strings.NewReader(`{"username":"app"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", bearer)
	c := http.Client{Timeout: 50 * time.Millisecond}
	if r, err := c.Do(q); err == nil {
		_ = r.Body.Close()
		t.Fatal("want a timeout")
	}
	await(t, func() bool { return f.sim.Counters().InFlight == 0 })
	if _, ok := f.valkey.User("app"); ok {
		t.Error("want no user")
	}
	if got := f.sim.Journal(); len(got) != 1 || got[0].Status != 0 || !got[0].Lost {
		t.Errorf("want one lost request, got %+v", got)
	}
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			t.Fatal("gave up waiting")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestSeed: the same seed gives the same passwords and ids.
func TestSeed(t *testing.T) {
	run := func(seed uint64) []any {
		f := newFixture(t, aivensim.Options{ECDSA: true, Seed: seed})
		f.do("POST", "/dev/service/valkey/user", `{"username":"app"}`).must(t)
		return []any{f.valkey.Users(), f.valkey.Components(), f.kafka.AddKafkaACL(aivensim.KafkaACL{})}
	}
	if d := cmp.Diff(run(1), run(1)); d != "" {
		t.Error(d)
	}
	if cmp.Equal(run(1), run(2)) {
		t.Error("want a difference between two seeds")
	}
	f := newFixture(t, aivensim.Options{ECDSA: true})
	again := f.project.AddService("valkey", aivensim.ServiceConfig{Type: aivensim.Valkey})
	if password(t, f.valkey, "default") == password(t, again, "default") {
		t.Error("want other passwords after a service was made anew")
	}
}

// TestConcurrency lets everything happen at once; the race detector watches, and in the end the books have to agree.
func TestConcurrency(t *testing.T) {
	const workers, each = 4, 8
	f := newFixture(t, aivensim.Options{ECDSA: true, UserLimit: -1})
	errs := make(chan string, workers*each*10)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("app-%d-%d", w, i)
				for _, c := range [][3]string{
					{"POST", "/dev/service/kafka/user", `{"username":"` + name + `"}`},
					{"POST", "/dev/service/kafka/acl", `{"permission":"read","topic":"t","username":"` + name + `"}`},
					{"GET", "/dev/service/kafka?include_secrets=true", ""},
					{"GET", "/dev/service", ""},
					{"GET", "/dev/service/kafka/user/" + name, ""},
					{"PUT", "/dev/service/kafka/user/" + name, `{"operation":"reset-credentials"}`},
				} {
					if r := f.do(c[0], c[1], c[2]); r.status != http.StatusOK || !json.Valid([]byte(r.body)) {
						errs <- r.body
					}
				}
				f.kafka.ShuffleComponents()
				if i%2 == 0 {
					f.do("DELETE", "/dev/service/kafka/user/"+name, "")
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for e := range errs {
		t.Error(e)
	}
	users, acls := f.kafka.Users(), f.kafka.KafkaACLs()
	if len(users) != 1+workers*each/2 || len(acls) != 1+workers*each {
		t.Errorf("want %d users and %d entries, got %d and %d", 1+workers*each/2, 1+workers*each, len(users), len(acls))
	}
	for _, u := range users[1:] {
		if u.Generation != 2 {
			t.Errorf("want generation 2 of %s, got %d", u.Username, u.Generation)
		}
	}
}

func TestDuplicateCreatesRace(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true, UserLimit: 1})
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	for i := range 8 {
		wg.Go(func() {
			r := f.do("POST", "/dev/service/kafka/user", fmt.Sprintf(`{"username":"app-%d"}`, i%2))
			mu.Lock()
			defer mu.Unlock()
			got[r.status]++
		})
	}
	wg.Wait()
	if d := cmp.Diff(map[int]int{200: 1, 400: 4, 409: 3}, got); d != "" {
		t.Error(d)
	}
}

// BenchmarkServiceGet reads a whole Kafka service with 1,000 users, as most reads under load do.
func BenchmarkServiceGet(b *testing.B) {
	sim := aivensim.New(aivensim.Options{KeySize: 2048, ECDSA: true})
	s := sim.AddProject("dev").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
	for i := range 1_000 {
		s.AddUser(aivensim.User{Username: fmt.Sprintf("app-%d", i)})
	}
	server := httptest.NewServer(sim)
	defer server.Close()
	q, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/v1/project/dev/service/kafka?include_secrets=true", nil)
	if err != nil {
		b.Fatal(err)
	}
	q.Header.Set("Authorization", bearer)
	buffer := bytes.NewBuffer(make([]byte, 0, 8<<20))
	for b.Loop() {
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			b.Fatal(err)
		}
		buffer.Reset()
		if _, err := buffer.ReadFrom(r.Body); err != nil {
			b.Fatal(err)
		}
		_ = r.Body.Close()
	}
	b.SetBytes(int64(buffer.Len()))
}

// BenchmarkUserCreate creates Kafka users: the cost is the signature.
func BenchmarkUserCreate(b *testing.B) {
	for name, ecdsa := range map[string]bool{"RSA": false, "ECDSA": true} {
		b.Run(name, func(b *testing.B) {
			sim := aivensim.New(aivensim.Options{ECDSA: ecdsa})
			s := sim.AddProject("dev").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
			for range 4 { // fills the key pool
				s.AddUser(aivensim.User{Username: "app"})
			}
			for b.Loop() {
				s.AddUser(aivensim.User{Username: "app"})
			}
		})
	}
}
