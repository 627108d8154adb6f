//go:build k8srequired

package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// broker is a server that lets in who has a certificate of the project, and tells the client who that is.
type broker struct {
	host, port string
	met        chan string // the common names of clients that were let in
}

func (b *broker) address() string { return net.JoinHostPort(b.host, b.port) }

// newBroker starts a server with a certificate of the latest CA of a project, which takes clients of all CAs that the project has now.
func newBroker(t *testing.T, project *aivensim.Project) *broker {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := project.Sign(x509.Certificate{
		Subject: pkix.Name{CommonName: "broker"}, DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}, key.Public())
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(project.CA()))
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{PrivateKey: key, Certificate: [][]byte{cert}}},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{host: "localhost", port: port, met: make(chan string, 1000)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go b.serve(t.Context(), conn.(*tls.Conn))
		}
	}()
	return b
}

func (b *broker) serve(ctx context.Context, conn *tls.Conn) {
	defer func() { _ = conn.Close() }()
	if err := conn.HandshakeContext(ctx); err != nil {
		return // the client says why
	}
	name := conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	b.met <- name
	_, _ = io.WriteString(conn, name+"\n") // the client says what it got
}
