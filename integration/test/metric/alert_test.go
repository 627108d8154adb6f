//go:build k8srequired

package metric

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// record scrapes the operator from now on. What it returns ends that, and tells which alerts had reason to fire at any time, if only for a moment, each
// with its labels.
func record(t *testing.T, w *world.World) (alerts func() []string) {
	t.Helper()
	dir := t.TempDir()
	take := func(ctx context.Context) error {
		text, err := expose(ctx, w)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, strconv.FormatInt(time.Now().UnixMilli(), 10)), []byte(text), 0o600)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ticker := time.NewTicker(time.Second); ; {
			if err := take(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("scrape: %v", err)
			}
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
			}
		}
	})
	return func() []string {
		t.Helper()
		cancel()
		wg.Wait()
		if err := take(t.Context()); err != nil {
			t.Fatal(err)
		}
		rules, err := filepath.Abs("../../../helm/keysmith/files/alerts.yaml")
		if err != nil {
			t.Fatal(err)
		}
		// Prometheus' engine is no dependency of this module.
		cmd := exec.CommandContext(t.Context(), "go", "run", "-C", "../../../helm/test/alert", "./cmd/replay", rules, dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("replay: %v", err)
		}
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	}
}

func TestCreatingAndDeletingIsNoFailure(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Sim.Adjust(func(s *aivensim.Settings) { s.UserLimit = -1 })
	w.Start("--resync=1s")
	w.MetricIs(`keysmith_applications{reason="Synchronized",state="ready"}`, 0)
	alerts := record(t, w)
	const many = 50
	name := func(i int) string { return fmt.Sprintf("app-%02d", i) }
	for i := range many {
		w.Apply(name(i), kafka(world.Pool, name(i)))
	}
	for i := range many {
		w.Ready(name(i))
	}
	for i := range many {
		w.Remove(w.App(name(i)))
	}
	for i := range many {
		w.Gone(&v1.AivenApplication{}, name(i))
		w.Gone(&corev1.Secret{}, name(i))
	}
	w.UsersAre(w.Kafka)
	w.Sweep()
	if got := alerts(); len(got) > 0 {
		t.Errorf("alerts had reason to fire: %q", got)
	}
	for _, counter := range []string{"operatorkit_controller_errors_total", "controller_runtime_reconcile_errors_total", "keysmith_cleanup_incomplete_total"} {
		if n := w.Metric(counter); n != 0 {
			t.Errorf("%s is %v after nothing went wrong", counter, n)
		}
	}
}

// Aiven cannot be reached when the operator starts, and later can. It shows, and nobody has to do anything.
func TestAnAlertTellsThatAivenIsAway(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	away := w.Sim.Inject(aivensim.Rule{Loss: aivensim.LossReset})
	w.Start()
	w.Apply("cart", kafka(world.Pool, "cart"))
	w.NotReady("cart", "AivenFailure")
	alerts := record(t, w)
	pid := w.Operator.PID()
	calls := `aivenator_aiven_latency_count{operation="ServiceGet",pool="` + world.Pool + `",status="error"}`
	for n := w.Metric(calls); w.Metric(calls) < n+2; {
		w.Touch("cart", 1)
	}
	got := alerts()
	if err := w.Operator.Ready(t.Context()); err == nil {
		t.Error("the operator is ready although it cannot do anything")
	}
	if status := get(t, w.Operator.Health+"/healthz"); status != http.StatusOK {
		t.Errorf("a restart would mend nothing, but /healthz answers %d", status)
	}
	away.Remove()
	w.Ready("cart")
	if w.Operator.PID() != pid {
		t.Error("it was restarted")
	}
	if !slices.ContainsFunc(got, func(a string) bool {
		return strings.HasPrefix(a, "KeysmithAivenUnreachable ") && strings.Contains(a, `pool="`+world.Pool+`"`)
	}) {
		t.Errorf("no alert tells that Aiven is away: %q", got)
	}
	for _, a := range got {
		if strings.HasPrefix(a, "KeysmithDown") || strings.HasPrefix(a, "KeysmithStuck") || strings.HasPrefix(a, "KeysmithAivenToken") {
			t.Errorf("an alert tells what is not so: %s", a)
		}
	}
	w.MetricIs(`keysmith_applications{reason="AivenFailure",state="failed"}`, 0) // which comes from a cache
	alerts = record(t, w)
	w.Touch("cart", 3)
	if after := alerts(); len(after) > 0 {
		t.Errorf("alerts have reason to fire once Aiven is back: %q", after)
	}
}

func get(t *testing.T, url string) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
