package aiven

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	wholeService = `{"service":{"service_type":"kafka","state":"RUNNING","components":[{"component":"kafka","host":"h","port":1,"route":"dynamic",` +
		`"usage":"primary","ssl":true,"kafka_authentication_method":"certificate"}],"users":[{"username":"avnadmin","type":"primary",` +
		`"password":"<redacted>","access_cert_not_valid_after_time":"2028-04-01T03:04:05Z"}],"acl":[{"id":"default","permission":"admin",` +
		`"topic":"*","username":"avnadmin"}],"service_uri":null}}`
	wholeDocument = `{"opensearch_acl_config":{"acls":[{"username":"b","rules":[{"index":"*","permission":"read"}]},7],"enabled":true,"extendedAcl":true}}`
	wholeUser     = `{"message":"created","user":{"username":"app","type":"normal","password":"AVNS_x","access_cert":"c","access_key":"k"}}`
)

func FuzzDecodeService(f *testing.F) {
	for _, body := range []string{
		wholeService, `null`, `{}`, `{"service":null}`, `{"errors":[{"message":"gone","status":404}]}`, `{"service":{"users":null,"state":"RUNNING","service_type":"x"}}`,
		`{"service":{"components":[null],"users":[null],"acl":[null],"state":"POWEROFF","service_type":""}}`, strings.Repeat(`{"service":`, 20000), wholeService[:200],
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var s Service
		if decodeService(json.NewDecoder(bytes.NewReader(body)), &s) != nil {
			return
		}
		if s.Type == "" || s.State == "" {
			t.Errorf("an incomplete service passes: %+v", s)
		}
		for _, name := range s.Usernames() {
			if u, ok := s.User(name); !ok || u.Name != name || u.Password == "<redacted>" || u.Certificate == "<redacted>" || u.Key == "<redacted>" {
				t.Errorf("%q is wrong", name)
			}
		}
		s.Component("kafka", "primary")
	})
}

