// Package pod runs the operator as its Pod would, on a machine without a kubelet: as a process.
package pod

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operator"
)

// Options are how a kubelet would run the first container of a Pod of a namespace: with its arguments, its variables, the files of its Secrets and
// ConfigMaps, and the rights of its ServiceAccount. api is the way to the API server, in its current context; whose it is does not matter. Ports
// are left to chance, so that several can run on one machine. Files are put into dir. The binary is still to be set.
func Options(
	ctx context.Context, c client.Client, api *clientcmdapi.Config, namespace string, spec *corev1.PodSpec, dir string,
) (operator.Options, error) {
	var o operator.Options
	cluster := api.Clusters[api.Contexts[api.CurrentContext].Cluster]
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return o, fmt.Errorf("find the API server: %w", err)
	}
	if o.Kubeconfig, err = kubeconfig(ctx, c, cluster, namespace, spec.ServiceAccountName, dir); err != nil {
		return o, err
	}
	container := spec.Containers[0]
	for _, e := range container.Env {
		o.Env = append(o.Env, e.Name+"="+strings.ReplaceAll(e.Value, "$(KUBERNETES_SERVICE_HOST)", server.Hostname()))
	}
	folders := map[string]string{} // of the machine, by that of the container
	for _, m := range container.VolumeMounts {
		folders[m.MountPath] = filepath.Join(dir, m.Name)
		if err := mount(ctx, c, namespace, spec, m.Name, folders[m.MountPath]); err != nil {
			return o, fmt.Errorf("mount volume %s: %w", m.Name, err)
		}
	}
	for _, arg := range container.Args[1:] { // the first is the command, which operator.Start gives
		if strings.HasPrefix(arg, "--metrics-address=") || strings.HasPrefix(arg, "--health-address=") {
			continue
		}
		for inside, outside := range folders {
			arg = strings.Replace(arg, "="+inside+"/", "="+outside+"/", 1)
		}
		o.Args = append(o.Args, arg)
	}
	return o, nil
}

// mount writes what a volume holds.
func mount(ctx context.Context, c client.Client, namespace string, spec *corev1.PodSpec, volume, dir string) error {
	for _, v := range spec.Volumes {
		if v.Name != volume {
			continue
		}
		var items []corev1.KeyToPath
		data := map[string][]byte{}
		switch {
		case v.Secret != nil:
			var s corev1.Secret
			if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v.Secret.SecretName}, &s); err != nil {
				return err
			}
			items, data = v.Secret.Items, s.Data
		case v.ConfigMap != nil:
			var m corev1.ConfigMap
			if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v.ConfigMap.Name}, &m); err != nil {
				return err
			}
			items = v.ConfigMap.Items
			for k, text := range m.Data {
				data[k] = []byte(text)
			}
		}
		for _, item := range items {
			if err := write(filepath.Join(dir, item.Path), data[item.Key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// kubeconfig writes one with a token of a ServiceAccount, and returns its path.
func kubeconfig(ctx context.Context, c client.Client, cluster *clientcmdapi.Cluster, namespace, account, dir string) (string, error) {
	var token authenticationv1.TokenRequest
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := c.SubResource("token").Create(ctx, sa, &token); err != nil {
		return "", fmt.Errorf("get a token of ServiceAccount %s: %w", account, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = cluster
	config.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["pod"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "account"}
	config.CurrentContext = "pod"
	raw, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubeconfig")
	return path, write(path, raw)
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
