//go:build k8srequired

package chart

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	framework "github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/service/controller"
)

func kafka(secret string) v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: secret}}
}

// manual are the commands that the README of the chart gives after a text, as one who works in the namespace of a world alone would type them.
func manual(t *testing.T, w *world.World, after string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(env.Chart(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), after)
	if !ok {
		t.Fatalf("the README does not say %q", after)
	}
	var all strings.Builder
	for {
		text, rest, _ := strings.Cut(section, "```sh\n")
		if all.Len() > 0 && (strings.Contains(text, "\n## ") || strings.Contains(text, "\n**")) || rest == "" {
			break
		}
		commands, next, _ := strings.Cut(rest, "```\n")
		all.WriteString(commands)
		section = next
	}
	return strings.NewReplacer("--all-namespaces", "--namespace "+w.Namespace, "--namespace keysmith", "--namespace "+w.Namespace).Replace(all.String())
}

// follow runs the commands that the README gives after a text.
func (i *installed) follow(after string) {
	i.t.Helper()
	commands := manual(i.t, i.World, after)
	if out, _, err := shell(i.t, commands); err != nil {
		i.t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
}

func TestLifeOfAnInstallation(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	i := newInstalled(t, w)

	// The Pods are admitted where others are not.
	i.pods(2)
	loose := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "loose", Image: "loose"}}}}
	loose.Namespace, loose.Name = w.Namespace, "loose"
	if err := w.Create(t.Context(), loose, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("the namespace takes any Pod: %v", err)
	}

	i.Run(i.options())
	i.Eventually(func(ctx context.Context) error { return i.Operator.Ready(ctx) })
	i.Apply("cart", kafka("cart"))
	i.Ready("cart")
	before := i.Secret("cart")

	// An upgrade keeps what was set, and restarts the operator.
	i.helm("upgrade", "--set=logLevel=debug", "--set-string=aiven.token= "+world.Token+"\n")
	i.Stop()
	i.Run(i.options())
	i.Apply("till", kafka("till"))
	i.Ready("till")
	i.Touch("cart", 1)
	if diff := cmp.Diff(before, i.Secret("cart")); diff != "" {
		t.Errorf("the upgrade changed a Secret (-before +after):\n%s", diff)
	}

	i.follow("**With everything that keysmith made.**")
	for _, name := range []string{"cart", "till"} {
		i.Gone(&v1.AivenApplication{}, name)
		i.Gone(&corev1.Secret{}, name)
	}
	i.UsersAre(i.Kafka)
	i.Stop()
	i.nothingLeft()
}

// nothingLeft fails the test if an object of the chart is still there.
func (i *installed) nothingLeft() {
	i.t.Helper()
	out, _, err := shell(i.t, `kubectl get deployments,secrets,configmaps,serviceaccounts,services,roles,rolebindings,poddisruptionbudgets,networkpolicies \
		--namespace "$1" --selector app.kubernetes.io/name=keysmith --output name
		kubectl get clusterroles,clusterrolebindings --output name | grep -F "/$1" || true`, i.Namespace)
	if err != nil || out != "" {
		i.t.Errorf("left: %v\n%s", err, out)
	}
}

func TestUninstallingLeavesCredentialsAtWork(t *testing.T) {
	t.Parallel()
	const foreign = "example.com/backup"
	w := world.New(t)
	i := newInstalled(t, w)
	i.Run(i.options())
	for _, name := range []string{"cart", "till"} {
		i.Apply(name, kafka(name))
		i.Ready(name)
	}
	i.Stop()
	i.ChangeSecret("till", func(s *corev1.Secret) { s.Finalizers = append(s.Finalizers, foreign) })
	users := world.Users(i.Kafka)
	i.Remove(i.Secret("cart")) // it waits for keysmith
	if finalizers := i.Secret("cart").Finalizers; len(finalizers) == 0 {
		t.Fatal("the Secret has no finalizer")
	}

	i.follow("**Leaving credentials at work.**")
	i.nothingLeft()
	i.Gone(&corev1.Secret{}, "cart")
	if diff := cmp.Diff([]string{foreign}, i.Secret("till").Finalizers); diff != "" {
		t.Errorf("finalizers of a Secret (-want +got):\n%s", diff)
	}
	i.ChangeSecret("till", func(s *corev1.Secret) { s.Finalizers = nil })
	for _, name := range []string{"cart", "till"} {
		i.Remove(i.App(name))
		i.Gone(&v1.AivenApplication{}, name)
	}
	i.Remove(i.Secret("till"))
	i.Gone(&corev1.Secret{}, "till")
	i.UsersAre(i.Kafka, users...)
}

