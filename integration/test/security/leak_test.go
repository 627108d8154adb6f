//go:build k8srequired

package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// shows fails the test if a text has a canary.
func shows(t *testing.T, where, text string, canaries map[string]string) {
	t.Helper()
	if text == "" {
		t.Errorf("%s is empty, which shows nothing", where)
	}
	for what, canary := range canaries {
		if canary != "" && strings.Contains(text, canary) {
			t.Errorf("%s shows %s", where, what)
		}
	}
}

// keys are the private keys in an answer.
var keys = regexp.MustCompile(`"access_key": ?"[^"]+"`)

// looseTongue is an Aiven that, while it is told to fail with a status, handles requests and then repeats in its error, in the message, around it
// and in headers, in turn: the token, its whole answer, and the keys in it.
func looseTongue(t *testing.T, sim http.Handler, status *atomic.Int64) *httptest.Server {
	var turn atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		sim.ServeHTTP(answer, r)
		code := int(status.Load())
		if code == 0 {
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()) // the client may have gone
			return
		}
		text := []string{
			r.Header.Get("Authorization"), answer.Body.String(), strings.Join(keys.FindAllString(answer.Body.String(), -1), " "),
		}[turn.Add(1)%3]
		body, err := json.Marshal(map[string]any{"message": text, "errors": []any{map[string]any{"message": text, "status": code}}, "more": text})
		if err != nil {
			t.Error(err)
		}
		line := strings.Join(strings.Fields(text), " ")
		w.Header().Set("X-Debug", line[:min(len(line), 4000)])
		w.Header().Set("Retry-After", r.Header.Get("Authorization"))
		w.WriteHeader(code)
		if code == http.StatusOK {
			body = body[:len(body)-1] // no JSON
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server
}

// run starts the operator with its token in a file.
func run(t *testing.T, w *world.World, args ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(world.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := w.Options(append(args, "--aiven-token-file="+path)...)
	options.Env = nil
	w.Run(options)
}

func TestNoErrorOfAivenShowsACredential(t *testing.T) {
	for level, codes := range map[string][]int{
		"debug": {http.StatusOK, 400, 401, 403, 404, 409, 429, 500, 502}, "info": {400, 500}, "error": {400, 500},
	} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			e := settle(world.New(t))
			var status atomic.Int64
			run(t, e.World, "--aiven-url="+looseTongue(t, e.Sim, &status).URL, "--log-level="+level, "--snapshot-age=1s", "--resync=1s")
			e.Apply("cart", everything("creds"))
			e.Ready("cart")
			known := e.Canaries()
			for _, code := range codes {
				status.Store(int64(code))
				name := fmt.Sprintf("app-%d", code)
				e.Apply(name, everything(name))
				e.Eventually(func(context.Context) error {
					if e.App(name).Status.ObservedGeneration == 0 {
						return errors.New("the application has not been looked at")
					}
					return nil
				})
				e.Touch("cart", 1)
				maps.Copy(known, e.Canaries())
				status.Store(0)
				if code != 429 { // nobody says how long that is to last
					e.Ready("cart")
				}
			}
			e.Ready("cart")
			maps.Copy(known, e.Canaries())
			check(t, e.World, known)
		})
	}
}

// check looks for canaries wherever people look who may not read Secrets.
func check(t *testing.T, w *world.World, canaries map[string]string) {
	t.Helper()
	shows(t, "the log", w.Operator.Log(), canaries)
	for _, url := range []string{w.Operator.Metrics + "/metrics", w.Operator.Health + "/readyz?verbose", w.Operator.Health + "/readyz/aiven", w.Operator.Health + "/healthz?verbose"} {
		_, text := get(t, url)
		shows(t, url, text, canaries)
	}
	for _, list := range []client.ObjectList{&v1.AivenApplicationList{}, &eventsv1.EventList{}, &corev1.EventList{}} {
		if err := w.List(t.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		shows(t, fmt.Sprintf("%T", list), string(raw), canaries)
	}
	var secrets corev1.SecretList
	if err := w.List(t.Context(), &secrets, client.InNamespace(w.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets.Items {
		raw, err := json.Marshal(s.ObjectMeta)
		if err != nil {
			t.Fatal(err)
		}
		shows(t, "the metadata of Secret "+s.Name, string(raw), canaries)
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}

func TestProfilesAreNotServed(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Eventually(w.Operator.Ready)
	for _, base := range []string{w.Operator.Metrics, w.Operator.Health} {
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline", "/debug/vars", "/debug/flags/v"} {
			if status, _ := get(t, base+path); status != http.StatusNotFound {
				t.Errorf("%s answers %d", base+path, status)
			}
		}
	}
}

// A dump of all goroutines holds texts of ours in no form but their addresses. It is taken while requests with the token, and Secrets, are under way.
func TestADumpShowsNoCredential(t *testing.T) {
	tests := map[string]struct {
		signal syscall.Signal
		level  string // GOTRACEBACK
	}{
		"when it is asked to quit":       {syscall.SIGQUIT, "all"},
		"when it is aborted":             {syscall.SIGABRT, "system"},
		"when memory is no longer there": {syscall.SIGSEGV, "system"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := settle(world.New(t))
			run := func(o operator.Options) { o.Env = append(o.Env, "GOTRACEBACK="+tt.level); e.Run(o) }
			run(e.Options("--snapshot-age=1s", "--resync=1s"))
			e.Apply("cart", everything("creds"))
			e.Ready("cart")
			held := e.Sim.Inject(aivensim.Rule{Stall: time.Minute})
			e.Apply("next", everything("next"))
			e.Eventually(func(context.Context) error {
				if n := held.Hits(); n < 3 {
					return fmt.Errorf("%d calls are under way", n)
				}
				return nil
			})
			known := e.Canaries()
			if err := syscall.Kill(e.Operator.PID(), tt.signal); err != nil {
				t.Fatal(err)
			}
			select {
			case <-e.Operator.Done():
			case <-time.After(world.Deadline):
				t.Fatal("the operator lives on")
			}
			dump := e.Operator.Log()
			if !strings.Contains(dump, "goroutine ") || !strings.Contains(dump, "net/http.") {
				t.Errorf("there is no dump with a request in it:\n%s", dump[max(0, len(dump)-2000):])
			}
			shows(t, "the dump", dump, known)
		})
	}
}
