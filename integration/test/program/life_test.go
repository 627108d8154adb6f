//go:build k8srequired

package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// logsIn fails the test unless the Secret's Kafka credentials work, and returns the user.
func logsIn(w *world.World, secret string) string {
	s := w.Secret(secret)
	user := string(s.Data[key.KafkaSchemaRegistryUser])
	w.Login(world.Pool, w.Kafka, user, string(s.Data[key.KafkaSchemaRegistryPassword]))
	return user
}

// ready waits until the readiness check answers as wanted: well, or with a reason that contains a text.
func ready(w *world.World, want string) {
	w.Eventually(func(ctx context.Context) error {
		err := w.Operator.Ready(ctx)
		switch {
		case want == "":
			return err
		case err == nil:
			return errors.New("the operator says that it is ready")
		case !strings.Contains(err.Error(), want):
			return fmt.Errorf("want a reason with %q, got: %w", want, err)
		}
		return nil
	})
}

func TestAivenIsAwayAtTheStart(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	address, err := operator.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	w.Start("--aiven-url=http://" + address)
	ready(w, address+": connect: connection refused")
	w.Apply("cart", kafka("creds"))
	w.NotReady("cart", "AivenFailure")
	if n := w.Metric("keysmith_aiven_token_valid"); n != 1 {
		t.Errorf("an API that is away says something of the token: %v", n)
	}

	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(w.Sim)
	if err := server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	w.Ready("cart")
	ready(w, "")
	logsIn(w, "creds")
	select {
	case <-w.Operator.Done():
		t.Error("the operator has ended")
	default:
	}
}

func TestTokenFileIsReadAgain(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	path := write(t, "token", "avnT_first\n")
	w.Sim.SetToken("avnT_first", aivensim.Token{})
	options := w.Options("--aiven-token-file="+path, "--snapshot-age=1s")
	options.Env = nil
	w.Run(options)
	w.Apply("cart", kafka("creds"))
	w.Ready("cart")

	w.Sim.RevokeToken("avnT_first")
	w.Apply("next", kafka("next"))
	w.NotReady("next", "AivenUnauthorized")
	w.Sim.SetToken("avnT_second", aivensim.Token{})
	renewed := write(t, "token", "  avnT_second\n")
	if err := os.Rename(renewed, path); err != nil {
		t.Fatal(err)
	}
	w.Ready("next")
	w.MetricIs("keysmith_aiven_token_valid", 1)
	w.Stop()
}

func TestGracefulStop(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	arrived := make(chan struct{})
	stopping := make(chan struct{})
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Count: 1, Before: func(aivensim.Request) {
		close(arrived)
		<-stopping
	}})
	w.Start()
	w.Apply("cart", kafka("creds"))
	<-arrived
	process := w.Operator
	type end struct {
		status int
		err    error
	}
	ended := make(chan end)
	go func() {
		status, err := process.Stop(30 * time.Second)
		ended <- end{status, err}
	}()
	w.Eventually(func(context.Context) error { // nothing else tells that the signal has arrived
		if !strings.Contains(process.Log(), "Stopping and waiting") {
			return errors.New("the operator is not stopping yet")
		}
		return nil
	})
	w.Apply("late", kafka("late"))
	close(stopping)
	if e := <-ended; e.status != 0 || e.err != nil {
		t.Errorf("exit status %d, %v", e.status, e.err)
	}
	user := logsIn(w, "creds")
	if app := w.App("late"); len(app.Finalizers)+len(app.Status.Bindings) != 0 {
		t.Errorf("new work was begun after the signal: %+v", app)
	}
	w.UsersAre(w.Kafka, user)

	w.Start()
	w.Ready("cart")
	w.Ready("late")
}

func TestTwoReplicas(t *testing.T) {
	tests := map[string]struct {
		end  func(*operator.Process) error
		most time.Duration // until the other one leads
		all  bool          // one after the other is replaced, as an update of the Deployment does
	}{
		"the leader is stopped": {end: stop, most: 30 * time.Second}, // it lets the lease go
		"all are replaced":      {end: stop, most: 30 * time.Second, all: true},
		"the leader crashes": { // the lease has to run out
			end:  func(p *operator.Process) error { p.Kill(); return nil },
			most: time.Minute,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Sim.SetLatency(20 * time.Millisecond)
			w.Sim.Adjust(func(s *aivensim.Settings) { s.UserLimit = -1 })
			w.Start("--workers=2", "--leader-election=true")
			first := w.Operator
			w.MetricIs(`leader_election_master_status{name="keysmith"}`, 1)
			w.Start("--workers=2", "--leader-election=true")
			t.Cleanup(first.Kill)
			ready(w, "")
			const n = 100
			app := func(i int) string { return fmt.Sprintf("app-%03d", i) }
			for i := range n {
				w.Apply(app(i), kafka(app(i)))
			}
			w.Ready(app(0))
			if w.Metric(`leader_election_master_status{name="keysmith"}`) != 0 {
				t.Fatal("the second replica leads too")
			}
			if n := w.Metric("aivenator_secrets_managed"); n != 0 {
				t.Errorf("the janitor ran in the second replica")
			}
			replace := func(leader *operator.Process) {
				began := time.Now()
				if err := tc.end(leader); err != nil {
					t.Error(err)
				}
				w.MetricIs(`leader_election_master_status{name="keysmith"}`, 1)
				if took := time.Since(began); took > tc.most {
					t.Errorf("the hand-over took %s, want at most %s", took, tc.most)
				}
			}
			replace(first)
			if tc.all {
				second := w.Operator
				w.Start("--workers=2", "--leader-election=true")
				t.Cleanup(second.Kill)
				ready(w, "")
				replace(second)
			}
			users := make([]string, 0, n)
			for i := range n {
				w.Ready(app(i))
				users = append(users, logsIn(w, app(i)))
			}
			w.UsersAre(w.Kafka, users...)
		})
	}
}

