package world

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Stores fails the test unless the stores of a Secret hold the same certificate, key and CAs as its PEM keys, and returns the pair.
func (w *World) Stores(s *corev1.Secret) *credstore.Pair {
	w.t.Helper()
	pair, err := credstore.ParsePair(string(s.Data[key.KafkaCertificate]), string(s.Data[key.KafkaPrivateKey]))
	if err != nil {
		w.t.Fatal(err)
	}
	ca, err := credstore.ParseCA(string(s.Data[key.KafkaCA]))
	if err != nil {
		w.t.Fatal(err)
	}
	if !credstore.Matches(s.Data[key.KafkaKeyStore], s.Data[key.KafkaTrustStore], pair, ca, string(s.Data[key.KafkaCredStorePassword])) {
		w.t.Error("the stores do not hold the certificate, the key and the CAs of the PEM keys")
	}
	return pair
}
