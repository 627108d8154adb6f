package year

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// pod is a client that read a Secret when it was started, and goes on with that until it is restarted.
type pod struct {
	app    *application
	secret string
	// late is one that nobody restarts before it has been refused. Others are restarted at the next check after the Secret has changed.
	late bool

	data    map[string][]byte // nil: it is not started yet
	version string            // of the Secret
}

func (p *pod) String() string {
	kind := "a Pod"
	if p.late {
		kind = "a late Pod"
	}
	return fmt.Sprintf("%s of %s with version %s of Secret %s", kind, p.app, p.version, p.secret)
}

func (p *pod) restart(s *corev1.Secret) { p.data, p.version = s.Data, s.ResourceVersion }

// login is what a client has tried, and how it ended.
type login struct {
	by, service, user string
	with              string    // what it was tried with
	accepted          bool      // by the service, or with the CA by the client
	ends              time.Time // from when on it is to be refused, as announced; zero: no such moment has been announced
	unknown           bool      // it is not what the Secret holds now, and no moment was announced for its end
}

// logins tries all that a client has of one service. current is what the Secret holds now.
func (l *ledger) logins(by string, b demand.Bound, data, current map[string][]byte) []login {
	nameKey, passwordKey, _ := b.Keys()
	service, user := l.sim.Service(b.Project, b.Service), string(data[nameKey])
	this := login{by: by, service: b.Service, user: user}
	if user != string(current[nameKey]) {
		this.ends = l.announced[userOf(b, user)]
		this.unknown = this.ends.IsZero()
	}
	password := this
	password.with, password.accepted = "its password", service.Accepts(user, string(data[passwordKey]))
	out := []login{password}
	ca := data["AIVEN_CA"]
	if b.Kind == aivensim.Kafka {
		cert, key := string(data["KAFKA_CERTIFICATE"]), string(data["KAFKA_PRIVATE_KEY"])
		pair := this
		pair.with, pair.accepted = "its certificate", service.AcceptsCertificate(user, cert, key)
		pair.ends = first(pair.ends, l.endOf(b.Project, cert, key))
		out, ca = append(out, pair), data["KAFKA_CA"]
	}
	trust := login{by: by, service: b.Service, user: user, with: "its CAs for the server's certificate"}
	t := l.trust[b.Project]
	trust.accepted, trust.ends = t.verifies(ca, l.now), t.endOf(ca)
	return append(out, trust)
}

// endOf is when a certificate ends by itself or with its CA; zero: it is none.
func (l *ledger) endOf(project, cert, key string) time.Time {
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return time.Time{}
	}
	if t := l.trust[project]; t.isFormer(pair.Leaf) {
		return first(pair.Leaf.NotAfter, t.retires)
	}
	return pair.Leaf.NotAfter
}

// trust is what clients see of a project's CAs.
type trust struct {
	latest *x509.Certificate // the CA that signs
	server *x509.Certificate // of the services

	// During and after a rotation; all of it is announced when the rotation begins.
	former   *x509.Certificate
	switches time.Time // when services begin to show a certificate of the latest CA
	retires  time.Time // when certificates of the former CA are no longer accepted
	since    time.Time // when the set of CAs changed last
}

// isFormer tells whether the former CA has signed a certificate.
func (t *trust) isFormer(c *x509.Certificate) bool {
	return t.former != nil && c.CheckSignatureFrom(t.former) == nil
}

// verifies tells whether a client that trusts these CAs takes the server's certificate.
func (t *trust) verifies(ca []byte, now time.Time) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	_, err := t.server.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	return err == nil
}

// endOf is when CAs no longer do; zero: there is no such moment.
func (t *trust) endOf(ca []byte) time.Time {
	cas, err := certificates(ca)
	if err != nil || t.former == nil || slices.ContainsFunc(cas, t.latest.Equal) {
		return time.Time{}
	}
	return t.switches
}

// first is the earlier of two moments, of which zero is none.
func first(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
