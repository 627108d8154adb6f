package env

import (
	"fmt"
	"io"
	"log"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// NewProxy returns a handler that passes requests on to the API server of a configuration, as the user of that, and leaves what passes as it is. It is
// for those who look at what a program asks for, or let it go wrong.
func NewProxy(config *rest.Config) (*httputil.ReverseProxy, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,                         // watches
		ErrorLog:      log.New(io.Discard, "", 0), // a program that ends leaves its watches
	}, nil
}

// Proxy is NewProxy for a test, which fails with it.
func Proxy(t testing.TB, config *rest.Config) *httputil.ReverseProxy {
	t.Helper()
	proxy, err := NewProxy(config)
	if err != nil {
		t.Fatal(err)
	}
	return proxy
}

// KubeconfigOf writes a kubeconfig that leads to an address without any credentials, such as that of a server with a Proxy, and returns its path.
func KubeconfigOf(t testing.TB, url string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: url}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
