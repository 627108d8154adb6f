//go:build k8srequired

package metric

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// family is what there is to know of a metric.
type family struct {
	Type   string
	Labels []string // sorted, of all its series, without those of the kind of metric
}

var (
	row    = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| ([^|]*)\\| [^|]+ \\|$")
	quoted = regexp.MustCompile("`([^`]+)`")
	label  = regexp.MustCompile(`([a-zA-Z_]\w*)="(?:[^"\\]|\\.)*"`)
)

// documented are the metrics that the page describes.
func documented(t *testing.T) map[string]family {
	t.Helper()
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]family{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		labels := []string{}
		for _, l := range quoted.FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		if _, twice := out[m[1]]; twice {
			t.Errorf("metric %s stands twice in the page", m[1])
		}
		out[m[1]] = family{Type: m[2], Labels: labels}
	}
	if len(out) < 20 {
		t.Fatalf("read the page: found %d metrics alone", len(out))
	}
	return out
}

// exposed are the metrics that an operator answers.
func exposed(ctx context.Context, w *world.World) (map[string]family, error) {
	text, err := expose(ctx, w)
	if err != nil {
		return nil, err
	}
	out, name := map[string]family{}, ""
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); strings.HasPrefix(line, "# TYPE ") {
			name = words[2]
			out[name] = family{Type: words[3], Labels: []string{}}
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := out[name]
		for _, m := range label.FindAllStringSubmatch(line, -1) {
			if m[1] != "le" && m[1] != "quantile" && !slices.Contains(f.Labels, m[1]) {
				f.Labels = append(f.Labels, m[1])
			}
		}
		slices.Sort(f.Labels)
		out[name] = f
	}
	return out, nil
}

// forbid answers a request as the API server does where a right is missing.
func forbid(w http.ResponseWriter, verb, group, resource, namespace string) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
		Message: fmt.Sprintf(`%s is forbidden: User "keysmith" cannot %s resource %q in API group %q in the namespace %q`,
			resource, verb, resource, group, namespace),
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(status) // whoever asks may have left
}

// behind returns a kubeconfig that leads to the API server through a handler, which gets the next one.
func behind(t *testing.T, gate func(next http.Handler) http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(gate(env.Proxy(t, env.Config(t))))
	t.Cleanup(server.Close)
	return env.KubeconfigOf(t, server.URL)
}

// The page of the metrics is complete, and all that it says is so. Alerts and dashboards are held against the page.
func TestThePageDescribesWhatThereIs(t *testing.T) {
	t.Parallel()
	var listed atomic.Int32
	var w *world.World
	kubeconfig := behind(t, func(next http.Handler) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			switch {
			case strings.HasSuffix(r.URL.Path, "/jobs") && listed.Add(1) <= 2: // the first one is not complained of
				forbid(rw, "list", "batch", "jobs", w.Namespace)
			case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets") && bytes.Contains(body, []byte("not-allowed")):
				forbid(rw, "create", "", "secrets", w.Namespace)
			default:
				next.ServeHTTP(rw, r)
			}
		}
	})
	w = world.New(t) // after the way to the API server, which has to outlive the operator
	options := w.Options("--leader-election=true", "--resync=1s", "--snapshot-age=1s")
	options.Kubeconfig = kubeconfig
	// One of each: something that works and is changed, that fails for want of a right, that nobody uses, that cannot be deleted.
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceGet, Count: 1, Answer: aivensim.Error(http.StatusServiceUnavailable, "", "not now")})
	w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	w.Run(options)
	w.Apply("cart", v1.AivenApplicationSpec{
		Rotation:   &v1.Rotation{Interval: "720h"},
		SecretName: "creds", Kafka: &v1.Kafka{Pool: world.Pool}, Valkey: []v1.Valkey{{Instance: "cache", Access: v1.AccessRead}},
	})
	w.Ready("cart")
	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Valkey[0].Access = v1.AccessWrite })
	w.Ready("cart")
	w.Apply("denied", kafka(world.Pool, "not-allowed"))
	w.NotReady("denied", "LocalFailure")
	w.Apply("held", kafka(world.Pool, "held"))
	w.Ready("held")
	w.Apply("brief", kafka(world.Pool, "brief"))
	w.Ready("brief")
	w.Remove(w.App("brief"))
	w.Gone(&corev1.Secret{}, "brief")
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Answer: aivensim.Error(http.StatusInternalServerError, "", "broken")})
	w.Remove(w.Secret("held"))

	want := documented(t)
	var got map[string]family
	w.Eventually(func(ctx context.Context) (err error) {
		if got, err = exposed(ctx, w); err != nil {
			return err
		}
		var missing []string
		for name := range want {
			if _, ok := got[name]; !ok {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("described, but not there: %q", missing)
		}
		return nil
	})
	maps.DeleteFunc(got, func(name string, _ family) bool {
		_, described := want[name]
		ours := strings.HasPrefix(name, "keysmith_") || strings.HasPrefix(name, "aivenator_") || strings.HasPrefix(name, "operatorkit_")
		return !ours && !described
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-page +operator):\n%s", diff)
	}
}

func TestSeriesOfANamespaceGoWithIt(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start()
	w.Apply("cart", kafka(world.Pool, "creds"))
	w.Ready("cart")
	w.Touch("cart", 1)
	w.Sweep()
	mentions := func(ctx context.Context) ([]string, error) {
		series, err := scrape(ctx, w)
		var out []string
		for s := range series {
			if strings.HasPrefix(s, "aivenator_kubernetes_resources_") && strings.Contains(s, w.Namespace) {
				out = append(out, s)
			}
		}
		return out, err
	}
	if before, err := mentions(t.Context()); err != nil || len(before) != 3 {
		t.Fatalf("written, not written, deleted: want three series, got %q, %v", before, err)
	}
	w.Remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}})
	w.NamespaceGone()
	w.Eventually(func(ctx context.Context) error {
		left, err := mentions(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("series of a namespace that is gone: %q", left)
		}
		return err
	})
}
