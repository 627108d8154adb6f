package controller

import (
	"crypto/x509"
	"encoding/pem"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

var certificateExpiry = prometheus.NewDesc("keysmith_certificate_expiry_timestamp_seconds",
	"When the first of the certificates in Secrets expires, in Unix seconds; in the past once it has. There is none where no Secret holds a certificate.", nil, nil)

// expiry finds the certificate in the Secrets of the cache that expires first, on the leader only, as the census. Of each Secret the certificate is parsed
// once for each change.
type expiry struct {
	cached

	mu   sync.Mutex
	ends map[types.UID]certificateEnd
}

// certificateEnd is when a certificate expires, in a version of its Secret.
type certificateEnd struct {
	version string
	at      time.Time // zero: there is no certificate
}

// Describe says what Collect sends.
func (*expiry) Describe(to chan<- *prometheus.Desc) { to <- certificateExpiry }

// Collect looks for the first end. Secrets that are being deleted, and those that nobody owns, do not count.
func (e *expiry) Collect(to chan<- prometheus.Metric) {
	var secrets corev1.SecretList
	if !e.leads() || !e.list(&secrets, client.MatchingLabels{key.LabelType: key.TypeAivenator}) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ends := make(map[types.UID]certificateEnd, len(secrets.Items))
	var first time.Time
	for i := range secrets.Items {
		s := &secrets.Items[i]
		if !s.DeletionTimestamp.IsZero() || binding.Owner(s) == "" {
			continue
		}
		known, ok := e.ends[s.UID]
		if !ok || known.version != s.ResourceVersion {
			known = certificateEnd{s.ResourceVersion, endOf(s.Data[key.KafkaCertificate])}
		}
		ends[s.UID], first = known, soonest(first, known.at)
	}
	e.ends = ends
	if !first.IsZero() {
		to <- prometheus.MustNewConstMetric(certificateExpiry, prometheus.GaugeValue, float64(first.Unix()))
	}
}

// endOf is when a certificate expires, the first of a chain; zero where there is none that can be read.
func endOf(text []byte) time.Time {
	block, _ := pem.Decode(text)
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}
