package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	v2 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v2"
)

func TestShown(t *testing.T) {
	for name, tc := range map[string]struct {
		key, value, want string
	}{
		"it shows a short value":             {"KAFKA_BROKERS", "host:1234", "host:1234"},
		"it shows the ends of a long value":  {"VALKEY_URI_A", "valkeys://a-host-with-a-long-name.of-a-provider.example.com:12345", "valkeys://a-host-with-a-long-nam...ple.com:12345"},
		"it hides a password":                {"VALKEY_PASSWORD_A", "geheim", "********"},
		"it hides a password of a store":     {"KAFKA_CREDSTORE_PASSWORD", "geheim", "********"},
		"it hides a key":                     {"KAFKA_PRIVATE_KEY", "-----BEGIN PRIVATE KEY-----\ngeheim\n", "******** (35 bytes)"},
		"it shows what a certificate is":     {"KAFKA_CA", "-----BEGIN CERTIFICATE-----\nMII\n", "-----BEGIN CERTIFICATE----- ... (32 bytes)"},
		"it shows the size of a key store":   {"client.keystore.p12", "\x30\x82", "(2 bytes)"},
		"it shows the size of a trust store": {"client.truststore.jks", "\x30\x82", "(2 bytes)"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, shown(tc.key, []byte(tc.value))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	want := map[string][]byte{"A": []byte("geheim"), "B": []byte("b"), "AIVEN_SECRET_UPDATED": []byte("yesterday")}
	for name, tc := range map[string]struct {
		got  map[string][]byte
		want string
	}{
		"it finds none but in the time of the change": {
			map[string][]byte{"A": []byte("geheim"), "B": []byte("b"), "AIVEN_SECRET_UPDATED": []byte("today")}, "",
		},
		"it finds a missing key": {
			map[string][]byte{"B": []byte("b"), "AIVEN_SECRET_UPDATED": nil}, "expected key A",
		},
		"it finds another value": {
			map[string][]byte{"A": []byte("guess"), "B": []byte("b"), "AIVEN_SECRET_UPDATED": nil}, "expected the former value of key A",
		},
		"it finds a key too many": {
			map[string][]byte{"A": []byte("geheim"), "B": []byte("b"), "C": nil, "AIVEN_SECRET_UPDATED": nil}, "expected no key C",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := difference(want, tc.got)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
			if err != nil && (strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "guess")) {
				t.Errorf("the error holds a value: %v", err)
			}
		})
	}
}

func TestIsReady(t *testing.T) {
	condition := func(status corev1.ConditionStatus) []v1.Condition {
		return []v1.Condition{{Type: v1.ConditionSucceeded, Status: "True"}, {Type: v1.ConditionReady, Status: status, Reason: "Why"}}
	}
	for name, tc := range map[string]struct {
		status v1.AivenApplicationStatus
		want   string
	}{
		"it is ready": {
			v1.AivenApplicationStatus{ObservedGeneration: 2, Conditions: condition("True")}, "",
		},
		"it was ready before the last change": {
			v1.AivenApplicationStatus{ObservedGeneration: 1, Conditions: condition("True")}, "a status of generation 2",
		},
		"it is not ready for a reason": {
			v1.AivenApplicationStatus{ObservedGeneration: 2, Conditions: condition("False")}, "found False: Why",
		},
		"it has only begun": {
			v1.AivenApplicationStatus{Bindings: []v1.Binding{{Username: "a"}}}, "the names of 1 users",
		},
		"it has not been looked at": {v1.AivenApplicationStatus{}, "no status"},
	} {
		t.Run(name, func(t *testing.T) {
			err := isReady(&v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: tc.status})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// The steps speak of names that are in the manifest.
func TestManifest(t *testing.T) {
	var app v2.AivenApplication
	if err := yaml.UnmarshalStrict([]byte(manifest), &app); err != nil {
		t.Fatal(err)
	}
	want := []string{application, kafkaProject, kafkaSecret, openSearchSecret, valkeySecret}
	got := []string{app.Name, app.Spec.Kafka.Pool, app.Spec.Kafka.SecretName, app.Spec.OpenSearch.SecretName, app.Spec.Valkey[0].SecretName}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
