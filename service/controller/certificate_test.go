package controller

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// certificateUntil is a certificate, PEM, that ends then.
func certificateUntil(t *testing.T, end time.Time) []byte {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// published is a Secret of an application that holds a certificate.
func published(name string, certificate []byte) *corev1.Secret {
	set := &binding.Set{Namespace: "shop", Application: "cart", Secret: name, Bindings: []*binding.Binding{kafkaBinding("shop_cart_d5334173_abc")}}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), Annotations: set.Records(),
			Labels: map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"},
		},
		Data: map[string][]byte{key.KafkaCertificate: certificate},
	}
}

// gathered are the values of gauges, in the order of their names.
func gathered(t *testing.T, c prometheus.Collector) []float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	for _, family := range families {
		for _, m := range family.GetMetric() {
			out = append(out, m.GetGauge().GetValue())
		}
	}
	return out
}

func TestTheNearestEndOfACertificate(t *testing.T) {
	leaving, stranger := published("leaving", certificateUntil(t, now.Add(time.Minute))), published("stranger", certificateUntil(t, now.Add(time.Minute)))
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.Now()), []string{"keysmith/finalizer"}
	stranger.Annotations = nil
	nearest, later := published("nearest", certificateUntil(t, now.Add(time.Hour))), published("later", certificateUntil(t, now.Add(2*time.Hour)))
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		leaving, stranger, nearest, later, published("broken", []byte("no certificate")), published("none", nil),
	).Build()
	elected := make(chan struct{})
	e := &expiry{cached: cached{c, elected}}
	is := func(when string, want ...float64) {
		t.Helper()
		if diff := cmp.Diff(want, gathered(t, e)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", when, diff)
		}
	}
	is("before this process leads")
	close(elected)
	is("two certificates", float64(now.Add(time.Hour).Unix()))
	is("again", float64(now.Add(time.Hour).Unix()))
	nearest.Data[key.KafkaCertificate] = certificateUntil(t, now.Add(3*time.Hour))
	if err := c.Update(t.Context(), nearest); err != nil {
		t.Fatal(err)
	}
	is("one was renewed", float64(now.Add(2*time.Hour).Unix()))
	for _, s := range []client.Object{nearest, later} {
		if err := c.Delete(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	is("both are gone")
	if n := len(e.ends); n != 2 {
		t.Errorf("%d Secrets are remembered, want the two that are left and have an owner", n)
	}
}
