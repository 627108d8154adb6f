package main

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/keysmith-io/keysmith/integration/env"
)

// gateway stands before the API server and counts requests by verb and resource. The operator's own metrics tell no more than the method, and other
// operators tell nothing.
type gateway struct {
	server *httptest.Server
	// Kubeconfig is the path of one that leads through the gateway.
	kubeconfig string
	config     *rest.Config

	mu     sync.Mutex
	counts map[string]int
}

// newGateway opens a gateway to the API server of a configuration, with TLS and HTTP/2 as the API server has them. Its kubeconfig goes into dir.
func newGateway(config *rest.Config, dir string) (*gateway, error) {
	proxy, err := env.NewProxy(config)
	if err != nil {
		return nil, err
	}
	g := &gateway{counts: map[string]int{}, kubeconfig: filepath.Join(dir, "kubeconfig")}
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.counts[verb(r)]++
		g.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	g.server.EnableHTTP2 = true
	g.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	g.server.Config.ErrorLog = log.New(io.Discard, "", 0) // an operator that ends leaves its connections
	g.server.StartTLS()
	var ca bytes.Buffer
	if err := pem.Encode(&ca, &pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw}); err != nil {
		return nil, fmt.Errorf("write the gateway's certificate: %w", err)
	}
	g.config = &rest.Config{Host: g.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca.Bytes()}, QPS: -1, WarningHandler: rest.NoWarnings{}}
	c := api.NewConfig()
	c.Clusters["gateway"] = &api.Cluster{Server: g.server.URL, CertificateAuthorityData: ca.Bytes()}
	c.AuthInfos["gateway"] = &api.AuthInfo{Token: "unused"} // without any, loaders look for other ways to log in
	c.Contexts["gateway"] = &api.Context{Cluster: "gateway", AuthInfo: "gateway"}
	c.CurrentContext = "gateway"
	if err := clientcmd.WriteToFile(*c, g.kubeconfig); err != nil {
		return nil, fmt.Errorf("write the kubeconfig of the gateway: %w", err)
	}
	return g, nil
}

func (g *gateway) close() {
	g.server.CloseClientConnections()
	g.server.Close()
}

// requests are the counts so far, such as "patch aivenapplications/status".
func (g *gateway) requests() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.counts)
}

// verb is the verb and the resource of a request, in the words of the API server, or the method and the path where it is about no resource.
func verb(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return strings.ToLower(r.Method) + " /" + parts[0]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	resource, named := parts[0], len(parts) > 1
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	query := r.URL.Query()
	word := map[string]string{
		http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodGet: "get",
	}[r.Method]
	switch {
	case r.Method == http.MethodGet && (query.Get("watch") == "true" || query.Get("watch") == "1"):
		word = "watch"
	case r.Method == http.MethodGet && !named:
		word = "list"
	case r.Method == http.MethodDelete && !named:
		word = "deletecollection"
	}
	return word + " " + resource
}

// isRead tells whether such a request changes nothing.
func isRead(verb string) bool {
	word, _, _ := strings.Cut(verb, " ")
	return word == "get" || word == "list" || word == "watch"
}
