package contract

import (
	"errors"
	"strings"
	"testing"
	"time"

	aiven "github.com/aiven/go-client-codegen"
	"github.com/aiven/go-client-codegen/handler/service"
	"github.com/google/go-cmp/cmp"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// TestRedaction: whatever stands in the place of a secret, the generated client reads it.
func TestRedaction(t *testing.T) {
	tests := map[string]struct {
		mode          aivensim.Redaction
		password, key string
	}{
		"reads a text":        {aivensim.Redacted, "<redacted>", "<redacted>"},
		"reads null":          {aivensim.RedactedNull, "", "<nil>"},
		"reads an empty text": {aivensim.RedactedEmpty, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.kafka.AddUser(aivensim.User{Username: "app"})
			f.sim.Adjust(func(s *aivensim.Settings) { s.Redaction = tt.mode })
			got, err := f.ServiceUserGet(t.Context(), "dev", "kafka", "app")
			check(t, err)
			key := "<nil>"
			if got.AccessKey != nil {
				key = *got.AccessKey
			}
			if d := cmp.Diff([]string{tt.password, tt.key}, []string{got.Password, key}); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestServiceQuirks: the generated client bears a null URI, but no number where a text is expected.
func TestServiceQuirks(t *testing.T) {
	f := newFixture(t)
	c := f.valkey.Config()
	c.NullURI = true
	check(t, f.valkey.SetConfig(c))
	got, err := f.ServiceGet(t.Context(), "dev", "valkey", secrets)
	check(t, err)
	if got.ServiceUri != "" {
		t.Errorf("want no URI, got %s", got.ServiceUri)
	}
	c.NumericPort = true
	check(t, f.valkey.SetConfig(c))
	if _, err = f.ServiceGet(t.Context(), "dev", "valkey", secrets); err == nil || !strings.Contains(err.Error(), "service_uri_params") {
		t.Errorf("want an error about service_uri_params, got %v", err)
	}
}

// TestFaults: what the generated client makes of an answer that went wrong, when it does not repeat requests.
func TestFaults(t *testing.T) {
	tests := map[string]struct {
		rule   aivensim.Rule
		status int    // of its error, zero if it has none
		text   string // in the error
	}{
		"sees a reset":                        {aivensim.Rule{Loss: aivensim.LossReset}, 0, "connection reset by peer"},
		"sees a closed connection":            {aivensim.Rule{Reset: true}, 0, "EOF"},
		"sees a cut body":                     {aivensim.Rule{Loss: aivensim.LossCut, Answer: aivensim.Error(500, "", "No")}, 0, "unexpected EOF"},
		"sees half a body":                    {aivensim.Rule{Truncate: true, Answer: &aivensim.Answer{Status: 200, Body: "{}"}}, 0, "unexpected end of JSON input"},
		"sees a status":                       {aivensim.Rule{Answer: aivensim.Error(503, "", "Service Unavailable")}, 503, "Service Unavailable"},
		"sees a page of a proxy":              {aivensim.Rule{Answer: &aivensim.Answer{Status: 502, Body: "<html>"}}, 502, "<html>"},
		"sees the text of a new service":      {aivensim.Rule{Answer: aivensim.Error(404, "", "Service {service} does not exist")}, 404, "Service valkey does not exist"},
		"sees the other text of one":          {aivensim.Rule{Answer: aivensim.Error(404, "service_not_found", "Service not found")}, 404, "Service not found"},
		"sees the text of a limit":            {aivensim.Rule{Answer: aivensim.TooManyRequests(time.Second, aivensim.RetryAfterDate)}, 429, "try again in 1s"},
		"sees nothing wrong in a slow answer": {aivensim.Rule{Stall: 1, StallBody: 1, Answer: &aivensim.Answer{Status: 200, Body: "{}"}}, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			for _, commit := range []bool{false, true} {
				f.sim.ResetCounters()
				tt.rule.Commit = commit
				rule := f.sim.Inject(tt.rule)
				_, err := f.ServiceUserCreate(t.Context(), "dev", "valkey", &service.ServiceUserCreateIn{Username: "app"})
				rule.Remove()
				var e aiven.Error
				if errors.As(err, &e); e.Status != tt.status {
					t.Errorf("want status %d, got %d", tt.status, e.Status)
				}
				if tt.text == "" && err != nil || tt.text != "" && (err == nil || !strings.Contains(err.Error(), tt.text)) {
					t.Errorf("want error %q, got %v", tt.text, err)
				}
				lost := map[bool]int{true: 1}[commit]
				if _, ok := f.valkey.User("app"); ok != commit || f.sim.Counters().CommitsLost != lost {
					t.Errorf("want the user to exist: %t, got %t, and %d lost commits", commit, ok, f.sim.Counters().CommitsLost)
				}
			}
		})
	}
}
