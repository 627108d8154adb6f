//go:build k8srequired

package chart

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// api is the address of the Aiven API that nobody here can reach but through the proxy.
const api = "api.aiven.io:443"

// authority is a private CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate := a.sign(t, template)
	a.cert, a.key = certificate.Leaf, certificate.PrivateKey.(*ecdsa.PrivateKey)
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
	return a
}

// sign issues a certificate; the first one is the CA's own.
func (a *authority) sign(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// server is a TLS configuration with a certificate for a host.
func (a *authority) server(t *testing.T, host string) *tls.Config {
	t.Helper()
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	return &tls.Config{Certificates: []tls.Certificate{a.sign(t, template)}}
}

// proxy is one that looks into what passes, as those of companies do: it answers for the Aiven API with a certificate of its own CA, and passes what
// it reads on to Aiven, whose certificate it checks. Other hosts it connects to without looking.
type proxy struct {
	*httptest.Server
	ca *authority

	mu    sync.Mutex
	asked []string // hosts with ports, each once
}

func newProxy(t *testing.T, w *world.World) *proxy {
	t.Helper()
	p := &proxy{ca: newAuthority(t, "Proxy of a company")}
	aivens := newAuthority(t, "CA of Aiven")
	aiven := httptest.NewUnstartedServer(w.Sim)
	aiven.TLS = aivens.server(t, "127.0.0.1")
	aiven.StartTLS()
	t.Cleanup(aiven.Close)
	target, err := url.Parse(aiven.URL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(aivens.cert)
	inside := &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
			ErrorLog:  log.New(io.Discard, "", 0),
		},
		ErrorLog: log.New(io.Discard, "", 0), // a client that does not trust the CA
	}
	t.Cleanup(func() { _ = inside.Close() })
	mask := p.ca.server(t, strings.TrimSuffix(api, ":443"))
	p.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		if !slices.Contains(p.asked, r.Host) {
			p.asked = append(p.asked, r.Host)
		}
		p.mu.Unlock()
		if r.Method != http.MethodConnect {
			http.Error(rw, "this proxy is for https", http.StatusMethodNotAllowed)
			return
		}
		conn, buffered, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		if r.Host == api {
			_ = inside.Serve(&single{conn: tls.Server(conn, mask)})
			return
		}
		through(conn, buffered.Reader, r.Host)
	}))
	t.Cleanup(p.Close)
	return p
}

// through joins a client and a host.
func through(client net.Conn, from *bufio.Reader, host string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, from)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// hosts are those that the proxy was asked for.
func (p *proxy) hosts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.asked))
}

// single is a listener of one connection.
type single struct {
	conn net.Conn
	done bool
}

func (s *single) Accept() (net.Conn, error) {
	if s.done {
		return nil, net.ErrClosed
	}
	s.done = true
	return s.conn, nil
}

func (s *single) Close() error   { return nil }
func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }

// behind installs the chart in a world where Aiven is reached through the proxy alone, under the address that it has everywhere.
func behind(t *testing.T, w *world.World, p *proxy, args ...string) *installed {
	t.Helper()
	return newInstalled(t, w, append([]string{"--set=aiven.url=https://api.aiven.io", "--set=proxy.https=" + p.URL}, args...)...)
}

func TestThroughAProxyWithAPrivateCA(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(t *testing.T, w *world.World, ca string) (values []string){
		"given as a value": func(t *testing.T, _ *world.World, ca string) []string {
			return []string{"--set-file=caBundle.pem=" + write(t, ca)}
		},
		"in a ConfigMap": func(t *testing.T, w *world.World, ca string) []string {
			c := &corev1.ConfigMap{Data: map[string]string{"bundle.pem": ca}}
			c.Namespace, c.Name = w.Namespace, "company"
			w.Make(c)
			return []string{"--set=caBundle.configMap=company,caBundle.key=bundle.pem"}
		},
		"in a Secret": func(t *testing.T, w *world.World, ca string) []string {
			s := &corev1.Secret{StringData: map[string]string{"ca.crt": ca}}
			s.Namespace, s.Name = w.Namespace, "company"
			w.Make(s)
			return []string{"--set=caBundle.secret=company"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			p := newProxy(t, w)
			i := behind(t, w, p, how(t, w, p.ca.pem)...)
			i.Run(i.options())
			i.Apply("cart", kafka("cart"))
			i.Ready("cart")
			i.Eventually(func(ctx context.Context) error { return i.Operator.Ready(ctx) })
			i.Stop()
			if diff := cmp.Diff([]string{api}, p.hosts()); diff != "" {
				t.Errorf("hosts that were reached through the proxy (-want +got):\n%s", diff)
			}
		})
	}
}

