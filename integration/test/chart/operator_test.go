//go:build k8srequired

package chart

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/pod"
	"github.com/keysmith-io/keysmith/integration/world"
)

// name is that of the release in every test.
const name = "keysmith"

// installed is the chart in the namespace of a world. It works in that namespace alone.
type installed struct {
	*world.World
	t    *testing.T
	apps client.Client // of newClient
}

// newClient returns a client that knows what a chart makes.
func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return env.Client(t, scheme)
}

// newInstalled installs the chart in a namespace that takes restricted Pods alone. Args are more arguments for Helm.
func newInstalled(t *testing.T, w *world.World, args ...string) *installed {
	t.Helper()
	i := &installed{World: w, t: t, apps: newClient(t)}
	ns := &corev1.Namespace{}
	ns.Name = w.Namespace
	w.Merge(ns, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/warn":"restricted"}}}`)
	t.Cleanup(func() { uninstall(t, w.Namespace) })
	i.helm("install", args...)
	return i
}

// uninstall removes what a test may have installed in a namespace: not all of it goes with that.
func uninstall(t *testing.T, namespace string) {
	t.Helper()
	if out, _, err := helm(t, "uninstall", name, "--namespace="+namespace, "--ignore-not-found"); err != nil {
		t.Errorf("uninstall: %v\n%s", err, out)
	}
}

// ownWatch is what Helm at times logs of its own watches when it no longer needs them: it says nothing of the chart.
var ownWatch = regexp.MustCompile(`(?m)^[IWE]\d{4} [\d:.]+ +\d+ reflector\.go:\d+\].*\n?`)

// helm installs or upgrades the release with the world's Aiven and a quick janitor. It fails the test if anything is warned of.
func (i *installed) helm(command string, args ...string) {
	i.t.Helper()
	all := []string{
		command, name, "helm/keysmith", "--namespace=" + i.Namespace, "--set=fullnameOverride=" + i.Namespace, // no other test has that name
		"--set=namespaces={" + i.Namespace + "}", "--set=clusterName=world", "--set=aiven.url=" + i.URL(),
		"--set=aiven.token=" + world.Token, "--set=aiven.projects={" + world.Pool + "}", "--set=aiven.mainProject=" + world.Main,
		"--set=settings.janitor-grace=1s,settings.janitor-period=2s",
	}
	out, warnings, err := helm(i.t, append(all, args...)...)
	if err != nil {
		i.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if warnings = ownWatch.ReplaceAllString(warnings, ""); warnings != "" {
		i.t.Errorf("%s: it warns: %s", command, warnings)
	}
}

// pod is the template that the Deployment makes Pods from.
func (i *installed) pod() corev1.PodSpec {
	i.t.Helper()
	var d appsv1.Deployment
	if err := i.apps.Get(i.t.Context(), i.Key(i.Namespace), &d); err != nil {
		i.t.Fatal(err)
	}
	return d.Spec.Template.Spec
}

// options are how a kubelet would run the operator. The API server is called by an address that Go does not keep from proxies.
func (i *installed) options() operator.Options {
	i.t.Helper()
	config, err := clientcmd.LoadFromFile(os.Getenv(env.Kubeconfig))
	if err != nil {
		i.t.Fatal(err)
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	if was, err := url.Parse(cluster.Server); err == nil {
		cluster.TLSServerName = was.Hostname()
	}
	cluster.Server = i.apiServer().String()
	spec := i.pod()
	options, err := pod.Options(i.t.Context(), i.apps, config, i.Namespace, &spec, i.t.TempDir())
	if err != nil {
		i.t.Fatal(err)
	}
	options.Binary = world.Binary(i.t)
	return options
}

// apiServer is the address of the API server. A loopback address is replaced by one that reaches the same machine, but is not one that Go never calls
// through a proxy.
func (i *installed) apiServer() *url.URL {
	i.t.Helper()
	u, err := url.Parse(env.Config(i.t).Host)
	if err != nil {
		i.t.Fatal(err)
	}
	u.Host = regexp.MustCompile(`^(127\.0\.0\.1|localhost)`).ReplaceAllString(u.Host, "0.0.0.0")
	return u
}

// pods waits until the namespace has so many Pods.
func (i *installed) pods(n int) {
	i.t.Helper()
	i.Eventually(func(ctx context.Context) error {
		var list corev1.PodList
		if err := i.apps.List(ctx, &list, client.InNamespace(i.Namespace), client.MatchingLabels{"app.kubernetes.io/name": name}); err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("%d Pods, want %d", len(list.Items), n)
		}
		return nil
	})
}
