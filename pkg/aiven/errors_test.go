package aiven

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

func terminal(err error) bool { return errors.Is(err, reconcile.TerminalError(nil)) }

// body returns an error body of the API.
func body(message string) string {
	quoted, _ := json.Marshal(message)
	return fmt.Sprintf(`{"errors":[{"message":%s,"status":"as text"}],"message":%[1]s}`, quoted)
}

func TestErrorsAreClassified(t *testing.T) {
	const deleting = "delete user app on dev/kafka: "
	tests := map[string]struct {
		status  int
		body    string
		text    string
		kinds   []error
		outcome resource.Outcome
	}{
		"400":                   {400, body("Invalid input: too long"), "400 Invalid input: too long", nil, resource.Terminal},
		"400, without message":  {400, `{"errors":[]}`, "400 Bad Request", nil, resource.Terminal},
		"400, a limit":          {400, body("Service user limit reached"), "400 Service user limit reached", nil, resource.Terminal},
		"401":                   {401, body("Missing (expired) db token"), "401 Unauthorized", []error{ErrUnauthorized}, resource.Waiting},
		"403":                   {403, body("Not a project member"), "403 Not a project member", []error{ErrUnauthorized}, resource.Waiting},
		"404 of the user":       {404, body("User 'app' does not exist"), "404 User 'app' does not exist", []error{ErrNotFound}, resource.Failed},
		"404 of the service":    {404, body("Service kafka does not exist"), "404 Service kafka does not exist", []error{ErrNotFound}, resource.Failed},
		"404 of another thing":  {404, body("User avnadmin with component main not found"), "404 User avnadmin with component main not found", []error{ErrBusy}, resource.Failed},
		"408":                   {408, "", "408 Request Timeout", []error{ErrOutcomeUnknown}, resource.Failed},
		"409 of a duplicate":    {409, body("User 'app' already exists"), "409 User 'app' already exists", []error{ErrExists}, resource.Failed},
		"409 of a state":        {409, body("Service is being changed"), "409 Service is being changed", []error{ErrBusy}, resource.Failed},
		"409 powered off":       {409, body("Service is not powered"), "409 Service is not powered", []error{ErrNotPowered, ErrBusy}, resource.Failed},
		"409 powered off, code": {409, `{"errors":[{"message":"No","status":409,"error_code":"not_powered"}]}`, "409 No", []error{ErrNotPowered, ErrBusy}, resource.Failed},
		"417":                   {417, body("has dependants"), "417 has dependants", nil, resource.Failed},
		"422":                   {422, "", "422 Unprocessable Entity", nil, resource.Terminal},
		"429":                   {429, body("slow down"), "429 slow down", []error{ErrThrottled}, resource.Waiting},
		"500":                   {500, body("An error occurred"), "500 An error occurred", []error{ErrOutcomeUnknown}, resource.Failed},
		"501":                   {501, body("not yet"), "501 not yet", []error{ErrBusy, ErrOutcomeUnknown}, resource.Failed},
		"502 of HTML":           {502, "<html>" + strings.Repeat("<b>x</b>", 25000), "502 Bad Gateway", []error{ErrOutcomeUnknown}, resource.Failed},
		"503, empty":            {503, "", "503 Service Unavailable", []error{ErrOutcomeUnknown}, resource.Failed},
		"504, not an object":    {504, `["x"]`, "504 Gateway Timeout", []error{ErrOutcomeUnknown}, resource.Failed},
		"302":                   {302, "", "302 Found", nil, resource.Failed},
		"200 with a 404 in it":  {200, `{"errors":[{"message":"gone","status":404}]}`, "404 gone", []error{ErrNotFound}, resource.Failed},
		"200 with a 500 in it":  {200, `{"errors":[{"message":"broken","status":500}]}`, "500 broken", []error{ErrOutcomeUnknown}, resource.Failed},
		"200 of HTML":           {200, "<html>", "200 the answer cannot be read", []error{ErrOutcomeUnknown}, resource.Failed},
		"200 cut short":         {200, `{"message":"del`, "200 the answer cannot be read", []error{ErrOutcomeUnknown}, resource.Failed},
		"200 of null":           {200, `null`, "200 the answer cannot be read", []error{ErrOutcomeUnknown}, resource.Failed},
		"a text of many lines":  {409, body("a\n\tb\r\x00  c\u2028d"), "409 a b c d", []error{ErrBusy}, resource.Failed},
		"markup in a text":      {409, body("<script>x</script>"), "409 Conflict", []error{ErrBusy}, resource.Failed},
		"a comparison":          {409, body("a < b"), "409 a < b", []error{ErrBusy}, resource.Failed},
	}
	all := []error{ErrNotFound, ErrExists, ErrUnauthorized, ErrBusy, ErrNotPowered, ErrThrottled, ErrOutcomeUnknown}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := answering(t, test.status, test.body, "Location", "http://elsewhere.example/canary")
			err := c.DeleteUser(t.Context(), kafka, "app")
			diff(t, deleting+test.text, strings.TrimPrefix(err.Error(), "terminal error: "))
			for _, kind := range all {
				if want, got := slices.Contains(test.kinds, kind), errors.Is(err, kind); want != got {
					t.Errorf("%v: want %t, got %t", kind, want, got)
				}
			}
			diff(t, test.outcome, resource.OutcomeOf(err))
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("want an *Error in %v", err)
			}
		})
	}
}

