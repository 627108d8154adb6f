package aiven

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// transport is what aiven-go-client and our own requests share. It sends a request to the API of this client, with its
// token, and turns every answer that is not a success into a refusal, which aiven-go-client hands on untouched: its own
// errors have lost the header and the code by then. aiven-go-client has one URL for the whole process, so that
// the one it used is replaced here.
type transport struct {
	base      *url.URL
	userAgent string
	next      http.RoundTripper
}

// apiRoot is where the path of every operation used here starts.
const apiRoot = "/v1/project"

// maxRefusal is how much of the body of a refusal is read, in bytes.
const maxRefusal = 64 << 10

// CloseIdleConnections implements what http.Client.CloseIdleConnections asks for.
func (t *transport) CloseIdleConnections() {
	(&http.Client{Transport: t.next}).CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callFrom(req.Context())
	target, err := t.target(req.URL, c)
	if err != nil {
		return nil, err
	}
	// A custom transport may not know about connections; one that does says when it got none.
	c.sent = true
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { c.sent = false },
		GotConn: func(httptrace.GotConnInfo) { c.sent = true },
	}
	out := req.Clone(httptrace.WithClientTrace(req.Context(), trace))
	out.URL, out.Host = target, ""
	out.Header.Set("Authorization", "aivenv1 "+c.token)
	out.Header.Set("User-Agent", t.userAgent)

	rsp, err := t.next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	c.status = rsp.StatusCode
	if rsp.StatusCode >= 200 && rsp.StatusCode < 300 {
		return rsp, nil
	}
	defer func() { _ = rsp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(rsp.Body, maxRefusal)) // a body cut short is one without a message
	return nil, newRefusal(rsp.StatusCode, rsp.Header, body)
}

// target returns the URL of a request at the API of this client.
func (t *transport) target(u *url.URL, c *call) (*url.URL, error) {
	path := u.EscapedPath()
	i := strings.Index(path, apiRoot)
	if i < 0 {
		return nil, errors.New("not a call that is used here")
	}
	query := u.Query()
	if c.secrets {
		query.Set("include_secrets", "true")
	}
	target := *t.base // not a reference to it: one that begins with two slashes names another host
	target.RawPath = strings.TrimRight(t.base.EscapedPath(), "/") + path[i:]
	decoded, err := url.PathUnescape(target.RawPath)
	if err != nil {
		return nil, errors.New("path cannot be sent")
	}
	target.Path = decoded
	target.RawQuery = query.Encode()
	return &target, nil
}

// parseURL accepts the URL of an API. What it got is not in the error, as people put passwords into URLs.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("the URL of the Aiven API must be absolute, such as https://api.aiven.io")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the URL of the Aiven API must not hold a user, a query or a fragment")
	}
	return u, nil
}

// newHTTPTransport returns a transport that keeps as many connections as are used at once, and notices dead ones.
func newHTTPTransport(roots *x509.CertPool, connections int) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
	}
}

// rootPool returns the system's certificate authorities and those in bundle.
func rootPool(bundle []byte) (*x509.CertPool, error) {
	if len(bundle) == 0 {
		return nil, nil // the system's
	}
	certificates, err := parseBundle(bundle)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without any
	}
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool, nil
}

// parseBundle parses PEM certificates: at least one, and nothing but.
func parseBundle(bundle []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for n := 1; ; n++ {
		var block *pem.Block
		block, bundle = pem.Decode(bundle)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block %d is no certificate", n)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", n, err)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("no PEM certificate found")
	}
	return certificates, nil
}
