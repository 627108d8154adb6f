//go:build k8srequired

package provision

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// listener passes an answer on, and counts the pieces of it that have a word.
type listener struct {
	http.ResponseWriter
	word  []byte
	heard *atomic.Int64
}

// Write implements http.ResponseWriter.
func (l *listener) Write(p []byte) (int, error) {
	if bytes.Contains(p, l.word) {
		l.heard.Add(1)
	}
	return l.ResponseWriter.Write(p)
}

// Unwrap lets the proxy flush.
func (l *listener) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Secrets of others, however large and many, do not reach the operator: neither those that are there when it starts nor those that come. What it needs of
// memory does not grow with them.
func TestSecretsOfOthersStayOutside(t *testing.T) {
	t.Parallel()
	const theirs, ours = "somebody-elses", "world.test/ours"
	var heard, known atomic.Int64
	proxy := env.Proxy(t, env.Config(t))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding") // to be able to read along
		w = &listener{ResponseWriter: w, word: []byte(theirs), heard: &heard}
		proxy.ServeHTTP(&listener{ResponseWriter: w, word: []byte(ours), heard: &known}, r)
	}))
	t.Cleanup(server.Close)
	w := world.New(t) // after the way to the API server, which has to outlive the operator
	foreign := func(name string) {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.Namespace, Name: name, Labels: map[string]string{"type": "their.own"},
				Annotations: map[string]string{"theirs": strings.Repeat(theirs+" ", 2000)}, // in each piece of an answer that has it
			},
			Data: map[string][]byte{"large": bytes.Repeat([]byte("x"), 900<<10)},
		}
		if err := w.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	foreign("before-1")
	foreign("before-2")
	options := w.Options("--resync=24h")
	options.Kubeconfig = env.KubeconfigOf(t, server.URL)
	w.Run(options)
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Ready("cart")
	foreign("after")

	// What comes later of ours tells that the watch has passed the foreign one.
	w.ChangeSecret("creds", func(s *corev1.Secret) { s.Annotations[ours] = "yes" })
	w.Touch("cart", 2)
	if known.Load() == 0 {
		t.Error("not even our own Secret was read: the test cannot tell")
	}
	if n := heard.Load(); n > 0 {
		t.Errorf("%d pieces of answers had Secrets of others", n)
	}
}
