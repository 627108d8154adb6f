//go:build k8srequired

package provision

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// What the README shows as a first application works as it stands there, but for the namespace.
func TestTheFirstApplicationOfTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```yaml\n")
	manifest, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the README shows no manifest")
	}
	app := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), app); err != nil {
		t.Fatal(err)
	}
	w := world.New(t)
	w.Instance(binding.Valkey, "sessions", aivensim.ServiceConfig{Replica: true})
	w.Start()
	app.SetNamespace(w.Namespace)
	if err := w.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	w.Ready("cart")
	// Every key of the tables that follow is in one of the Secrets; those of the OpenSearch service it does not ask for are not in tables.
	tables, _, _ := strings.Cut(rest, "OpenSearch (`spec.openSearch")
	for i, part := range strings.Split(tables, "`") {
		key := strings.TrimPrefix(part, "`")
		isKey := strings.HasPrefix(key, "KAFKA_") || strings.HasPrefix(key, "VALKEY_") || strings.HasPrefix(key, "client.")
		if i%2 == 0 || !isKey {
			continue
		}
		if w.Secret("cart-kafka").Data[key] == nil && w.Secret("cart-valkey").Data[key] == nil {
			t.Errorf("no Secret has %s", key)
		}
	}
}