// The finalizers that the README takes off are those that the operator knows.
func TestTheReadmeNamesTheFinalizers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(env.Chart(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{controller.ApplicationName, controller.SecretName} {
		if !strings.Contains(string(page), `"`+framework.Finalizer(name)+`"`) {
			t.Errorf("the README does not take off %s", framework.Finalizer(name))
		}
	}
}

// ruleSet are rules in no order.
func ruleSet(rules []rbacv1.PolicyRule) map[string]bool {
	set := map[string]bool{}
	for _, r := range rules {
		set[r.String()] = true
	}
	return set
}

func TestInstalledAsTheReadmeSays(t *testing.T) {
	t.Setenv("AIVEN_TOKEN", world.Token)
	w := world.New(t)
	t.Cleanup(func() { uninstall(t, w.Namespace) })
	for _, after := range []string{"# The chart of keysmith", "## Upgrade"} {
		commands := manual(t, w, after)
		commands, _, _ = strings.Cut(commands, "kubectl -n keysmith") // looks at Pods, which do not run here
		if out, _, err := shell(t, commands); err != nil {
			t.Fatalf("%v\n%s\n%s", err, commands, out)
		}
	}
	// One that works in all namespaces has the rights that the tests run with.
	var role rbacv1.ClusterRole
	if err := newClient(t).Get(t.Context(), client.ObjectKey{Name: name}, &role); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ruleSet(world.ReadRules(t).Cluster()), ruleSet(role.Rules)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// definitions are the custom resource definitions of others that the chart can use, as files of their modules.
var definitions = map[string][]string{
	"github.com/cilium/cilium@v1.20.2": {"pkg/k8s/apis/cilium.io/client/crds/v2/ciliumnetworkpolicies.yaml"},
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
	},
	"k8s.io/autoscaler/vertical-pod-autoscaler@v1.8.1": {"deploy/vpa-v1-crd-gen.yaml"},
}

// define adds the definitions that the cluster does not have. They stay until the test ends.
func define(t *testing.T) {
	t.Helper()
	for module, files := range definitions {
		raw, err := exec.Command("go", "mod", "download", "-json", module).Output()
		if err != nil {
			t.Fatalf("fetch %s: %v\n%s", module, err, raw)
		}
		var where struct{ Dir string }
		if err := json.Unmarshal(raw, &where); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			path := filepath.Join(where.Dir, file)
			_, _, err := shell(t, `kubectl create --filename "$1"`, path)
			switch {
			case err == nil:
				t.Cleanup(func() {
					if _, _, err := shell(t, `kubectl delete --filename "$1"`, path); err != nil {
						t.Error(err)
					}
				})
			case !strings.Contains(err.Error(), "already exists"):
				t.Fatal(err)
			}
			env.Eventually(t, world.Deadline, func(context.Context) error {
				_, _, err := shell(t, `kubectl get --raw "/apis/$(kubectl get --filename "$1" --output jsonpath="{.spec.group}/{.spec.versions[0].name}/{.spec.names.plural}")"`, path)
				return err
			})
		}
	}
}

func TestTheAPIServerTakesEveryObject(t *testing.T) {
	t.Parallel()
	define(t)
	for _, values := range variants {
		t.Run(values, func(t *testing.T) {
			ns := world.New(t).Namespace
			t.Cleanup(func() { uninstall(t, ns) })
			out, warnings, err := helm(t, "install", name, "helm/keysmith", "--namespace="+ns, "--values="+variant(t, values),
				"--set=fullnameOverride="+ns+",namespaces={"+ns+"}", "--set=prometheusRule.enabled=true,dashboard.enabled=true") // these are too long for a golden file
			if err != nil || warnings != "" {
				t.Errorf("install: %v, warnings %q\n%s", err, warnings, out)
			}
		})
	}
}
