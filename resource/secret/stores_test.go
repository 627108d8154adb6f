package secret

import (
	"bytes"
	"context"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

var (
	legacy = Stores{Encoding: credstore.Legacy, Password: "changeme"}
	random = Stores{Encoding: credstore.Modern, Password: "changeme", RandomPassword: true}
)

// restart makes the resource anew, with other settings of the stores.
func (w *world) restart(s Stores) {
	settings := w.settings
	settings.Stores = s
	w.Resource = New(w.Client, w.services, w.clock, prometheus.NewRegistry(), settings)
}

// isLegacy tells whether 3DES stands in a store. Algorithms stand there in clear.
func isLegacy(store []byte) bool {
	return bytes.Contains(store, []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x03}) // pkcs-12PbeIds 3, RFC 7292, appendix C
}

// check tells what is wrong with the stores of a Secret.
func (w *world) check(t *testing.T, s *corev1.Secret, want Stores) {
	t.Helper()
	pair, err := credstore.ParsePair(string(s.Data[key.KafkaCertificate]), string(s.Data[key.KafkaPrivateKey]))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := credstore.ParseCA(string(s.Data[key.KafkaCA]))
	if err != nil {
		t.Fatal(err)
	}
	keyStore, trustStore, password := s.Data[key.KafkaKeyStore], s.Data[key.KafkaTrustStore], string(s.Data[key.KafkaCredStorePassword])
	if !credstore.Matches(keyStore, trustStore, pair, ca, password) {
		t.Error("the stores hold something else, or do not open with the password")
	}
	if isRandom := credstore.IsRandomPassword(password); isRandom != want.RandomPassword || !isRandom && password != want.Password {
		t.Errorf("the password is random: %t, want %t", isRandom, want.RandomPassword)
	}
	if got := isLegacy(keyStore); got != (want.Encoding == credstore.Legacy) || isLegacy(trustStore) != got {
		t.Errorf("the stores are in the legacy encoding: %t and %t", got, isLegacy(trustStore))
	}
}

func TestStoresFollowTheirSettings(t *testing.T) {
	changed := func(s *corev1.Secret, data map[string][]byte) (keys []string) {
		for k, v := range s.Data {
			if !bytes.Equal(v, data[k]) && !strings.HasSuffix(k, "_UPDATED") {
				keys = append(keys, k)
			}
		}
		return keys
	}
	stores := []string{key.KafkaKeyStore, key.KafkaTrustStore}
	all := append([]string{key.KafkaCredStorePassword}, stores...) // sorted
	tests := map[string]struct {
		from, to Stores
		want     []string
	}{
		"it encodes them the old way once":     {constant, legacy, stores},
		"it encodes them the new way once":     {legacy, constant, stores},
		"it gives them a random password once": {constant, random, all},
		"it goes back to the constant once":    {random, constant, all},
		"it keeps a random password when it encodes them anew": {
			random, Stores{Encoding: credstore.Legacy, Password: "changeme", RandomPassword: true}, stores,
		},
		"it gives them another constant once":                {constant, Stores{Encoding: credstore.Modern, Password: "changeit"}, all},
		"it keeps them over a restart":                       {constant, constant, nil},
		"it keeps them and a random password over a restart": {random, random, nil},
		"it does not care for a constant that is not used": {
			random, Stores{Encoding: credstore.Modern, Password: "changeit", RandomPassword: true}, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{})
			w.restart(tt.from)
			if err := w.EnsureCreated(t.Context(), set(w.kafka())); err != nil {
				t.Fatal(err)
			}
			before := w.read(t)
			w.check(t, before, tt.from)
			w.restart(tt.to)
			after := w.again(t, set(w.kafka()))
			w.check(t, after, tt.to)
			got := changed(after, before.Data)
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("keys that changed (-want +got):\n%s", diff)
			}
			w.restart(tt.to)
			for range 20 {
				if again := w.again(t, set(w.kafka())); again.ResourceVersion != after.ResourceVersion {
					t.Fatalf("it was written again: %q", changed(again, after.Data))
				}
			}
		})
	}
}

