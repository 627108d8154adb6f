package aivensim_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// TestErrors has a case for each error that the API is known to give.
func TestErrors(t *testing.T) {
	const (
		acl    = `{"permission":"read","topic":"t","username":"app"}`
		native = `{"principal":"User:app","operation":"Read","resource_type":"Topic","resource_name":"t","pattern_type":"LITERAL","permission_type":"ALLOW"}`
		user   = `{"username":"app"}`
	)
	always := func(a *aivensim.Answer) func(fixture) {
		return func(f fixture) { f.sim.Inject(aivensim.Rule{Answer: a}) }
	}
	config := func(c aivensim.ServiceConfig) func(fixture) {
		return func(f fixture) { f.project.AddService(string(c.Type), c) }
	}
	tests := map[string]struct {
		options       aivensim.Options
		prepare       func(fixture)
		authorization string // default: bearer; "-": none
		method, path  string
		body          string
		status        int
		code, message string
	}{
		"refuses a body that is not JSON": {
			method: "POST", path: "/dev/service/kafka/user", body: `{`,
			status: 400, message: "Invalid input: the body is not valid JSON",
		},
		"refuses a value of another type": {
			method: "POST", path: "/dev/service/kafka/user", body: `{"username":1}`,
			status: 400, message: "Invalid input: number is not of type string: username",
		},
		"refuses a user name that breaks the rule": {
			method: "POST", path: "/dev/service/kafka/user", body: `{"username":"-app"}`,
			status: 400, message: "Invalid input: '-app' does not match '^[_A-Za-z0-9][-._A-Za-z0-9]{0,63}$': username",
		},
		"refuses a user name of 65 characters": {
			method: "POST", path: "/dev/service/kafka/user", body: `{"username":"` + strings.Repeat("a", 65) + `"}`,
			status: 400, message: "Invalid input: '" + strings.Repeat("a", 65) + "' does not match '^[_A-Za-z0-9][-._A-Za-z0-9]{0,63}$': username",
		},
		"repeats a password that is too short": {
			prepare: func(f fixture) { f.kafka.AddUser(aivensim.User{Username: "app"}) },
			method:  "PUT", path: "/dev/service/kafka/user/app", body: `{"operation":"reset-credentials","new_password":"short"}`,
			status: 400, message: "Invalid input: 'short' is too short: new_password",
		},
		"refuses an unknown operation": {
			prepare: func(f fixture) { f.kafka.AddUser(aivensim.User{Username: "app"}) },
			method:  "PUT", path: "/dev/service/kafka/user/app", body: `{}`,
			status: 400, message: "Invalid input: '' is not one of ['acknowledge-renewal', 'reset-credentials', 'set-access-control']: operation",
		},
		"refuses more than 256 rules of access control": {
			method: "POST", path: "/dev/service/valkey/user",
			body:   `{"username":"app","access_control":{"valkey_acl_keys":["k"` + strings.Repeat(`,"k"`, 256) + `]}}`,
			status: 400, message: "Invalid input: valkey_acl_keys has more than 256 items",
		},
		"refuses an unknown Kafka permission": {
			method: "POST", path: "/dev/service/kafka/acl", body: `{"permission":"all","topic":"t","username":"app"}`,
			status: 400, message: "Invalid input: 'all' is not a permission: permission",
		},
		"refuses a principal that is no user": {
			method: "POST", path: "/dev/service/kafka/kafka/acl", body: strings.Replace(native, "User:app", "Group:g", 1),
			status: 400, message: "Invalid input: 'Group:g' is not a principal: principal",
		},
		"refuses an unknown OpenSearch permission": {
			method: "PUT", path: "/dev/service/opensearch/opensearch/acl",
			body:   `{"opensearch_acl_config":{"acls":[{"username":"app","rules":[{"index":"*","permission":"all"}]}]}}`,
			status: 400, message: "Invalid input: 'all' is not a permission: permission",
		},
		"refuses to set half an OpenSearch document": {
			method: "POST", path: "/dev/service/opensearch/opensearch/acl", body: `{"opensearch_acl_config":{"acls":[]}}`,
			status: 400, message: "Invalid input: 'enabled' is a required property: opensearch_acl_config",
		},
		"refuses more than 512 OpenSearch entries": {
			method: "PUT", path: "/dev/service/opensearch/opensearch/acl",
			body:   `{"opensearch_acl_config":{"acls":[{"username":"a","rules":[]}` + strings.Repeat(`,{"username":"a","rules":[]}`, 512) + `]}}`,
			status: 400, message: "Invalid input: more than 512 items: acls",
		},
		"refuses too many Kafka ACLs": {
			prepare: config(aivensim.ServiceConfig{Type: aivensim.Kafka, KafkaACLLimit: 1}),
			method:  "POST", path: "/dev/service/kafka/acl", body: acl,
			status: 400, code: "service_acl_too_many", message: "Maximum number of service ACLs reached",
		},
		"refuses the 51st user": {
			prepare: func(f fixture) {
				for i := range 50 {
					f.openSearch.AddUser(aivensim.User{Username: fmt.Sprint("u", i)})
				}
			},
			method: "POST", path: "/dev/service/opensearch/user", body: user,
			status: 400, message: "Maximum number of service users reached",
		},
		"refuses an operation of another type of service": {
			method: "GET", path: "/dev/service/valkey/acl",
			status: 400, message: "Operation is not supported for this service type",
		},
		"refuses a request without a token": {
			authorization: "-", method: "GET", path: "/dev",
			status: 401, message: "Missing (expired) db token",
		},
		"refuses a revoked token": {
			prepare: func(f fixture) { f.sim.RevokeToken("token") },
			method:  "GET", path: "/dev",
			status: 401, message: "Missing (expired) db token",
		},
		"refuses an unknown token": {
			authorization: "aivenv1 other", method: "GET", path: "/dev",
			status: 403, message: "Invalid token",
		},
		"refuses another kind of login": {
			authorization: "Basic dTpw", method: "GET", path: "/dev",
			status: 403, code: "authentication_failed", message: "Authentication failed",
		},
		"refuses a token that is no member of the project": {
			prepare: func(f fixture) { f.sim.SetToken("token", aivensim.Token{Projects: []string{"prod"}}) },
			method:  "GET", path: "/dev",
			status: 403, message: "Not a project member",
		},
		"refuses a token without the permission": {
			prepare: func(f fixture) {
				f.sim.SetToken("token", aivensim.Token{Deny: []aivensim.Operation{aivensim.ServiceUserCreate}})
			},
			method: "POST", path: "/dev/service/kafka/user", body: user,
			status: 403, code: "permission_denied", message: "Permission denied",
		},
		"refuses a read of secrets without the permission": {
			prepare: func(f fixture) { f.sim.SetToken("token", aivensim.Token{Secrets: aivensim.SecretsForbidden}) },
			method:  "GET", path: "/dev/service/kafka?include_secrets=true",
			status: 403, code: "permission_denied", message: "Permission denied",
		},
		"refuses to change what Kafka governance manages": {
			prepare: config(aivensim.ServiceConfig{Type: aivensim.Kafka, Governed: true}),
			method:  "POST", path: "/dev/service/kafka/acl", body: acl,
			status: 403, code: "resource_managed_by_governance", message: "Resource is managed by Kafka governance",
		},
		"refuses to delete a built-in user": {
			method: "DELETE", path: "/dev/service/kafka/user/avnadmin",
			status: 403, message: "User 'avnadmin' is built in: cannot delete",
		},
		"refuses to delete a reserved user": {
			method: "DELETE", path: "/dev/service/opensearch/user/os-sec-admin",
			status: 403, message: "User 'os-sec-admin' is built in: cannot delete",
		},
		"refuses to change a built-in user": {
			method: "PUT", path: "/dev/service/valkey/user/default/credentials/reset",
			status: 403, message: "User 'default' is built in: cannot reset",
		},
		"does not know a service": {
			method: "GET", path: "/dev/service/other",
			status: 404, message: "Service other does not exist",
		},
		"does not know a service, in the words that make a client repeat a POST": {
			method: "POST", path: "/dev/service/other/user", body: user,
			status: 404, message: "Service other does not exist",
		},
		"does not know a service, as the list of ACLs says it": {
			method: "GET", path: "/dev/service/other/acl",
			status: 404, code: "service_not_found", message: "Service not found",
		},
		"does not know a project": {
			method: "GET", path: "/other/kms/ca",
			status: 404, code: "project_not_found", message: "Project not found",
		},
		"does not know a user": {
			method: "GET", path: "/dev/service/kafka/user/app",
			status: 404, message: "User 'app' does not exist",
		},
		"does not know a user whose name has a slash": {
			method: "DELETE", path: "/dev/service/kafka/user/a%2Fb",
			status: 404, message: "User 'a/b' does not exist",
		},
		"does not find the main component's user": {
			prepare: always(aivensim.Error(404, "", "User avnadmin with component main not found")),
			method:  "GET", path: "/dev/service/kafka",
			status: 404, message: "User avnadmin with component main not found",
		},
		"does not know an ACL": {
			method: "DELETE", path: "/dev/service/kafka/acl/acl00000000000",
			status: 404, code: "service_acl_not_found", message: "No such service ACL exists",
		},
		"does not know a native ACL": {
			method: "GET", path: "/dev/service/kafka/kafka/acl/acl00000000000",
			status: 404, code: "service_acl_not_found", message: "No such service ACL exists",
		},
		"does not know a path": {
			method: "GET", path: "/dev/service/kafka/topic",
			status: 404, message: "Not found",
		},
		"has such a user": {
			prepare: func(f fixture) { f.kafka.AddUser(aivensim.User{Username: "app"}) },
			method:  "POST", path: "/dev/service/kafka/user", body: user,
			status: 409, message: "User 'app' already exists",
		},
		"has such a user, reserved by OpenSearch": {
			method: "POST", path: "/dev/service/opensearch/user", body: `{"username":"replication_user"}`,
			status: 409, message: "User 'replication_user' already exists",
		},
		"has such an ACL": {
			prepare: func(f fixture) {
				f.kafka.AddKafkaACL(aivensim.KafkaACL{Permission: "read", Topic: "t", Username: "app"})
			},
			method: "POST", path: "/dev/service/kafka/acl", body: acl,
			status: 409, message: "Identical ACL entry already exists",
		},
		"has such a native ACL": {
			prepare: func(f fixture) { f.do("POST", "/dev/service/kafka/kafka/acl", native) },
			method:  "POST", path: "/dev/service/kafka/kafka/acl", body: native,
			status: 409, message: "Identical ACL entry already exists",
		},
		"refuses work while powered off": {
			prepare: func(f fixture) { f.kafka.SetState(aivensim.PowerOff) },
			method:  "POST", path: "/dev/service/kafka/user", body: user,
			status: 409, code: "not_powered", message: "Service is not powered",
		},
		"refuses work while powered off with the other status": {
			options: aivensim.Options{PoweredOff: 503},
			prepare: func(f fixture) { f.valkey.SetState(aivensim.PowerOff) },
			method:  "GET", path: "/dev/service/valkey/user/default",
			status: 503, message: "Service Unavailable",
		},
		"has no native ACLs": {
			prepare: config(aivensim.ServiceConfig{Type: aivensim.Kafka, NoNativeACLs: true}),
			method:  "POST", path: "/dev/service/kafka/kafka/acl", body: native,
			status: 409, code: "kafka_acl_not_supported", message: "Kafka ACLs are not supported by this service",
		},
		"needs maintenance before it lists native ACLs": {
			prepare: config(aivensim.ServiceConfig{Type: aivensim.Kafka, NoNativeACLs: true}),
			method:  "GET", path: "/dev/service/kafka/kafka/acl",
			status: 409, code: "service_maintenance_required", message: "Service maintenance is required",
		},
		"has dependants": {
			prepare: always(aivensim.Error(417, "", "Has dependent resources")),
			method:  "DELETE", path: "/dev/service/kafka/user/app",
			status: 417, message: "Has dependent resources",
		},
		"limits the rate": {
			prepare: always(aivensim.Error(429, "", "The user has sent too many requests in a given amount of time: Rate limit 120 exceeded - try again in 28s")),
			method:  "GET", path: "/dev/service/kafka",
			status: 429, message: "The user has sent too many requests in a given amount of time: Rate limit 120 exceeded - try again in 28s",
		},
		"breaks": {
			prepare: always(aivensim.Error(500, "", "An error occurred. Please try again later.")),
			method:  "GET", path: "/dev/service/kafka",
			status: 500, message: "An error occurred. Please try again later.",
		},
		"is unavailable": {
			prepare: always(aivensim.Error(503, "", "Service Unavailable")),
			method:  "GET", path: "/dev/service/kafka",
			status: 503, message: "Service Unavailable",
		},
		"is not synchronised": {
			prepare: always(aivensim.Error(501, "", "Failed to fetch Kafka topic: t")),
			method:  "GET", path: "/dev/service/kafka",
			status: 501, message: "Failed to fetch Kafka topic: t",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.options.ECDSA = true
			f := newFixture(t, tt.options)
			if tt.prepare != nil {
				tt.prepare(f)
			}
			switch tt.authorization {
			case "":
				tt.authorization = bearer
			case "-":
				tt.authorization = ""
			}
			r := f.doAs(tt.authorization, tt.method, tt.path, tt.body)
			if r.status != tt.status {
				t.Errorf("want status %d, got %d", tt.status, r.status)
			}
			first := map[string]any{"status": float64(tt.status), "message": tt.message}
			if tt.code != "" {
				first["error_code"] = tt.code
			}
			want := map[string]any{"errors": []any{first}, "message": tt.message}
			if d := cmp.Diff(want, r.object(t)); d != "" {
				t.Error(d)
			}
			if got := r.header.Get("Content-Type"); got != "application/json" {
				t.Errorf("want JSON, got %s", got)
			}
		})
	}
}

// TestErrorBodies: proxies in front of the API answer with something else than JSON.
func TestErrorBodies(t *testing.T) {
	f := newFixture(t, aivensim.Options{ECDSA: true})
	f.sim.Inject(aivensim.Rule{Answer: &aivensim.Answer{
		Status: http.StatusBadGateway,
		Header: http.Header{"Content-Type": {"text/html"}, "Retry-After": {"30"}},
		Body:   "<html>Bad Gateway</html>",
	}})
	r := f.do(http.MethodGet, "/dev", "")
	got := []any{r.status, r.header.Get("Content-Type"), r.header.Get("Retry-After"), r.body}
	if d := cmp.Diff([]any{502, "text/html", "30", "<html>Bad Gateway</html>"}, got); d != "" {
		t.Error(d)
	}
}
