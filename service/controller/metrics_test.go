package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
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
