//go:build k8srequired

package security

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// rights are what rules allow, as "verb group/resource".
func rights(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, right(verb, group, resource))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

func right(verb, group, resource string) string {
	if group != "" {
		resource = group + "/" + resource
	}
	return verb + " " + resource
}

// gate is a way to the API server, as the user of a kubeconfig, that notes what is asked for.
type gate struct {
	*httptest.Server

	mu      sync.Mutex
	used    map[string]bool
	refused []string
	old     bool // as an API server that cannot answer a list as a watch
}

func newGate(t *testing.T, kubeconfig string) *gate {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	g := &gate{used: map[string]bool{}}
	proxy := env.Proxy(t, config)
	proxy.ModifyResponse = g.watchRefusals
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		old := g.old
		if asked := asks(r); asked != "" {
			g.used[asked] = true
		}
		g.mu.Unlock()
		if old && r.URL.Query().Has("sendInitialEvents") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents: Forbidden"}`)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// asks is the right that a request needs, "" for one of discovery.
func asks(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var group string
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	resource, named := parts[0], len(parts) > 1
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	switch {
	case verb == "delete" && !named:
		verb = "deletecollection"
	case verb != "":
	case r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1":
		verb = "watch"
	case named:
		verb = "get"
	default:
		verb = "list"
	}
	return right(verb, group, resource)
}

func (g *gate) watchRefusals(r *http.Response) error {
	if r.StatusCode != http.StatusForbidden {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(" cannot ")) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refused = append(g.refused, r.Request.Method+" "+r.Request.URL.Path)
	}
	return nil
}

func TestEveryRightIsNeededAndNoneIsMissing(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	rules := world.ReadRules(t)
	allowed := rights(slices.Concat(rules.Cluster(), rules.Election))
	g := newGate(t, w.Kubeconfig())
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	options := w.Options("--leader-election=true", "--cluster-name=", "--resync=1s")
	options.Kubeconfig = env.KubeconfigOf(t, g.URL)
	w.Run(options)

	// All that an operator does: it makes, repairs, replaces, tidies up, tells.
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, OpenSearch: &v1.OpenSearch{Instance: "logs"}, Valkey: []v1.Valkey{{Instance: "cache"}},
	})
	w.Ready("cart")
	for range 3 { // an event that comes again is counted, not made again
		user := w.Secret("creds").Annotations[key.AnnotationKafkaUser]
		w.ChangeSecret("creds", func(s *corev1.Secret) { s.Annotations[key.AnnotationKafkaUser] = "avnadmin" })
		w.Eventually(func(context.Context) error {
			if got := w.Secret("creds").Annotations[key.AnnotationKafkaUser]; got != user {
				return fmt.Errorf("the record is %q, want %q", got, user)
			}
			return nil
		})
	}
	s := w.Secret("creds")
	w.Remove(s)
	w.Replaced(s)
	w.Ready("cart")
	w.Apply("brief", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "brief"}})
	w.Ready("brief")
	w.Change("brief", func(app *v1.AivenApplication) {
		app.Spec.ExpiresAt = time.Now().Add(2 * time.Second).Format(time.RFC3339)
	})
	w.Gone(&v1.AivenApplication{}, "brief")
	w.Gone(&corev1.Secret{}, "brief")
	w.Stop()

	g.mu.Lock()
	g.old = true
	g.mu.Unlock()
	w.Run(options)
	w.Passes(1)
	w.Remove(w.App("cart"))
	w.Gone(&v1.AivenApplication{}, "cart")
	w.Gone(&corev1.Secret{}, "creds")
	w.Stop()

	g.mu.Lock()
	defer g.mu.Unlock()
	for _, what := range g.refused {
		t.Errorf("a right is missing: %s", what)
	}
	for _, right := range allowed {
		if !g.used[right] {
			t.Errorf("nothing needs the right to %s", right)
		}
	}
	for what := range g.used {
		if !slices.Contains(allowed, what) {
			t.Errorf("the role does not say that the operator may %s", what)
		}
	}
}
