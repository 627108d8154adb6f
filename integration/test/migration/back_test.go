//go:build k8srequired

package migration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	framework "github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/service/controller"
)

const foreign = "example.com/hold"

// commands are the blocks for a shell in a section of the page about the migration, with the namespace of a test in the place of all.
func commands(t *testing.T, section, namespace string) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n## "+section+"\n")
	if !found {
		t.Fatalf("the page has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		blocks = append(blocks, strings.ReplaceAll(m[1], "--all-namespaces", "--namespace="+namespace))
	}
	return blocks
}

// kubectl returns the folder of kubectl: the one that is built from its library, or one that is installed.
func kubectl(t *testing.T) string {
	t.Helper()
	program, err := exec.CommandContext(t.Context(), "go", "-C", "../../../hack/helm", "tool", "-n", "kubectl").Output()
	if err != nil {
		installed, err := exec.LookPath("kubectl")
		if err != nil {
			t.Skip("NOT TESTED: there is no kubectl")
		}
		program = []byte(installed)
	}
	return filepath.Dir(string(program))
}

// shell runs a block as a person does, with kubectl at the test's cluster.
func shell(t *testing.T, path, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "KUBECONFIG="+os.Getenv(env.Kubeconfig), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

// What keysmith took over, and what it made, is the earlier operator's again after the commands of the page, which are run as they stand there: it finds its
// annotations, it is asked to clean up, and nothing waits for keysmith.
func TestTheWayBack(t *testing.T) {
	t.Parallel()
	path := kubectl(t)
	e := world.Inherit(t)
	e.Add("app-001")
	e.Add("app-002")
	before := e.Secret("app-001")
	e.ChangeSecret("app-002", func(s *corev1.Secret) { s.Finalizers = append(s.Finalizers, foreign) })
	e.Start()
	e.Apply("made", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "made"}})
	for _, name := range []string{"app-001", "app-002", "made"} {
		e.Ready(name)
	}
	blocks := commands(t, "The way back", e.Namespace)
	if len(blocks) != 2 {
		t.Fatalf("the section has %d blocks", len(blocks))
	}
	e.Remove(e.Secret("app-002")) // the foreign finalizer holds it
	e.Eventually(func(ctx context.Context) error {
		if got := e.Secret("app-002").Finalizers; !slices.Equal(got, []string{foreign}) {
			return fmt.Errorf("finalizers %q", got)
		}
		return nil
	})
	if got := shell(t, path, blocks[0]); got != "Secret "+e.Namespace+"/app-002\n" {
		t.Errorf("being deleted: got %q", got)
	}
	e.Merge(e.Secret("app-002"), `{"metadata":{"finalizers":null}}`)
	e.Ready("app-002") // with another Secret
	e.Eventually(func(ctx context.Context) error {
		s := &corev1.Secret{}
		return e.Get(ctx, e.Key("app-002"), s)
	})
	e.Stop()
	writes := e.Sim.Counters().Writes

	shell(t, path, blocks[1])
	ours := []string{framework.Finalizer(controller.ApplicationName), framework.Finalizer(controller.SecretName)}
	for _, name := range []string{"app-001", "app-002", "made"} {
		if got := e.Secret(name).Finalizers; !slices.Equal(got, []string{key.FinalizerAivenator}) {
			t.Errorf("Secret %s has finalizers %q", name, got)
		}
		for _, finalizer := range e.App(name).Finalizers {
			if slices.Contains(ours, finalizer) {
				t.Errorf("application %s has finalizer %s", name, finalizer)
			}
		}
	}
	after := e.Secret("app-001")
	unchanged(t, before, after)
	if got := e.Secret("made").Annotations[key.AnnotationKafkaUser]; got != e.App("made").Status.Bindings[0].Username {
		t.Errorf("the Secret records the user %q", got)
	}
	if diff := cmp.Diff("", shell(t, path, blocks[0])); diff != "" {
		t.Errorf("being deleted (-want +got):\n%s", diff)
	}

	// The earlier operator has its finalizer alone to take off. Without it nothing holds anything.
	e.Remove(e.Secret("made"))
	if s := e.Secret("made"); s.DeletionTimestamp.IsZero() {
		t.Error("the Secret is not being deleted")
	}
	e.Merge(e.Secret("made"), `{"metadata":{"finalizers":null}}`)
	e.Gone(&corev1.Secret{}, "made")
	e.Remove(e.App("made"))
	e.Gone(&v1.AivenApplication{}, "made")

	// And the way over is open again.
	e.Start()
	e.Ready("app-001")
	e.Touch("app-001", 1)
	unchanged(t, before, e.Secret("app-001"))
	if now := e.Sim.Counters().Writes; now != writes {
		t.Errorf("%d writes to Aiven on the way back and over again", now-writes)
	}
}
