//go:build k8srequired

// Package firststeps follows the first steps of the first page word for word: its commands are run as they stand there, with the local
// cluster in the place of kind, the simulator in the place of Aiven, and processes in the place of Pods. helm and kubectl are the real ones.
package firststeps

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/controlplane"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/service"
)

func TestMain(m *testing.M) { world.Run(m) }

const (
	project = "dev"
	token   = "avnT_first_steps"
	// limit is how long all of it may take: what is built may have to be built from nothing.
	limit = 15 * time.Minute
)

var block = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// commands are the blocks of shell commands of the section.
func commands(t *testing.T, root string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## First steps\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var out []string
	for _, m := range block.FindAllStringSubmatch(section, -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatal("README.md has no commands in a section First steps")
	}
	return out
}

// kind stands in for the program of that name: the cluster is there already, and the images that it loads only have to exist.
const kind = `#!/bin/sh -e
case "$1 $2" in
"create cluster") mkdir -p "$HOME/.kube" && cp "$KIND_KUBECONFIG" "$HOME/.kube/config" ;;
"load image-archive") tar -xOf "$3" index.json | tr ',{}' '\n' | sed -n 's/.*"io.containerd.image.name": *"\(.*\)".*/\1/p' >>"$KIND_IMAGES" ;;
"delete cluster") rm "$HOME/.kube/config" ;;
*) echo "kind: unexpected: $*" >&2; exit 2 ;;
esac
`

// programs are the folders of kind, helm and kubectl, for PATH. Those of hack/helm are built where the cache does not have them.
func programs(t *testing.T, root string) string {
	t.Helper()
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "kind"), []byte(kind), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"helm", "kubectl"} {
		cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "hack", "helm"), "tool", "-n", name)
		cmd.Stderr = os.Stderr
		program, err := cmd.Output()
		if err != nil {
			t.Fatalf("build %s: %v", name, err)
		}
		path += string(os.PathListSeparator) + filepath.Dir(string(program))
	}
	return path
}

// cluster starts a cluster as kind makes one: without any custom resources.
func cluster(t *testing.T) (kubeconfig string, c client.Client) {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	scheme := service.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if c, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteAllOf(t.Context(), &apiextensionsv1.CustomResourceDefinition{}); err != nil {
		t.Fatal(err)
	}
	return plane.Kubeconfig(), c
}

// shell runs commands in a folder, as somebody does who pastes them one block after the other.
type shell struct {
	dir string
	env []string
}

func (s shell) run(ctx context.Context, commands string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = s.dir, s.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func goEnv(t *testing.T, names ...string) []string {
	t.Helper()
	var env []string
	for _, name := range names {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	return env
}

func TestTheFirstPageLeadsFromNothingToASecret(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	path, home := programs(t, root), t.TempDir()
	kubeconfig, c := cluster(t)
	api, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}

	sim := aivensim.New(aivensim.Options{Token: token, Seed: 1})
	kafka := sim.AddProject(project).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	aiven := httptest.NewServer(sim)
	t.Cleanup(aiven.Close)

	node := &kubelet{
		Client: c, api: api, dir: t.TempDir(), binary: world.Binary(t), images: filepath.Join(home, "images"), namespace: "keysmith",
		args: []string{"--aiven-url=" + aiven.URL, "--janitor-grace=1s"}, pods: map[types.UID]*operator.Process{},
	}
	var kubelets sync.WaitGroup
	nodeCtx, stop := context.WithCancel(ctx)
	kubelets.Go(func() {
		node.run(nodeCtx, func(err error) {
			t.Error(err)
			cancel()
		})
	})
	t.Cleanup(func() {
		stop()
		kubelets.Wait()
		if strings.Contains(node.log(), "DATA RACE") {
			t.Error("the operator has a data race")
		}
		if t.Failed() {
			t.Logf("the log of the operator:\n%s", node.log())
		}
	})

	s := shell{dir: root, env: append(goEnv(t, "GOCACHE", "GOMODCACHE", "GOFLAGS"),
		"PATH="+path+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+home, "AIVEN_TOKEN="+token, "AIVEN_PROJECT="+project,
		"KIND_KUBECONFIG="+kubeconfig, "KIND_IMAGES="+node.images,
	)}
	var brokers string
	for _, component := range kafka.Components() {
		if component.Component == "kafka" {
			brokers = fmt.Sprintf("%s:%d", component.Host, component.Port)
		}
	}
	users := func() int { return len(kafka.Users()) - 1 } // but for the administrator
	most, shown := 0, false
	for i, text := range commands(t, root) {
		out, err := s.run(ctx, text)
		t.Logf("%s\n%s", text, out)
		if err != nil {
			t.Fatalf("block %d: %v", i+1, err)
		}
		most = max(most, users())
		shown = shown || strings.Contains(out, brokers)
	}
	if most != 1 || users() != 0 {
		t.Errorf("Aiven had %d users and has %d, want 1 and then 0", most, users())
	}
	if !shown {
		t.Errorf("no command showed the address of the brokers, %s", brokers)
	}
}
