//go:build k8srequired

// Package migration shows that what the earlier operator left behind is taken over without a change, that a plan says so before, and that there is a
// way back.
package migration

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/service/plan"
)

func TestMain(m *testing.M) { world.Run(m) }

// earlierStatus is what the earlier operator writes after it has synchronised an application.
const earlierStatus = `{"status":{
	"synchronizationState":"RolloutComplete","synchronizationHash":"8f7a9c6d01020304","synchronizationTime":"2024-05-06T07:08:09Z",
	"synchronizedGeneration":1,"observedGeneration":1,"conditions":[
		{"type":"Succeeded","status":"True","lastUpdateTime":"2024-05-06T07:08:09Z"},
		{"type":"AivenFailure","status":"False"},{"type":"LocalFailure","status":"False"}]}}`

// Two hundred applications, half of them with an empty status: the plan says that nothing would change, the operator changes nothing that anybody else
// relies on, and what was taken over can be given up.
func TestTakeOverChangesNothing(t *testing.T) {
	t.Parallel()
	const n = 200
	e := world.Inherit(t)
	before := map[string]*corev1.Secret{}
	for i := range n {
		name := fmt.Sprintf("app-%03d", i)
		e.Add(name)
		before[name] = e.Secret(name)
		if i%2 == 0 {
			if err := e.Status().Patch(t.Context(), e.App(name), client.RawPatch("application/merge-patch+json", []byte(earlierStatus))); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := planner(t, e.World)
	quiet(t, run, n)
	e.Sim.ResetCounters()
	e.Start()
	for name := range before {
		e.Ready(name)
		unchanged(t, before[name], e.Secret(name))
	}
	counters := e.Sim.Counters()
	if counters.Writes != 0 {
		t.Errorf("%d writes to Aiven, want none: %v", counters.Writes, counters.Requests)
	}
	if total := counters.Total(); total > 15 {
		t.Errorf("%d calls for 3 services and 2 projects: %v", total, counters.Requests)
	}
	quiet(t, run, n)

	// What was taken over can be given up.
	e.Remove(e.App("app-000"))
	e.Gone(&v1.AivenApplication{}, "app-000")
	e.Gone(&corev1.Secret{}, "app-000")
	for _, s := range e.Services() {
		if left := len(world.Users(s)); left != n-1 {
			t.Errorf("%s has %d users, want %d", s.Name(), left, n-1)
		}
	}
}

// quiet fails the test unless a plan says that nothing would change.
func quiet(t *testing.T, run func(...string) (int, string, string), n int) {
	t.Helper()
	status, stdout, stderr := run("--output=json")
	if status != 0 {
		t.Errorf("exit status %d of the plan\n%s", status, stderr)
	}
	got := report(t, stdout)
	want := plan.Summary{
		Applications: map[plan.Result]int{plan.Unchanged: n},
		Users:        map[plan.Action]int{plan.Keep: 3 * n},
		Secrets:      map[plan.Action]int{plan.Keep: n},
	}
	if diff := cmp.Diff(want, got.Summary); diff != "" {
		for _, s := range got.Applications {
			if s.Result != plan.Unchanged {
				t.Errorf("%s: %+v", s.Name, s.Steps)
				break
			}
		}
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// unchanged fails the test if a Secret has other data or labels than before, or another value for an annotation that it had.
func unchanged(t *testing.T, before, after *corev1.Secret) {
	t.Helper()
	if !maps.EqualFunc(before.Data, after.Data, bytes.Equal) {
		t.Errorf("%s: the data changed; keys %v, before %v", after.Name, slices.Sorted(maps.Keys(after.Data)), slices.Sorted(maps.Keys(before.Data)))
	}
	for k, v := range before.Annotations {
		if after.Annotations[k] != v {
			t.Errorf("%s: annotation %s changed from %q to %q", after.Name, k, v, after.Annotations[k])
		}
	}
	if diff := cmp.Diff(before.Labels, after.Labels); diff != "" {
		t.Errorf("%s: labels (-before +after):\n%s", after.Name, diff)
	}
}
