//go:build k8srequired

package program

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
)

// An operator outside the cluster is told where the API server is without a kubeconfig, with TLS material in files or as it is.
func TestAddressAndTLSMaterial(t *testing.T) {
	t.Parallel()
	config := env.Config(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tls := config.TLSClientConfig
	if len(tls.CertData) == 0 {
		t.Skip("NOT TESTED: the kubeconfig of this cluster authenticates with something else than a client certificate")
	}
	tests := map[string]func() (args, vars []string){
		"files": func() (args, vars []string) {
			return []string{
				"--kubernetes-tls-ca-file=" + file("ca", tls.CAData), "--kubernetes-tls-cert-file=" + file("cert", tls.CertData),
				"--kubernetes-tls-key-file=" + file("key", tls.KeyData),
			}, nil
		},
		"data": func() (args, vars []string) {
			return nil, []string{
				"KEYSMITH_KUBERNETES_TLS_CA_DATA=" + string(tls.CAData), "KEYSMITH_KUBERNETES_TLS_CERT_DATA=" + string(tls.CertData),
				"KEYSMITH_KUBERNETES_TLS_KEY_DATA=" + string(tls.KeyData),
			}
		},
	}
	for name, material := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			args, vars := material()
			o := w.Options(append(args, "--kubernetes-address="+config.Host)...)
			o.Kubeconfig, o.Env = "", append(o.Env, vars...)
			w.Run(o)
			w.Apply("cart", kafka("creds"))
			w.Ready("cart")
		})
	}
}
