package controller

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

func TestStandingOfAnApplication(t *testing.T) {
	is := func(kind v1.ConditionType, status corev1.ConditionStatus, reason string) v1.Condition {
		return v1.Condition{Type: kind, Status: status, Reason: reason}
	}
	tests := map[string]struct {
		conditions []v1.Condition
		deleted    bool
		want       standing
	}{
		"it is new before the first pass":           {want: standing{state: "new"}},
		"it is ready":                               {conditions: []v1.Condition{is("Ready", "True", "Synchronized")}, want: standing{"ready", "Synchronized"}},
		"it is ready, with a note of throttling":    {conditions: []v1.Condition{is("Ready", "True", "AivenThrottled")}, want: standing{"ready", "Synchronized"}},
		"it waits for what comes by itself":         {conditions: []v1.Condition{is("Ready", "False", "WaitingForService")}, want: standing{"waiting", "WaitingForService"}},
		"it is refused for what its owner can mend": {conditions: []v1.Condition{is("Ready", "False", "PoolNotAllowed")}, want: standing{"refused", "PoolNotAllowed"}},
		"it fails for what its owner cannot mend":   {conditions: []v1.Condition{is("Ready", "False", "AivenFailure")}, want: standing{"failed", "AivenFailure"}},
		"it has no label of somebody's invention":   {conditions: []v1.Condition{is("Ready", "False", "Tuesday")}, want: standing{"failed", "LocalFailure"}},
		"it is paused, whatever it was before": {
			conditions: []v1.Condition{is("Ready", "False", "AivenFailure"), is("Paused", "True", "Paused")}, want: standing{state: "paused"},
		},
		"it is not paused any more": {
			conditions: []v1.Condition{is("Ready", "True", "Synchronized"), is("Paused", "False", "NotPaused")}, want: standing{"ready", "Synchronized"},
		},
		"it is being deleted, and no failure": {
			conditions: []v1.Condition{is("Ready", "False", "AivenFailure")}, deleted: true, want: standing{state: "deleting"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := app()
			a.Status.Conditions = tt.conditions
			if tt.deleted {
				a.DeletionTimestamp = new(metav1.Now())
			}
			if got := standingOf(a); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// counted are the series of a registry that are not zero, by state and reason, and how many there are.
func counted(t *testing.T, c census) (counts map[standing]float64, series int) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts = map[standing]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			series++
			if v := m.GetGauge().GetValue(); v != 0 {
				counts[standing{state: m.GetLabel()[1].GetValue(), reason: m.GetLabel()[0].GetValue()}] = v
			}
		}
	}
	return counts, series
}

func TestTheCensusCountsOnTheLeaderAlone(t *testing.T) {
	named := func(name, reason string) client.Object {
		a := app()
		a.Name = name
		a.Status.Conditions = []v1.Condition{{Type: v1.ConditionReady, Status: corev1.ConditionFalse, Reason: reason}}
		return a
	}
	elected := make(chan struct{})
	c := census{cached{elected: elected, client: fake.NewClientBuilder().WithScheme(small()).WithObjects(
		named("a", "AivenFailure"), named("b", "AivenFailure"), named("c", "InvalidSpec"), named("d", "b3c4 did it"),
	).Build()}}
	if _, n := counted(t, c); n != 0 {
		t.Errorf("%d series before this process leads", n)
	}
	close(elected)
	got, series := counted(t, c)
	want := map[standing]float64{{"failed", "AivenFailure"}: 2, {"refused", "InvalidSpec"}: 1, {"failed", "LocalFailure"}: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(stateOf) + 4; series != n {
		t.Errorf("%d series, want %d whatever there is", series, n)
	}
}

// Whoever adds a reason says who has to do something about it.
func TestEveryReasonHasAState(t *testing.T) {
	noFailure := map[string]bool{
		reasonSynchronized: true, reasonPaused: true, reasonNotPaused: true,
		reasonStillHeld: true, reasonNotRotated: true, // of bindings and events
	}
	for _, file := range []string{"report.go", filepath.Join("..", "..", "pkg", "binding", "reason.go")} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "reason") {
				return true
			}
			reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found++
			if stateOf[reason] == "" && !noFailure[reason] {
				t.Errorf("%s: reason %s has no state", file, reason)
			}
			return true
		})
		if found == 0 {
			t.Errorf("%s: no reasons found", file)
		}
	}
}

// Whoever is asked to do something finds the word in the runbook.
func TestTheRunbookKnowsEachReason(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	for reason := range stateOf {
		if !strings.Contains(string(page), "`"+reason+"`") {
			t.Errorf("the runbook does not know %s", reason)
		}
	}
}