func TestErrorTextIsShort(t *testing.T) {
	for name, message := range map[string]string{
		"a long text":              strings.Repeat("word ", 1000),
		"a long text of umlauts":   strings.Repeat("ä", 1000),
		"a text that is not UTF-8": strings.Repeat("\xff", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, 409, `{"message":"`+message+`"}`)
			err := c.DeleteUser(t.Context(), Ref{"dev", strings.Repeat("s", 64)}, strings.Repeat("u", 64))
			if n := len(err.Error()); n > 512 || !utf8.ValidString(err.Error()) {
				t.Errorf("%d bytes: %q", n, err)
			}
		})
	}
}

func TestMessagesThatMayHoldSecretsAreDropped(t *testing.T) {
	for name, message := range map[string]string{
		"a password":     "Invalid input: 'x' is too short: new_Password",
		"a secret":       "the secret is x",
		"a private key":  "-----BEGIN PRIVATE KEY-----",
		"a certificate":  "-----BEGIN CERTIFICATE-----",
		"a value":        "value AVNS_abcdefghijklmnop does not match",
		"a header":       "aivenv1 x",
		"the token":      "got " + token,
		"a URI of Aiven": "cannot connect to https://avnadmin:x@host:123",
	} {
		t.Run(name, func(t *testing.T) {
			err := answering(t, 409, body(message)).DeleteUser(t.Context(), kafka, "app")
			diff(t, "delete user app on dev/kafka: 409 Conflict", err.Error())
		})
	}
}