func TestRandomPasswords(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, w *world, s *corev1.Secret)
		stays  bool
	}{
		"it keeps one when the certificate is renewed": {stays: true, change: func(t *testing.T, w *world, _ *corev1.Secret) {
			w.certs = newCertificates(t)
		}},
		"it keeps one when the CA changes": {stays: true, change: func(t *testing.T, w *world, _ *corev1.Secret) {
			w.services.ca += "\n# next\n\n" + newCertificates(t).ca
		}},
		"it keeps one when a store is edited": {stays: true, change: func(_ *testing.T, _ *world, s *corev1.Secret) {
			s.Data[key.KafkaTrustStore] = nil
		}},
		"it makes another where it was removed": {change: func(_ *testing.T, _ *world, s *corev1.Secret) {
			delete(s.Data, key.KafkaCredStorePassword)
		}},
		"it makes another where somebody chose one": {change: func(_ *testing.T, _ *world, s *corev1.Secret) {
			s.Data[key.KafkaCredStorePassword] = []byte("changeme")
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{})
			w.restart(random)
			if err := w.EnsureCreated(t.Context(), set(w.kafka())); err != nil {
				t.Fatal(err)
			}
			s := w.read(t)
			password := s.Data[key.KafkaCredStorePassword]
			tt.change(t, w, s)
			if err := w.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			after := w.again(t, set(w.kafka()))
			w.check(t, after, random)
			if got := bytes.Equal(after.Data[key.KafkaCredStorePassword], password); got != tt.stays {
				t.Errorf("the password stayed: %t, want %t", got, tt.stays)
			}
			if again := w.again(t, set(w.kafka())); again.ResourceVersion != after.ResourceVersion {
				t.Error("it was written again")
			}
		})
	}
}

func TestEachSecretHasARandomPasswordOfItsOwn(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{})
	w.restart(random)
	other := set(w.kafka())
	other.Secret = "other"
	for _, s := range []*binding.Set{set(w.kafka()), other} {
		if err := w.EnsureCreated(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	s := &corev1.Secret{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "other"}, s); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(s.Data[key.KafkaCredStorePassword], w.read(t).Data[key.KafkaCredStorePassword]) {
		t.Error("both have one password")
	}
}

func TestSecretsOfOneCAShareATrustStore(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{})
	stores := func() (out [2][]byte) {
		for i, name := range []string{"creds", "other"} {
			at := set(w.kafka())
			at.Secret = name
			s := &corev1.Secret{}
			if err := w.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, s); err == nil {
				at.Current = s
			}
			if err := w.EnsureCreated(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			if err := w.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, s); err != nil {
				t.Fatal(err)
			}
			w.check(t, s, constant)
			out[i] = s.Data[key.KafkaTrustStore]
		}
		return out
	}
	before := stores()
	w.services.ca += newCertificates(t).ca
	after := stores()
	if !bytes.Equal(before[0], before[1]) || !bytes.Equal(after[0], after[1]) || bytes.Equal(before[0], after[0]) {
		t.Error("the trust stores differ, or stay the same with another CA")
	}
}

// Applications read what the earlier operator made, and would have to start again if it changed.
func TestStoresOfTheEarlierOperatorStay(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{})
	w.restart(legacy)
	if err := w.EnsureCreated(t.Context(), set(w.kafka())); err != nil {
		t.Fatal(err)
	}
	s := w.read(t)
	delete(s.Annotations, key.AnnotationStores)
	if err := w.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.restart(constant)
	for range 2 {
		if diff := cmp.Diff(s.Data, w.again(t, set(w.kafka())).Data); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
	}
	w.services.ca += newCertificates(t).ca
	w.check(t, w.again(t, set(w.kafka())), constant)
}

func TestUnreadableKeysLeaveTheSecretAlone(t *testing.T) {
	tests := map[string]struct{ key, want string }{
		"it names a key under password": {string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("canary")})), "access_key: the private key is encrypted"},
		"it names garbage":              {"canary", "access_key: not PEM"},
		"it names the key of another":   {newCertificates(t).key, "access_key: not the key of the certificate"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				t.Error("the Secret is patched")
				return nil
			}})
			if err := w.EnsureCreated(t.Context(), set(w.kafka())); err != nil {
				t.Fatal(err)
			}
			s := set(w.kafka())
			s.Current, s.Bindings[0].User.Key = w.read(t), tt.key
			err := w.EnsureCreated(t.Context(), s)
			if binding.ReasonOf(err) != binding.ReasonBadCredentials || resource.OutcomeOf(err) != resource.Failed {
				t.Fatalf("got %s %q (%v)", resource.OutcomeOf(err), binding.ReasonOf(err), err)
			}
			if !strings.Contains(err.Error(), "user kafka-user") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("the error does not name user and field, or shows a key: %v", err)
			}
		})
	}
}
