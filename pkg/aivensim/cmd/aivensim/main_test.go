package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{
			"--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--token", "a", "--token", "b", "--key-size", "2048", "--project", "empty",
			"--service", "dev/kafka:kafka:schema_registry,sasl,state=REBUILDING", "--service", "dev/os:opensearch:no_dashboards,users=2,limit=3",
			"--latency", "uniform 1us 2us", "--do", `POST /rules {"path": "/v1/project/dev/service/os", "answer": {"status": 418}}`,
			"--do", " PATCH /settings  {\"lag\": {\"userGet\": \"2s\"}}", "--do", "POST /state?project=dev&service=os&state=POWEROFF",
		}, in, io.Discard)
	}()
	lines := bufio.NewScanner(out)
	address := func(name string) string {
		if !lines.Scan() {
			t.Fatal("want a line")
		}
		a, ok := strings.CutPrefix(lines.Text(), name+" on http://127.0.0.1:")
		if !ok {
			t.Fatalf("want the address of %s, got %q", name, lines.Text())
		}
		return "http://127.0.0.1:" + a
	}
	api, control := address("listening"), address("control")

	for _, token := range []string{"a", "b"} {
		var service struct {
			Service struct {
				State      string
				Components []struct{ Component string }
			}
		}
		fetch(t, api+"/v1/project/dev/service/kafka", token, &service)
		if got := service.Service; got.State != "REBUILDING" || len(got.Components) != 3 {
			t.Errorf("unexpected service: %+v", got)
		}
	}
	var services struct {
		Services []struct {
			Service string
			State   string
			Users   int
		}
	}
	fetch(t, control+"/services", "", &services)
	if got := services.Services; len(got) != 2 || got[1].Users != 3 || got[1].State != "POWEROFF" {
		t.Errorf("unexpected services: %+v", got)
	}
	var settings aivensim.Settings
	fetch(t, control+"/settings", "", &settings)
	if settings.Lag.UserGet != 2*time.Second || settings.Latency.String() != "uniform 1µs 2µs" {
		t.Errorf("unexpected settings: %+v", settings)
	}
	if got := fetch(t, api+"/v1/project/dev/service/os", "a", nil); got != 418 {
		t.Errorf("want status 418 by the rule, got %d", got)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("want a clean stop, got %v", err)
	}
}

func fetch(t *testing.T, address, token string, into any) (status int) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "aivenv1 "+token)
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if into == nil {
		return r.StatusCode
	}
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}

func TestRunRefuses(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"names a service without a project": {[]string{"--service", "kafka:kafka"}, "--service kafka:kafka: want project/name:type"},
		"names an unknown type":             {[]string{"--service", "dev/m:mysql"}, `--service dev/m:mysql: unknown type "mysql"`},
		"names an unknown option":           {[]string{"--service", "dev/k:kafka:fast"}, `--service dev/k:kafka:fast: unknown option "fast"`},
		"names an unknown state":            {[]string{"--service", "dev/k:kafka:state=ON"}, `--service dev/k:kafka:state=ON: unknown state "ON"`},
		"names a key size":                  {[]string{"--key-size", "512"}, "--key-size 512: want at least 1024"},
		"names what is wrong with a rule":   {[]string{"--do", `POST /rules {"answer":{}}`}, `--do: POST /rules: answer.status: want 200 to 599, got 0`},
		"names what is wrong with settings": {[]string{"--do", `PATCH /settings {"lags":1}`}, `--do: PATCH /settings: unknown field "lags"`},
		"names an unknown action":           {[]string{"--do", `POST /rule`}, `--do: POST /rule: Not found`},
		"names a strange latency":           {[]string{"--latency", "fast"}, `invalid value "fast" for flag -latency: want "20ms", "uniform 10ms 50ms", "lognormal 20ms 0.5" or "pareto 10ms 1.5"`},
		"names an argument":                 {[]string{"fast"}, `unknown argument "fast"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what is not refused would run for ever
			defer cancel()
			var out bytes.Buffer
			err := run(ctx, append([]string{"--key-size", "2048"}, tt.args...), &out, io.Discard)
			if err == nil {
				t.Fatal("want an error")
			}
			if d := cmp.Diff(tt.want, err.Error()); d != "" {
				t.Error(d)
			}
		})
	}
}
