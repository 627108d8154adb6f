//go:build k8srequired

package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

func TestARefusedTokenIsTheOperatorsTrouble(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(world.Token)
	options := w.Options("--aiven-token-file="+path, "--log-level=info", "--snapshot-age=1s", "--resync=2s")
	options.Env = nil
	w.Run(options)
	const apps = 5
	name := func(i int) string { return fmt.Sprintf("app-%d", i) }
	versions := map[string]string{}
	for i := range apps {
		w.Apply(name(i), v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: name(i)}})
		w.Ready(name(i))
		versions[name(i)] = w.Secret(name(i)).ResourceVersion
	}
	w.Eventually(w.Operator.Ready)

	w.Sim.RevokeToken(world.Token)
	for i := range apps {
		w.NotReady(name(i), "AivenUnauthorized")
	}
	w.MetricIs("keysmith_aiven_token_valid", 0)
	w.Eventually(func(ctx context.Context) error {
		if err := w.Operator.Ready(ctx); err == nil {
			return errors.New("the operator says that it is ready")
		}
		return nil
	})
	for i := range apps {
		if got := w.Secret(name(i)).ResourceVersion; got != versions[name(i)] {
			t.Errorf("Secret %s was written", name(i))
		}
	}
	if n := w.Metric(`operatorkit_controller_errors_total`); n != 0 {
		t.Errorf("%v failures of objects were counted, want none", n)
	}
	if n := strings.Count(w.Operator.Log(), `"level":"error"`); n != 1 {
		t.Errorf("%d lines about errors, want one:\n%s", n, w.Operator.Log())
	}

	w.Sim.SetToken("avnT_another", aivensim.Token{})
	write("avnT_another")
	for i := range apps {
		w.Ready(name(i))
	}
	w.MetricIs("keysmith_aiven_token_valid", 1)
	w.Eventually(w.Operator.Ready)
	for i := range apps {
		if got := w.Secret(name(i)).ResourceVersion; got != versions[name(i)] {
			t.Errorf("Secret %s was written", name(i))
		}
	}
	if n := len(world.Users(w.Kafka)); n != apps {
		t.Errorf("%d users, want %d", n, apps)
	}
}
