//go:build k8srequired

package client

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// get has the command of the operator's own program write the files for a tool, and returns where they are.
func get(t *testing.T, w *world.World, secret, tool string) (path func(file string) string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "it's "+tool) // a name that has to be quoted
	cmd := exec.CommandContext(t.Context(), world.Binary(t), "get", w.Namespace+"/"+secret, "--for", tool, "--dir", dir, "--kubeconfig", os.Getenv(env.Kubeconfig))
	if _, err := output(cmd); err != nil {
		t.Fatal(err)
	}
	return func(file string) string { return filepath.Join(dir, file) }
}

func TestToolsReadTheFilesThatAreWrittenForThem(t *testing.T) {
	for name, args := range settings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			b := newBroker(t, w.Sim.Project(world.Pool))
			port, err := strconv.Atoi(b.port)
			if err != nil {
				t.Fatal(err)
			}
			w.Kafka.SetAddress(b.host, port)
			w.Start(args...)
			w.Apply("cart", kafka())
			username := w.Ready("cart").Status.Bindings[0].Username

			for tool, enter := range map[string]func() (string, error){
				"java": func() (string, error) {
					settings, err := os.ReadFile(get(t, w, "creds", "java")("client.properties"))
					if err != nil {
						return "", err
					}
					return java(t, settings, 1, b)
				},
				"kcat": func() (string, error) {
					settings, err := os.ReadFile(get(t, w, "creds", "kcat")("kcat.conf"))
					if err != nil {
						return "", err
					}
					return kcat(t, settings, b)
				},
			} {
				if name, err := enter(); err != nil || name != username {
					t.Errorf("%s: let in as %q, want %q (%v)", tool, name, username, err)
				}
			}
		})
	}
}

func TestTheScriptForAValkeyInstanceLogsIn(t *testing.T) {
	t.Parallel()
	w, _ := newCache(t)
	w.Apply("cart", valkey(v1.AccessRead, "creds"))
	w.Ready("cart")
	path := get(t, w, "creds", "valkey-cli")
	out, err := output(exec.CommandContext(t.Context(), "sh", path(cache+".sh"), "--cacert", path("ca.pem"), "PING"))
	if err != nil || out != "PONG" {
		t.Errorf("PING is answered with %q (%v)", out, err)
	}
}
