//go:build k8srequired

package aivenapi

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

func TestCrashBetweenUserAndSecret(t *testing.T) {
	tests := map[string]struct {
		operation aivensim.Operation // the call during which the process is killed
		handled   bool               // it takes effect all the same
	}{
		"before the user was made":            {operation: aivensim.ServiceUserCreate},
		"when the answer was lost":            {operation: aivensim.ServiceUserCreate, handled: true},
		"when the rights were to be given":    {operation: aivensim.ServiceKafkaACLAdd},
		"when the rights had just been given": {operation: aivensim.ServiceKafkaACLAdd, handled: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			before := len(w.Kafka.KafkaACLs())
			arrived, killed := make(chan struct{}), make(chan struct{})
			w.Sim.Inject(aivensim.Rule{Operation: tc.operation, Count: 1, Reset: true, Commit: tc.handled, Before: func(aivensim.Request) {
				close(arrived)
				<-killed
			}})
			w.Start()
			w.Apply("cart", kafka(world.Pool))
			select {
			case <-arrived:
			case <-time.After(world.Deadline):
				close(killed)
				t.Fatalf("%s was never called", tc.operation)
			}
			w.Kill()
			close(killed)
			if err := w.Get(t.Context(), w.Key("creds"), &corev1.Secret{}); !apierrors.IsNotFound(err) {
				t.Fatalf("there is a Secret already: %v", err)
			}
			w.Start()
			w.Ready("cart")
			w.UsersAre(w.Kafka, logsIn(w, "creds"))
			if acls := w.Kafka.KafkaACLs(); len(acls) != before+1 {
				t.Errorf("ACL entries %+v, want one more than %d", acls, before)
			}
		})
	}
}

func TestLostAnswerMakesOneUser(t *testing.T) {
	tests := map[string]aivensim.Rule{
		"the connection was closed":    {Reset: true},
		"a gateway timed out":          {Answer: &aivensim.Answer{Status: http.StatusGatewayTimeout, Body: "<html>"}},
		"the body cannot be read":      {Answer: &aivensim.Answer{Status: http.StatusOK, Body: "{"}},
		"the body speaks of no user":   {Answer: &aivensim.Answer{Status: http.StatusOK, Body: "{}"}},
		"the server failed internally": {Answer: &aivensim.Answer{Status: http.StatusInternalServerError}},
	}
	for name, rule := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			rule.Operation, rule.Count, rule.Commit = aivensim.ServiceUserCreate, 1, true
			w.Sim.Inject(rule)
			w.Start()
			w.Apply("cart", kafka(world.Pool))
			w.Ready("cart")
			w.UsersAre(w.Kafka, logsIn(w, "creds"))
		})
	}
}

func TestNameTakenByAStranger(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	var name atomic.Value
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Count: 1, Before: func(r aivensim.Request) {
		name.Store(r.Username)
		w.Kafka.AddUser(aivensim.User{Username: r.Username})
	}})
	w.Start()
	w.Apply("cart", kafka(world.Pool))
	w.Ready("cart")
	stranger := name.Load().(string)
	user := logsIn(w, "creds")
	if user == stranger {
		t.Fatalf("the stranger's user %s was adopted", user)
	}
	w.UsersAre(w.Kafka, user, stranger)
	w.Remove(w.App("cart"))
	w.Gone(&v1.AivenApplication{}, "cart")
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka, stranger)
	if u, _ := w.Kafka.User(stranger); u.Generation != 1 {
		t.Errorf("the credentials of the stranger's user were changed")
	}
}

func TestCredentialsThatAreNotThereYet(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Sim.SetLag(aivensim.Lag{Credentials: 12 * time.Second})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}})
	w.Apply("shop", v1.AivenApplicationSpec{SecretName: "cache", Valkey: []v1.Valkey{{Instance: "cache"}}})
	for app, secret := range map[string]string{"cart": "creds", "shop": "cache"} {
		w.NotReady(app, binding.ReasonCredentials)
		if err := w.Get(t.Context(), w.Key(secret), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("there is a Secret %s already: %v", secret, err)
		}
	}
	for app, secret := range map[string]string{"cart": "creds", "shop": "cache"} {
		w.Ready(app)
		for k, v := range w.Secret(secret).Data {
			if len(v) == 0 {
				t.Errorf("%s is empty", k)
			}
		}
	}
	logsIn(w, "creds")
	if n := w.Metric(failures); n != 0 {
		t.Errorf("%v failures were counted, want none", n)
	}
	if n := w.Sim.Counters().Requests[aivensim.ServiceUserCreate]; n != 2 {
		t.Errorf("%d users were created, want two", n)
	}
}

func TestKeyThatCannotBeParsed(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	var broken atomic.Bool
	broken.Store(true)
	garbage := regexp.MustCompile(`("access_key":"-----BEGIN PRIVATE KEY-----\\n).{20}`)
	server := rewrite(t, w.Sim, func(body []byte) []byte {
		if broken.Load() {
			return garbage.ReplaceAll(body, []byte("${1}AAAAAAAAAAAAAAAAAAAA"))
		}
		return body
	})
	w.Start("--aiven-url="+server.URL, "--snapshot-age=1s")
	w.Apply("cart", kafka(world.Pool))
	app := w.NotReady("cart", binding.ReasonBadCredentials)
	if text := message(app); !strings.Contains(text, "key") || strings.Contains(text, "AAAA") {
		t.Errorf("the message does not say what cannot be parsed, or shows it: %s", text)
	}
	w.Passes(3)
	users := world.Users(w.Kafka)
	if len(users) != 1 {
		t.Fatalf("users %v, want one", users)
	}
	if err := w.Get(t.Context(), w.Key("creds"), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a Secret: %v", err)
	}
	w.Restart("--aiven-url="+server.URL, "--snapshot-age=1s")
	w.Passes(1)
	broken.Store(false)
	w.Ready("cart")
	logsIn(w, "creds")
	w.UsersAre(w.Kafka, users...)
	if n := w.Sim.Counters().UsersCreated; n != 1 {
		t.Errorf("%d users were made, want one in all", n)
	}
}

// rewrite is a server that changes the bodies that another one answers.
func rewrite(t *testing.T, to http.Handler, change func([]byte) []byte) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		to.ServeHTTP(answer, r)
		body, err := io.ReadAll(answer.Result().Body)
		if err != nil {
			t.Error(err)
		}
		body = bytes.Clone(change(body))
		for name, values := range answer.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body) // the client may have gone
	}))
	t.Cleanup(server.Close)
	return server
}

func TestAdministratorsCredentialsAreNeverPublished(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	services := []*aivensim.Service{
		w.Kafka, w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{}), w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{Replica: true}),
	}
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache"}},
	})
	w.Ready("cart")
	data := w.Secret("creds").Data
	for _, s := range services {
		for _, u := range s.Users() {
			if u.Type == "normal" {
				continue
			}
			for _, canary := range []string{u.Username, u.Password, u.AccessCert, u.AccessKey} {
				for k, v := range data {
					if canary != "" && u.Username != "default" && bytes.Contains(v, []byte(canary)) {
						t.Errorf("%s holds a credential of user %s of %s", k, u.Username, s.Name())
					}
				}
			}
		}
	}
}