// Whatever the document of a service is: a change is made to it and read back, or it is refused; what others wrote stays.
func FuzzDecodeDocument(f *testing.F) {
	for _, body := range []string{
		wholeDocument, `{"opensearch_acl_config":{}}`, `{"opensearch_acl_config":null}`, `{"opensearch_acl_config":{"acls":null,"enabled":true}}`,
		`{"opensearch_acl_config":{"acls":[{"username":"app"},{"USERNAME":"app"},{"username":"app","username":"b"}],"enabled":"yes"}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var config map[string]json.RawMessage
		err := decodeObject(json.NewDecoder(bytes.NewReader(body)), func(key string) (bool, error) {
			if key != configKey {
				return false, nil
			}
			return true, json.Unmarshal(body, &struct {
				Config *map[string]json.RawMessage `json:"opensearch_acl_config"`
			}{&config})
		})
		if err != nil {
			return
		}
		read, err := newDocument(config)
		if err != nil {
			return
		}
		for _, ed := range []*edit{{username: "app", rules: readAll}, {username: "app", revoke: true}} {
			next := read.changed(ed)
			if diff := cmp.Diff(read.texts("app"), next.texts("app")); diff != "" {
				t.Fatalf("entries of others (-before +after)\n%s", diff)
			}
			raw, err := json.Marshal(next.config())
			if err != nil {
				t.Fatalf("what was changed cannot be written: %v", err)
			}
			if !reread(t, raw).changed(ed).acl().Enabled && !ed.revoke {
				t.Error("access control is off")
			}
		}
	})
}

// Every call survives every answer: it succeeds, or fails with an error that can be shown and holds neither the token nor the answer's secrets.
func FuzzAnswers(f *testing.F) {
	pem := string(pemOf("CERTIFICATE"))
	certificate, _ := json.Marshal(map[string]string{"certificate": pem})
	for _, body := range []string{
		wholeService, wholeDocument, wholeUser, string(certificate), `{}`, ``, `null`, `[]`, "\xff", `{"acl":[{"id":"1","username":"app","topic":"t","permission":"read"}]}`,
		`{"message":"` + token + `"}`, `{"errors":[{"message":"` + token + `","status":"x"}]}`, `<html>`, `{"user":{"username":"app"`, `{"errors":[{}],"user":{}}`,
	} {
		for _, status := range []int{200, 404, 429, 500} {
			f.Add(status, "", []byte(body))
		}
	}
	f.Add(429, "-1", []byte(`{"message":"try again in 999999999s"}`))
	calls := map[string]func(context.Context, *Client) error{
		"Service":    func(ctx context.Context, c *Client) error { _, err := c.Service(ctx, kafka); return err },
		"User":       func(ctx context.Context, c *Client) error { _, err := c.User(ctx, kafka, "app"); return err },
		"CA":         func(ctx context.Context, c *Client) error { _, err := c.CA(ctx, "dev"); return err },
		"CreateUser": func(ctx context.Context, c *Client) error { _, err := c.CreateUser(ctx, kafka, "app", nil); return err },
		"SetAccessControl": func(ctx context.Context, c *Client) error {
			return c.SetAccessControl(ctx, valkey, "app", AccessControl{})
		},
		"DeleteUser": func(ctx context.Context, c *Client) error { return c.DeleteUser(ctx, kafka, "app") },
		"AddKafkaACL": func(ctx context.Context, c *Client) error {
			return c.AddKafkaACL(ctx, kafka, KafkaACL{Username: "app", Topic: "t", Permission: "read"})
		},
		"DeleteKafkaACL": func(ctx context.Context, c *Client) error { return c.DeleteKafkaACL(ctx, kafka, KafkaACL{ID: "1"}) },
		"readDocument":   func(ctx context.Context, c *Client) error { _, err := c.readDocument(ctx, search); return err },
		"Probe":          func(ctx context.Context, c *Client) error { return c.Probe(ctx) },
	}
	f.Fuzz(func(t *testing.T, status int, retryAfter string, body []byte) {
		if status < 200 || status > 599 {
			t.Skip("not an answer")
		}
		answer := roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status, Request: r, Header: http.Header{"Retry-After": {retryAfter}}, Body: io.NopCloser(bytes.NewReader(body)),
			}, nil
		})
		for name, call := range calls {
			c, err := New(Options{Token: func() string { return token }, Transport: answer})
			if err != nil {
				t.Fatal(err)
			}
			c.pause = time.Nanosecond
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // a 429 is waited for
			err = call(ctx, c)
			cancel()
			c.Close()
			if err == nil {
				continue
			}
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("%s: %T", name, err)
			}
			checkText(t, e.Error())
			if strings.Contains(err.Error(), token) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A refusal is classified whatever it looks like, and asks for a bounded wait.
func FuzzRefusal(f *testing.F) {
	for _, message := range []string{"User avnadmin with component main not found", "already exists", "Service is not powered", "try again in 28s", "<b>", token} {
		f.Add(409, "30", []byte(body(message)))
	}
	f.Add(429, "Wed, 21 Oct 2999 07:28:00 GMT", []byte(`{"message":7}`))
	f.Add(-1, "99999999999999999999999999", []byte("\xff"))
	f.Fuzz(func(t *testing.T, status int, retryAfter string, body []byte) {
		r := newRefusal(status, http.Header{"Retry-After": {retryAfter}}, body)
		if wait := r.wait(start); wait < 0 || wait > maxThrottle {
			t.Errorf("%q, %q: wait %s", retryAfter, body, wait)
		}
		kinds, terminal := r.kinds()
		if terminal && (len(kinds) > 0 || status < 400 || status > 499) {
			t.Errorf("%d is %v and terminal", status, kinds)
		}
		checkText(t, clean(r.message, token))
	})
}

// A bundle of certificates is read, or refused with an error that does not hold it.
func FuzzParseBundle(f *testing.F) {
	f.Add(pemOf("CERTIFICATE"))
	f.Add([]byte("# comment\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, bundle []byte) {
		certificates, err := parseBundle(bundle)
		if (err == nil) == (len(certificates) == 0) {
			t.Errorf("got %d certificates and %v", len(certificates), err)
		}
	})
}

// The address of the API is used as it stands, or refused with an error that does not show it.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"https://api.aiven.io", "http://localhost:1/base/", "https://user:canary@host", "https://host?x", "http://host//", "http://host//base", "://", "https://[::1", "file:///canary"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := parseURL(s)
		if err != nil {
			if len(s) > 40 && strings.Contains(err.Error(), s) {
				t.Errorf("%q is in %q", s, err)
			}
			return
		}
		tr := transport{base: u}
		target, err := tr.target(&url.URL{Path: apiRoot + "/p/service/s/..", RawPath: apiRoot + path("p", "service", "s/..")}, &call{secrets: true})
		if err == nil && (target.Host != u.Host || target.Scheme != u.Scheme || target.User != nil || !strings.HasSuffix(target.EscapedPath(), "/v1/project/p/service/s%2F..")) {
			t.Errorf("%q leads to %q", s, target)
		}
	})
}
