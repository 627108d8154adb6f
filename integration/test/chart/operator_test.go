//go:build k8srequired

package chart

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// options are how a kubelet would run the operator: with the arguments, the variables, the files and the ServiceAccount of the Pod. The ports are
// free ones, so that several can run on one machine.
func (i *installed) options() operator.Options {
	i.t.Helper()
	pod := i.pod()
	container := pod.Containers[0]
	api := i.apiServer()
	options := operator.Options{Binary: world.Binary(i.t), Kubeconfig: i.kubeconfig(pod.ServiceAccountName, api)}
	for _, v := range container.Env {
		options.Env = append(options.Env, v.Name+"="+strings.ReplaceAll(v.Value, "$(KUBERNETES_SERVICE_HOST)", api.Hostname()))
	}
	folders := map[string]string{} // of the machine, by that of the container
	for _, m := range container.VolumeMounts {
		folders[m.MountPath] = i.mount(pod, m.Name)
	}
	for _, arg := range container.Args[1:] { // the first one is "daemon"
		if strings.HasPrefix(arg, "--metrics-address=") || strings.HasPrefix(arg, "--health-address=") {
			continue
		}
		for inside, outside := range folders {
			arg = strings.Replace(arg, "="+inside+"/", "="+outside+"/", 1)
		}
		options.Args = append(options.Args, arg)
	}
	return options
}

// mount writes what a volume of the Pod holds, and returns the folder.
func (i *installed) mount(pod corev1.PodSpec, volume string) string {
	i.t.Helper()
	dir := i.t.TempDir()
	for _, v := range pod.Volumes {
		if v.Name != volume {
			continue
		}
		var items []corev1.KeyToPath
		data := map[string][]byte{}
		switch {
		case v.Secret != nil:
			var s corev1.Secret
			if err := i.apps.Get(i.t.Context(), i.Key(v.Secret.SecretName), &s); err != nil {
				i.t.Fatal(err)
			}
			items, data = v.Secret.Items, s.Data
		case v.ConfigMap != nil:
			var c corev1.ConfigMap
			if err := i.apps.Get(i.t.Context(), i.Key(v.ConfigMap.Name), &c); err != nil {
				i.t.Fatal(err)
			}
			items = v.ConfigMap.Items
			for k, text := range c.Data {
				data[k] = []byte(text)
			}
		}
		for _, item := range items {
			if err := os.WriteFile(filepath.Join(dir, item.Path), data[item.Key], 0o600); err != nil {
				i.t.Fatal(err)
			}
		}
	}
	return dir
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

// kubeconfig is a file for a ServiceAccount of the namespace.
func (i *installed) kubeconfig(account string, api *url.URL) string {
	i.t.Helper()
	sa := &corev1.ServiceAccount{}
	sa.Namespace, sa.Name = i.Namespace, account
	token := &authenticationv1.TokenRequest{}
	if err := i.apps.SubResource("token").Create(i.t.Context(), sa, token); err != nil {
		i.t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(os.Getenv(env.Kubeconfig))
	if err != nil {
		i.t.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	cluster := config.Clusters[current.Cluster]
	if was, err := url.Parse(cluster.Server); err == nil {
		cluster.TLSServerName = was.Hostname()
	}
	cluster.Server = api.String()
	user := config.AuthInfos[current.AuthInfo]
	*user = *user.DeepCopy()
	user.ClientCertificate, user.ClientCertificateData, user.ClientKey, user.ClientKeyData = "", nil, "", nil
	user.Token, user.TokenFile, user.Exec, user.AuthProvider = token.Status.Token, "", nil, nil
	path := filepath.Join(i.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		i.t.Fatal(err)
	}
	return path
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
