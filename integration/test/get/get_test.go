//go:build k8srequired

// Package get shows that keysmith get writes the credentials of a Secret for each tool, and nothing to the terminal.
package get

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keysmith-io/keysmith/command/get"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

func TestEveryToolGetsItsFiles(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache"}},
	})
	w.Ready("cart")
	data := w.Secret("creds").Data
	// The right to read this Secret is enough.
	jane := w.Person("jane", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"creds"}, Verbs: []string{"get"}})
	// A file of each tool that holds a credential, and the credential.
	holds := map[get.Tool][2]string{
		get.Kcat:       {"client.key", string(data[key.KafkaPrivateKey])},
		get.Java:       {"client.keystore.p12", string(data[key.KafkaKeyStore])},
		get.Env:        {".env", string(data[key.KafkaSchemaRegistryPassword])},
		get.ValkeyCLI:  {"cache.password", string(data["VALKEY_PASSWORD_CACHE"])},
		get.OpenSearch: {"curl.conf", string(data[key.OpenSearchPassword])},
	}
	for _, tool := range get.Tools {
		dir := filepath.Join(t.TempDir(), "creds")
		out, stderr, status := w.Command(jane, "", "get", "creds", "--for", string(tool), "--dir", dir)
		if status != 0 || stderr != "" {
			t.Errorf("%s: status %d, %s", tool, status, stderr)
			continue
		}
		for what, canary := range w.Canaries() {
			if canary != "" && strings.Contains(out, canary) {
				t.Errorf("%s: the terminal shows %s", tool, what)
			}
		}
		raw, err := os.ReadFile(filepath.Join(dir, holds[tool][0]))
		if err != nil || holds[tool][1] == "" || !strings.Contains(string(raw), holds[tool][1]) {
			t.Errorf("%s: %s does not hold the credential: %v", tool, holds[tool][0], err)
		}
		if !strings.Contains(out, "Next:\n  ") || !strings.Contains(out, dir) {
			t.Errorf("%s: it does not say what is next: %s", tool, out)
		}
		if _, stderr, status := w.Command(jane, "", "get", "creds", "--for", string(tool), "--dir", dir); status != 1 || !strings.Contains(stderr, "--force") {
			t.Errorf("%s again: status %d, %s", tool, status, stderr)
		}
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Ready("cart")
	at := w.Namespace + "/creds"
	tests := map[string]struct {
		kubeconfig string
		args       []string
		status     int
		want       string
	}{
		"it is another service's": {"", []string{at, "--for", "opensearch"}, 1, "it has no key OPEN_SEARCH_URI, which --for opensearch needs; it has what these need: --for kcat, java, env"},
		"there is none":           {"", []string{w.Namespace + "/nothing", "--for", "kcat"}, 1, "there is no Secret"},
		"it may not be read":      {w.Person("jane"), []string{at, "--for", "kcat"}, 1, "you (jane) lack the right to get secrets in namespace " + w.Namespace},
		"there is no such tool":   {"", []string{at, "--for", "psql"}, 2, "kcat, java, env, valkey-cli, opensearch"},
		"no tool is named":        {"", []string{at}, 2, "--for"},
	}
	for name, tt := range tests {
		dir := filepath.Join(t.TempDir(), "creds")
		out, stderr, status := w.Command(tt.kubeconfig, "", append([]string{"get", "--dir", dir}, tt.args...)...)
		if status != tt.status || !strings.Contains(stderr, tt.want) || out != "" {
			t.Errorf("%s: status %d, %s, %s", name, status, out, stderr)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: a directory was made", name)
		}
	}
}
