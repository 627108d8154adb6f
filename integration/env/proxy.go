package env

import (
	"io"
	"log"
	"net/http/httputil"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
)

// Proxy returns a handler that passes requests on to the API server of a configuration, as the user of that, and leaves what passes as it is. It is
// for tests that look at what a program asks for, or let it go wrong.
func Proxy(t testing.TB, config *rest.Config) *httputil.ReverseProxy {
	t.Helper()
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatalf("connect to the API server: %v", err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatalf("connect to the API server: %v", err)
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,                         // watches
		ErrorLog:      log.New(io.Discard, "", 0), // a program that ends leaves its watches
	}
}
