package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

func TestWhyAnApplicationIsProcessed(t *testing.T) {
	tests := map[string]struct {
		edit func(a *v1.AivenApplication)
		want string
	}{
		"it is new":                         {func(a *v1.AivenApplication) { a.Status = v1.AivenApplicationStatus{} }, "new"},
		"it was looked at, without success": {func(a *v1.AivenApplication) { a.Status = v1.AivenApplicationStatus{ObservedGeneration: 2} }, "new"},
		"it was edited":                     {func(a *v1.AivenApplication) { a.Generation++ }, "changed"},
		"its hash was emptied":              {func(a *v1.AivenApplication) { a.Status.SynchronizationHash = "" }, "forced"},
		"nothing is known to have changed":  {func(*v1.AivenApplication) {}, "resync"},
		"it is being deleted":               {func(a *v1.AivenApplication) { a.DeletionTimestamp = new(metav1.Now()) }, "deletion"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			a := app()
			a.Generation = 2
			a.Status = v1.AivenApplicationStatus{ObservedGeneration: 2, SynchronizedGeneration: 2, SynchronizationHash: "h"}
			tt.edit(a)
			newMetrics(registry, clocktesting.NewFakePassiveClock(now)).begun(a)
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, family := range families {
				if family.GetName() != "aivenator_processing_reason" {
					continue
				}
				for _, series := range family.GetMetric() {
					got = append(got, series.GetLabel()[0].GetValue())
				}
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRotationsAreToldOnTheLeaderAlone(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(d))) }
	overdue, next := app(), app()
	next.Name = "next"
	overdue.Status.Bindings = []v1.Binding{{Username: "a", RotatesAt: at(-time.Hour)}, {Username: "b", RetiresAt: at(time.Hour)}}
	next.Status.Bindings = []v1.Binding{{Username: "c", RotatesAt: at(time.Hour)}, {Username: "d"}}
	elected := make(chan struct{})
	r := &rotations{
		cached{elected: elected, client: fake.NewClientBuilder().WithScheme(small()).WithObjects(overdue, next).Build()}, clocktesting.NewFakePassiveClock(now),
	}
	if got := gathered(t, r); len(got) > 0 {
		t.Errorf("before this process leads: %v", got)
	}
	close(elected)
	want := []float64{float64(now.Add(-time.Hour).Unix()), 1, 1} // the next, overdue, retiring
	if diff := cmp.Diff(want, gathered(t, r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRotationsAreCounted(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	off := v1.Binding{RotatesAt: at(-2 * time.Hour), State: StateWaiting, Reason: binding.ReasonPoweredOff}
	failed := v1.Binding{RotatesAt: at(-time.Hour), State: StateFailed, Reason: reasonAiven}
	elected := make(chan struct{})
	close(elected)
	tests := map[string]struct {
		bindings                []v1.Binding
		next, overdue, retiring float64 // next in seconds from now; zero: there is none
	}{
		"it counts nothing without rotation":         {bindings: []v1.Binding{{State: StateReady}}},
		"it tells the first moment":                  {bindings: []v1.Binding{{RotatesAt: at(2 * time.Hour)}, {}, {RotatesAt: at(time.Hour)}}, next: 3600},
		"it counts those that are late":              {bindings: []v1.Binding{failed, {RotatesAt: at(-time.Minute)}, {RotatesAt: at(time.Hour)}}, next: -3600, overdue: 2},
		"it does not count one at its moment":        {bindings: []v1.Binding{{RotatesAt: at(time.Second)}}, next: 1},
		"it does not wait for a service that is off": {bindings: []v1.Binding{off, {RotatesAt: at(time.Hour)}}, next: 3600},
		"it tells nothing where all are off":         {bindings: []v1.Binding{off}},
		"it tells when one is due that is off now":   {bindings: []v1.Binding{{RotatesAt: at(time.Hour), Reason: binding.ReasonPoweredOff}}, next: 3600},
		"it counts those that were replaced":         {bindings: []v1.Binding{{RetiresAt: at(time.Hour)}, {RetiresAt: at(-time.Hour)}}, retiring: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := app()
			a.Status.Bindings = tt.bindings
			c := fake.NewClientBuilder().WithScheme(small()).WithObjects(a).Build()
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(&rotations{cached: cached{elected: elected, client: c}, clock: clocktesting.NewFakePassiveClock(now)})
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, family := range families {
				got[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
			}
			want := map[string]float64{"keysmith_rotations_overdue": tt.overdue, "keysmith_users_retiring": tt.retiring}
			if tt.next != 0 {
				want["keysmith_next_rotation_timestamp_seconds"] = float64(now.Unix()) + tt.next
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
