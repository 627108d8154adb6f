//go:build k8srequired

package client

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// quick makes the operator read services and look at applications often.
var quick = []string{"--snapshot-age=1s", "--resync=2s"}

// newKafka makes a world with an application on Kafka, whose operator has been started anew since: for two minutes it would believe its own
// writes more than what it reads.
func newKafka(t *testing.T) *world.World {
	t.Helper()
	w := world.New(t)
	w.Start()
	w.Apply("cart", kafka())
	w.Ready("cart")
	w.Restart(quick...)
	return w
}

func TestServersOfBothCAsAreEnteredWhileOneTakesOver(t *testing.T) {
	for name, order := range map[string]func(before, after string) string{
		"new one first": func(before, after string) string { return after + before },
		"old one first": func(before, after string) string { return before + after },
		"comments and blank lines": func(before, after string) string {
			return "# the old one\n\n" + before + "\n\n# the new one, since today\r\n" + after + "\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKafka(t)
			project := w.Sim.Project(world.Pool)
			before := project.CA()
			old := newBroker(t, project)
			project.RotateCA()
			now := newBroker(t, project)
			bundle := order(before, strings.Replace(project.CA(), before, "", 1))
			project.SetCA(bundle)
			var s *corev1.Secret
			w.Eventually(func(context.Context) error {
				if s = w.Secret("creds"); string(s.Data[key.KafkaCA]) != bundle {
					return errors.New("the bundle has not reached the Secret")
				}
				return nil
			})
			allEnter(t, s, old)
			allEnter(t, s, now)

			// A certificate of the new CA is taken by servers that know both.
			w.Kafka.RenewCertificate(world.Users(w.Kafka)[0])
			both := newBroker(t, project)
			certificate := s.Data[key.KafkaCertificate]
			w.Eventually(func(context.Context) error {
				if s = w.Secret("creds"); bytes.Equal(s.Data[key.KafkaCertificate], certificate) {
					return errors.New("the new certificate has not reached the Secret")
				}
				return nil
			})
			allEnter(t, s, both)
		})
	}
}

// pairs are client certificates with their keys in all forms, for a user of the project.
func pairs(t *testing.T, w *world.World, username string) map[string]struct{ cert, key string } {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkcs8 := func(k crypto.Signer) string {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		return text("PRIVATE KEY", der, err)
	}
	cert := func(k crypto.Signer) string {
		return text("CERTIFICATE", w.Sim.Project(world.Pool).Sign(x509.Certificate{
			Subject: pkix.Name{CommonName: username}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(2, 0, 0),
		}, k.Public()), nil)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	return map[string]struct{ cert, key string }{
		"RSA, PKCS#1": {cert(rsaKey), text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil)},
		"RSA, PKCS#8": {cert(rsaKey), pkcs8(rsaKey)},
		"EC, SEC1":    {cert(ec), text("EC PRIVATE KEY", sec1, err)},
		"EC, PKCS#8":  {cert(ec), pkcs8(ec)},
	}
}

func TestClientsEnterWithKeysOfAllForms(t *testing.T) {
	t.Parallel()
	w := newKafka(t)
	username := world.Users(w.Kafka)[0]
	b := newBroker(t, w.Sim.Project(world.Pool))
	for form, p := range pairs(t, w, username) {
		w.Kafka.SetPair(username, p.cert, p.key)
		var s *corev1.Secret
		w.Eventually(func(context.Context) error {
			if s = w.Secret("creds"); string(s.Data[key.KafkaCertificate]) != p.cert {
				return fmt.Errorf("%s: the certificate has not reached the Secret", form)
			}
			return nil
		})
		if block, _ := pem.Decode(s.Data[key.KafkaPrivateKey]); block == nil || block.Type != "PRIVATE KEY" {
			t.Errorf("%s: the key is not published as PKCS#8", form)
		}
		allEnter(t, s, b)
	}
}

func TestUnreadableKeysAreNamedAndLeaveTheSecretAlone(t *testing.T) {
	t.Parallel()
	w := newKafka(t)
	username := world.Users(w.Kafka)[0]
	good, _ := w.Kafka.User(username)
	before := w.Secret("creds")
	for text, want := range map[string]string{
		"-----BEGIN ENCRYPTED PRIVATE KEY-----\nY2FuYXJ5\n-----END ENCRYPTED PRIVATE KEY-----\n": "access_key: the private key is encrypted",
		"canary": "access_key: not PEM",
		"-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n": "access_key: not a valid private key",
	} {
		w.Kafka.SetPair(username, good.AccessCert, text)
		var message string
		w.Eventually(func(context.Context) error {
			for _, c := range w.NotReady("cart", binding.ReasonBadCredentials).Status.Conditions {
				if message = c.Message; strings.Contains(message, want) && strings.Contains(message, username) {
					return nil
				}
			}
			return fmt.Errorf("no condition names user and field: %q", message)
		})
		if strings.Contains(message, "canary") || strings.Contains(message, "Y2FuYXJ5") {
			t.Errorf("the condition shows the key: %s", message)
		}
		if after := w.Secret("creds"); after.ResourceVersion != before.ResourceVersion {
			t.Error("the Secret was written")
		}
		// What works brings the application back.
		w.Kafka.SetPair(username, good.AccessCert, good.AccessKey)
		w.Ready("cart")
	}
	allEnter(t, w.Secret("creds"), newBroker(t, w.Sim.Project(world.Pool)))
}

// differing returns the data keys that differ, less the times of change.
func differing(a, b *corev1.Secret) []string {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(b.Data)) {
		if !bytes.Equal(a.Data[k], b.Data[k]) && k != key.SecretUpdated && k != key.KafkaSecretUpdated {
			keys = append(keys, k)
		}
	}
	return keys
}

func TestStoresChangeOnceWithTheirSettings(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", kafka())
	w.Ready("cart")
	stores := []string{key.KafkaKeyStore, key.KafkaTrustStore}
	all := append([]string{key.KafkaCredStorePassword}, stores...)
	b := newBroker(t, w.Sim.Project(world.Pool))
	for _, step := range []struct {
		args   []string
		want   []string
		random bool
		passes int // that must not change anything
	}{
		{nil, nil, false, 20}, // a restart alone
		{[]string{"--store-encoding=legacy"}, stores, false, 2},
		{[]string{"--store-encoding=legacy", "--store-password-random"}, all, true, 2},
		{[]string{"--store-encoding=modern", "--store-password-random"}, stores, true, 2},
		{[]string{"--store-password-random"}, nil, true, 2},
		{nil, all, false, 2},
	} {
		before := w.Secret("creds")
		w.Restart(step.args...)
		w.Touch("cart", 1)
		after := w.Secret("creds")
		if got := differing(before, after); !slices.Equal(got, step.want) {
			t.Errorf("with %q these changed: %q, want %q", step.args, got, step.want)
		}
		password := string(after.Data[key.KafkaCredStorePassword])
		if random := credstore.IsRandomPassword(password); random != step.random || !random && password != "changeme" {
			t.Errorf("with %q the password is random: %t, want %t", step.args, random, step.random)
		}
		if n := w.Metric(`aivenator_kubernetes_resources_written{namespace="` + w.Namespace + `",resource_type="Secret"}`); n > 1 {
			t.Errorf("with %q the Secret was written %v times", step.args, n)
		}
		w.Restart(step.args...)
		w.Touch("cart", step.passes)
		if again := w.Secret("creds"); again.ResourceVersion != after.ResourceVersion {
			t.Errorf("with %q it changed again: %q", step.args, differing(after, again))
		}
		if step.want != nil {
			allEnter(t, after, b)
		}
	}
}