// TestNothingSecretGetsOut sends canaries in the token and in every answer, and looks for them in all that comes out.
func TestNothingSecretGetsOut(t *testing.T) {
	const secrets = `"password":"AVNS_canary","access_key":"canary","service_uri":"https://avnadmin:canary@host:1","token":"` + token + `"`
	calls := map[string]func(context.Context, *Client) error{
		"Service":    func(ctx context.Context, c *Client) error { _, err := c.Service(ctx, search); return err },
		"User":       func(ctx context.Context, c *Client) error { _, err := c.User(ctx, kafka, "a"); return err },
		"CA":         func(ctx context.Context, c *Client) error { _, err := c.CA(ctx, "dev"); return err },
		"CreateUser": func(ctx context.Context, c *Client) error { _, err := c.CreateUser(ctx, kafka, "a", nil); return err },
		"SetAccessControl": func(ctx context.Context, c *Client) error {
			return c.SetAccessControl(ctx, valkey, "a", AccessControl{})
		},
		"DeleteUser": func(ctx context.Context, c *Client) error { return c.DeleteUser(ctx, kafka, "a") },
		"AddKafkaACL": func(ctx context.Context, c *Client) error {
			return c.AddKafkaACL(ctx, kafka, KafkaACL{Username: "a", Topic: "t"})
		},
		"DeleteKafkaACL": func(ctx context.Context, c *Client) error { return c.DeleteKafkaACL(ctx, kafka, KafkaACL{ID: "acl1"}) },
		"GrantOpenSearch": func(ctx context.Context, c *Client) error {
			return c.GrantOpenSearch(ctx, search, "a", []OpenSearchRule{{"*", "read"}})
		},
		"RevokeOpenSearch": func(ctx context.Context, c *Client) error { return c.RevokeOpenSearch(ctx, search, "a") },
		"Probe":            func(ctx context.Context, c *Client) error { return c.Probe(ctx) },
	}
	write := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Secret", "canary")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	answers := map[string]http.Handler{
		"a refusal that echoes":     write(400, `{"message":"Invalid input: canary `+token+`",`+secrets+`}`),
		"a refusal of the token":    write(401, `{"message":"Missing db token `+token+`"}`),
		"a 403":                     write(403, `{"message":"canary is a secret"}`),
		"a 500 of JSON":             write(500, `{`+secrets+`}`),
		"a 503 of HTML":             write(503, `<p>canary</p>`),
		"a 429":                     write(429, `{"message":"`+token+`"}`),
		"another type":              write(200, `{"service":"canary","user":["canary"],"certificate":{"a":"canary"},"acl":"canary","opensearch_acl_config":"canary","errors":"canary"}`),
		"wrong types further below": write(200, `{"service":{"users":[{"username":"canary","password":{"x":"canary"}}]},"user":{"password":7,`+secrets+`},"acl":[{"id":"canary"}],"opensearch_acl_config":{"acls":"canary"},"errors":[],"certificate":"canary"}`),
		"an answer cut short":       write(200, `{"service":{`+secrets+`,"user":{`+secrets),
		"no JSON":                   write(200, `canary`),
		"an error within":           write(200, `{"errors":[{"message":"password canary","status":400}]}`),
		"a body that breaks off": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"user":{` + secrets))
		}),
	}
	check := func(t *testing.T, o Options) {
		o.Registry = prometheus.NewRegistry()
		o.Clock = clocktesting.NewFakePassiveClock(start)
		o.Token = func() string { return token + "\n" }
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				o.Registry = prometheus.NewRegistry()
				c, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.pause = time.Millisecond
				err = call(t.Context(), c)
				out := fmt.Sprintf("%v %+v %#v %v", err, err, err, c.Ready())
				families, gatherErr := o.Registry.(*prometheus.Registry).Gather()
				if gatherErr != nil {
					t.Fatal(gatherErr)
				}
				var b strings.Builder
				for _, family := range families {
					_, _ = expfmt.MetricFamilyToText(&b, family)
				}
				if out += b.String(); strings.Contains(out, "canary") {
					t.Errorf("a canary is in:\n%s", out)
				}
			})
		}
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			check(t, Options{URL: server.URL})
		})
	}
	t.Run("a refused connection", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		check(t, Options{URL: server.URL})
	})
	t.Run("a transport that panics", func(t *testing.T) {
		check(t, Options{Transport: roundTripper(func(*http.Request) (*http.Response, error) { panic(token) })})
	})
	t.Run("a transport that tells all", func(t *testing.T) {
		check(t, Options{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("cannot send %v", r.Header)
		})})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestThrottling(t *testing.T) {
	date := start.Add(45 * time.Second).Format(http.TimeFormat)
	tests := map[string]struct {
		header, message string
		want            time.Duration
	}{
		"it waits as the header says, in seconds":      {"30", "try again in 5s", 30 * time.Second},
		"it waits as the header says, as a date":       {date, "", 45 * time.Second},
		"it waits as the text says, without a header":  {"", "Rate limit 120 exceeded - try again in 28s", 28 * time.Second},
		"it waits a while if nothing says how long":    {"", "slow down", 10 * time.Second},
		"it does not wait for ever":                    {"86400", "", 5 * time.Minute},
		"it does not wait for ever, by date":           {start.Add(99 * time.Hour).Format(http.TimeFormat), "", 5 * time.Minute},
		"it does not trip over a number beyond number": {"99999999999999999999999", "", 10 * time.Second},
		"it comes back soon if it need not wait":       {"0", "", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{}, 9)
			throttled := true
			clock := clocktesting.NewFakePassiveClock(start)
			current := "one"
			c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				if !throttled {
					_, _ = w.Write([]byte(`{"projects":[]}`))
					return
				}
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(body(test.message)))
			}), Options{Clock: clock, Token: func() string { return current }})

			held := func(err error, want time.Duration) {
				t.Helper()
				isError(t, err, ErrThrottled)
				diff(t, resource.Waiting, resource.OutcomeOf(err))
				if after, _ := resource.After(err); after < want || after > want+want/5 {
					t.Errorf("want to wait %v to %v, got %v", want, want+want/5, after)
				}
			}
			if test.want == 0 {
				// A RequeueAfter of nothing would mean to wait for the next event.
				held(c.DeleteUser(t.Context(), kafka, "a"), time.Second)
				return
			}
			held(c.Probe(t.Context()), test.want)
			throttled = false
			clock.SetTime(start.Add(2 * time.Second))
			_, err := c.CreateUser(t.Context(), kafka, "a", nil)
			held(err, test.want-2*time.Second)
			if errors.Is(err, ErrOutcomeUnknown) {
				t.Error("nothing was sent, so that the outcome is known")
			}
			diff(t, 1, len(arrived))

			if strings.Contains(fmt.Sprintf("%+v %#v", c, c), "one") {
				t.Error("the client shows its token")
			}
			current = "two" // has a limit of its own
			if err := c.Probe(t.Context()); err != nil {
				t.Error(err)
			}
			current = "one"
			clock.SetTime(start.Add(test.want))
			if err := c.Probe(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	ok := func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"projects":[]}`)) }
	status := func(status int, message string, header ...string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body(message)))
		}
	}
	reset := func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }
	tests := map[string]struct {
		answers []func(http.ResponseWriter) // the last one for good
		want    int
		fails   bool
	}{
		"it repeats a read that failed on the server": {[]func(http.ResponseWriter){status(503, ""), status(500, ""), ok}, 3, false},
		"it gives up after two repetitions":           {[]func(http.ResponseWriter){status(502, "")}, 3, true},
		"it repeats a read whose answer was lost":     {[]func(http.ResponseWriter){reset, ok}, 2, false},
		"it repeats a read whose answer is no JSON":   {[]func(http.ResponseWriter){func(w http.ResponseWriter) { _, _ = w.Write([]byte("{")) }, ok}, 2, false},
		"it repeats a read after an internal hiccup":  {[]func(http.ResponseWriter){status(404, "User root with component main not found"), ok}, 2, false},
		"it sits out a short wait":                    {[]func(http.ResponseWriter){status(429, "", "Retry-After", "1"), ok}, 2, false},
		"it does not sit out a long wait":             {[]func(http.ResponseWriter){status(429, "", "Retry-After", "2"), ok}, 1, true},
		"it does not repeat what is not there":        {[]func(http.ResponseWriter){status(404, "Service x does not exist")}, 1, true},
		"it does not repeat what is not allowed":      {[]func(http.ResponseWriter){status(401, "")}, 1, true},
		"it does not repeat what is not ready":        {[]func(http.ResponseWriter){status(501, "")}, 1, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan struct{}, 99)
			c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				test.answers[min(len(arrived), len(test.answers))-1](w)
			}), Options{})
			if err := c.Probe(t.Context()); (err != nil) != test.fails {
				t.Errorf("got %v", err)
			}
			diff(t, test.want, len(arrived))
		})
	}
}

func TestWritesAreNeverRepeated(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"after a 503": func(w http.ResponseWriter) { w.WriteHeader(503) },
		"after a 429": func(w http.ResponseWriter) { w.Header().Set("Retry-After", "0"); w.WriteHeader(429) },
		"after a service's lag": func(w http.ResponseWriter) {
			w.WriteHeader(404)
			_, _ = w.Write([]byte(body("Service x does not exist")))
		},
		"after a lost answer":     func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"after one that is empty": func(w http.ResponseWriter) { _, _ = w.Write([]byte("{")) },
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{}, 99)
			c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				answer(w)
			}), Options{})
			_, err := c.CreateUser(t.Context(), kafka, "a", nil)
			if err == nil || c.AddKafkaACL(t.Context(), kafka, KafkaACL{Username: "a", Topic: "t"}) == nil ||
				c.SetAccessControl(t.Context(), valkey, "a", AccessControl{}) == nil ||
				c.DeleteUser(t.Context(), kafka, "a") == nil || c.DeleteKafkaACL(t.Context(), kafka, KafkaACL{ID: "acl1"}) == nil {
				t.Error("want errors")
			}
			diff(t, 5, len(arrived))
		})
	}
}
