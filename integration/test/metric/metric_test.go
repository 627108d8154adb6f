//go:build k8srequired

// Package metric shows that the operator's metrics speak of what is there: no series outlives its object, and their number does not grow with the
// applications.
package metric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

func TestMain(m *testing.M) { world.Run(m) }

const (
	created = "operatorkit_controller_creation_timestamp"
	deleted = "operatorkit_controller_deletion_timestamp"
)

// expose returns what the operator answers.
func expose(ctx context.Context, w *world.World) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Operator.Metrics+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return string(raw), err
}

// scrape returns the value of each series, by name and labels as they are written.
func scrape(ctx context.Context, w *world.World) (map[string]float64, error) {
	text, err := expose(ctx, w)
	if err != nil {
		return nil, err
	}
	series := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if series[line[:i]], err = strconv.ParseFloat(line[i+1:], 64); err != nil {
			return nil, err
		}
	}
	return series, nil
}

// of returns the series of one metric.
func of(series map[string]float64, metric string) map[string]float64 {
	out := map[string]float64{}
	for s, v := range series {
		if name, _, _ := strings.Cut(s, "{"); name == metric {
			out[s] = v
		}
	}
	return out
}

func must(t *testing.T, w *world.World) map[string]float64 {
	t.Helper()
	series, err := scrape(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return series
}

func kafka(pool, secret string) v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: pool, SecretName: secret}}
}

func TestNoSeriesOutlivesItsObject(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Start("--resync=1s")
	w.Apply("kept", kafka(world.Pool, "kept"))
	w.Ready("kept")
	w.MetricIs(`aivenator_secrets_managed{state="in_use"}`, 1)
	states, apps := of(must(t, w), "aivenator_secrets_managed"), of(must(t, w), "keysmith_applications")

	w.Apply("doomed-well", kafka(world.Pool, "doomed-well"))
	w.Ready("doomed-well")
	w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Answer: aivensim.Error(http.StatusInternalServerError, "", "broken")})
	w.Apply("doomed-ill", kafka(world.Pool, "doomed-ill"))
	w.NotReady("doomed-ill", "AivenFailure")
	w.Apply("doomed-wrong", kafka("doomed", "doomed-wrong"))
	w.NotReady("doomed-wrong", "PoolNotAllowed")
	w.MetricIs(`aivenator_secrets_managed{state="in_use"}`, 2)
	mentions := func(series map[string]float64) (out []string) {
		for s := range series {
			if strings.Contains(s, "doomed") {
				out = append(out, s)
			}
		}
		return out
	}
	w.MetricIs(`keysmith_applications{reason="AivenFailure",state="failed"}`, 1)
	w.MetricIs(`keysmith_applications{reason="PoolNotAllowed",state="refused"}`, 1)
	if n := len(mentions(must(t, w))); n < 4 {
		t.Fatalf("%d series mention the three applications and the Secret: this shows nothing", n)
	}
	for _, name := range []string{"doomed-well", "doomed-ill", "doomed-wrong"} {
		w.Remove(w.App(name))
		w.Gone(&v1.AivenApplication{}, name)
	}
	w.Gone(&corev1.Secret{}, "doomed-well")
	w.Passes(3)
	w.Sweep()
	w.Eventually(func(ctx context.Context) error {
		series, err := scrape(ctx, w)
		if err != nil {
			return err
		}
		if left := mentions(series); len(left) > 0 {
			return fmt.Errorf("series of what is gone: %q", left)
		}
		if diff := cmp.Diff(states, of(series, "aivenator_secrets_managed")); diff != "" {
			return fmt.Errorf("states of Secrets (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(apps, of(series, "keysmith_applications")); diff != "" {
			return fmt.Errorf("states of applications (-before +after):\n%s", diff)
		}
		return nil
	})
}

// The labels of metrics are a few words and the names of namespaces and projects. The time stamps alone are one for each object.
func TestSeriesDoNotGrowWithApplications(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	other := w.Neighbour(t, "b")
	w.Start("--namespaces="+other.Namespace, "--resync=24h", "--janitor-period=24h")
	var names []string
	grow := func(to int) map[string]float64 {
		for i := len(names); i < to; i++ {
			name := fmt.Sprintf("member-%03d", i)
			if i%3 == 1 { // each fails with a text of its own
				w.Sim.Inject(aivensim.Rule{
					Operation: aivensim.ServiceUserCreate, Username: "*_" + name + "_*",
					Answer: aivensim.Error(http.StatusInternalServerError, "", "no power for "+name),
				})
			}
			in, pool := []*world.World{w, other}[i%2], world.Pool
			if i%6 == 5 {
				pool = "pool-of-" + name
			}
			in.Apply(name, kafka(pool, name))
			names = append(names, name)
		}
		objects := 0
		for i := range names {
			in, name := []*world.World{w, other}[i%2], names[i]
			switch {
			case i%6 == 5:
				in.NotReady(name, "PoolNotAllowed")
			case i%3 == 1:
				in.NotReady(name, "AivenFailure")
			default:
				in.Ready(name)
				objects++ // its Secret
			}
			objects++
		}
		var series map[string]float64
		w.Eventually(func(ctx context.Context) (err error) {
			if series, err = scrape(ctx, w); err != nil {
				return err
			}
			if n := len(of(series, created)); n != objects {
				return fmt.Errorf("%d time stamps of %d objects", n, objects)
			}
			return nil
		})
		return series
	}
	const few, many = 12, 48
	before, after := grow(few), grow(many)
	var more []string
	for s := range after {
		name, labels, _ := strings.Cut(s, "{")
		if name == created || name == deleted {
			continue
		}
		if _, ok := before[s]; !ok && !strings.HasSuffix(name, "_bucket") {
			more = append(more, s)
		}
		if strings.Contains(labels, "member-") || strings.Contains(labels, "power") {
			t.Errorf("a label names an object or an error: %s", s)
		}
	}
	// Some kinds of events happen for the first time among many; six of the new applications are alike at the least.
	if len(more) >= (many-few)/6 {
		t.Errorf("%d applications more have made %d series: %q", many-few, len(more), more)
	}

	// A scrape asks nobody. Calls of another origin are the tail of what was before.
	w.Eventually(func(ctx context.Context) error {
		calls := func() (float64, error) { return w.Operator.Metric(ctx, "rest_client_requests_total") }
		first, err := calls()
		if err != nil {
			return err
		}
		start := time.Now()
		last, err := calls()
		if err != nil {
			return err
		}
		if d := time.Since(start); d > time.Second {
			return fmt.Errorf("a scrape took %s", d)
		}
		if last != first {
			return errors.New("the API server was called between two scrapes")
		}
		return nil
	})
}