// Without it the proxy is asked for the API server, so that the other tests can tell the difference.
func TestNoProxyIsWhatKeepsTheAPIServerFromTheProxy(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p := newProxy(t, w)
	i := behind(t, w, p, "--set-file=caBundle.pem="+write(t, p.ca.pem))
	options := i.options()
	options.Env = append(options.Env, "NO_PROXY=") // the last one counts
	i.Run(options)
	i.Eventually(func(context.Context) error {
		if server := i.apiServer().Host; !slices.Contains(p.hosts(), server) {
			return fmt.Errorf("%s is not asked for, so no other test can show that it should not be; there were %q", server, p.hosts())
		}
		return nil
	})
}

func TestAMissingCAIsNamed(t *testing.T) {
	t.Parallel()
	const want = "certificate signed by unknown authority"
	w := world.New(t)
	p := newProxy(t, w)
	other := newAuthority(t, "Another company")
	i := behind(t, w, p, "--set-file=caBundle.pem="+write(t, other.pem))
	i.Run(i.options())
	i.Apply("cart", kafka("cart"))
	message := ""
	for _, c := range i.NotReady("cart", "").Status.Conditions {
		if c.Type == v1.ConditionReady {
			message = c.Message
		}
	}
	if !strings.Contains(message, want) {
		t.Errorf("the condition says %q", message)
	}
	i.Eventually(func(ctx context.Context) error {
		if err := i.Operator.Ready(ctx); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the readiness check says: %v", err)
		}
		return nil
	})
	// It is enough to give the CA.
	i.helm("upgrade", "--set=aiven.url=https://api.aiven.io", "--set=proxy.https="+p.URL, "--set-file=caBundle.pem="+write(t, p.ca.pem))
	i.Stop()
	i.Run(i.options())
	i.Ready("cart")
}

func TestTwoReplicasElectOne(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	i := newInstalled(t, w)
	const leads = `leader_election_master_status{name="keysmith"}`
	i.Run(i.options())
	first := i.Operator
	t.Cleanup(first.Kill)
	i.MetricIs(leads, 1)
	i.Run(i.options())
	i.Eventually(func(ctx context.Context) error { return i.Operator.Ready(ctx) })
	const n = 20
	app := func(k int) string { return fmt.Sprintf("app-%02d", k) }
	for k := range n {
		i.Apply(app(k), kafka(app(k)))
	}
	i.Ready(app(0))
	if i.Metric(leads) != 0 {
		t.Fatal("both lead")
	}
	// A rolling update ends one as the kubelet does, which lets the lease go.
	began := time.Now()
	grace := time.Duration(*i.pod().TerminationGracePeriodSeconds) * time.Second
	stopped(t, first, grace)
	i.MetricIs(leads, 1)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the hand-over took %s", took)
	}
	var users []string
	for k := range n {
		i.Ready(app(k))
		users = append(users, i.Secret(app(k)).Annotations["kafka.aiven.nais.io/serviceUser"])
	}
	i.UsersAre(i.Kafka, users...)
}

// stopped asks an operator to stop, which it does well within the grace period of its Pod.
func stopped(t *testing.T, p *operator.Process, grace time.Duration) {
	t.Helper()
	if status, err := p.Stop(grace); err != nil || status != 0 {
		t.Errorf("stop: exit status %d, %v", status, err)
	}
}