func stop(p *operator.Process) error {
	if status, err := p.Stop(30 * time.Second); err != nil || status != 0 {
		return fmt.Errorf("exit status %d, %v", status, err)
	}
	return nil
}

func TestNothingShowsACredential(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	away := httptest.NewServer(w.Sim)
	options := w.Options("--log-level=debug", "--snapshot-age=1s", "--resync=1s", "--aiven-url="+away.URL, "--aiven-token-file="+write(t, "token", world.Token+"\n"))
	options.Env = nil
	w.Run(options)
	spec := func(secret string) v1.AivenApplicationSpec {
		return v1.AivenApplicationSpec{
			SecretName: secret, Kafka: &v1.Kafka{Pool: world.Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache"}},
		}
	}
	w.Apply("cart", spec("creds"))
	w.Ready("cart")
	shown := w.Canaries()

	// An answer that shows credentials and cannot be used, and an error that quotes the token.
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Count: 2, Answer: &aivensim.Answer{
		Status: http.StatusOK, Body: `{"user":{"username":"x","password":"` + world.Token + `"}}`,
	}})
	w.Sim.Inject(aivensim.Rule{
		Operation: aivensim.ServiceUserCreate, Count: 2, Answer: aivensim.Error(http.StatusBadGateway, "", "aivenv1 "+world.Token+" is strange"),
	})
	w.Apply("next", spec("next"))
	w.Ready("next")
	w.Sim.RevokeToken(world.Token)
	w.NotReady("cart", "AivenUnauthorized")
	away.Close()
	w.NotReady("cart", "AivenFailure")
	maps.Copy(shown, w.Canaries())

	printed := map[string]string{"the log": w.Operator.Log()}
	for _, path := range []string{w.Operator.Metrics + "/metrics", w.Operator.Health + "/readyz?verbose", w.Operator.Health + "/readyz/aiven"} {
		printed[path] = get(t, path)
	}
	for _, list := range []client.ObjectList{&v1.AivenApplicationList{}, &eventsv1.EventList{}, &corev1.EventList{}} {
		if err := w.List(t.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		printed[fmt.Sprintf("%T", list)] = string(raw)
	}
	for where, text := range printed {
		if text == "" {
			t.Errorf("%s is empty", where)
		}
		for what, canary := range shown {
			if canary != "" && strings.Contains(text, canary) {
				t.Errorf("%s shows %s", where, what)
			}
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A process that stood still while another one took the lease goes on where it stood, and does not know. What it was at is the other's now.
func TestAProcessThatStoodStillChangesNothing(t *testing.T) {
	t.Parallel()
	const token = "avnT_stands_still"
	w := world.New(t)
	w.Sim.SetToken(token, aivensim.Token{})
	options := w.Options("--leader-election=true")
	options.Env = []string{"AIVENATOR_AIVEN_TOKEN=" + token}
	w.Run(options)
	first := w.Operator
	t.Cleanup(first.Kill)
	w.MetricIs(`leader_election_master_status{name="keysmith"}`, 1)
	w.Start("--leader-election=true")
	ready(w, "")

	creating := w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Token: aivensim.TokenID(token), Delay: 2 * time.Second})
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds", ACL: []v1.KafkaACL{{Topic: "orders"}}}})
	w.Eventually(func(context.Context) error {
		if creating.Hits() == 0 {
			return errors.New("no user is being made")
		}
		return nil
	})
	if err := syscall.Kill(first.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.MetricIs(`leader_election_master_status{name="keysmith"}`, 1)
	w.Ready("cart")
	thawed := w.Sim.Now()
	if err := syscall.Kill(first.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Done():
	case <-time.After(world.Deadline):
		t.Fatal("it never notices that another one leads")
	}
	for _, e := range w.Sim.Journal() {
		if e.Token == aivensim.TokenID(token) && e.Method != http.MethodGet && e.Time.After(thawed) {
			t.Errorf("%s of %s %s after it went on", e.Operation, e.Username, e.Time.Sub(thawed))
		}
	}
	w.UsersAre(w.Kafka, logsIn(w, "creds"))
}
