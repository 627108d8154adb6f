//go:build k8srequired

package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/keysmith-io/keysmith/integration/env"
)

// ruleSpec is the file with the alerts, and the spec of a PrometheusRule.
type ruleSpec struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type prometheusRule struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            ruleSpec          `json:"spec"`
}

func shipped(t *testing.T) ruleSpec {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(env.Chart(t), "files", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var spec ruleSpec
	if err := yaml.UnmarshalStrict(raw, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestMonitoringIsOptional(t *testing.T) {
	t.Parallel()
	out := render(t, "--values="+variant(t, "default"))
	for _, text := range []string{"kind: PrometheusRule", "keysmith.json"} {
		if strings.Contains(out, text) {
			t.Errorf("%s is rendered although nobody asked for it", text)
		}
	}
}

func TestEveryAlertIsRenderedAsItWasTested(t *testing.T) {
	t.Parallel()
	got := find[prometheusRule](t, render(t, "--values="+variant(t, "default"), "--set=prometheusRule.enabled=true"), "PrometheusRule")
	if diff := cmp.Diff(shipped(t), got.Spec); diff != "" {
		t.Errorf("alerts (-file +chart):\n%s", diff)
	}
}

func TestAlertsFollowThePlatform(t *testing.T) {
	t.Parallel()
	all := map[string]bool{}
	for _, group := range shipped(t).Groups {
		for _, r := range group.Rules {
			all[r.Alert] = true
		}
	}
	values := write(t, `
prometheusRule:
  enabled: true
  namespace: monitoring
  labels: {release: prometheus}
  alertLabels: {team: streams, area: platform}
  severities: {critical: page, info: notify}
  disabled: [KeysmithSlow, KeysmithAivenTokenRefused, KeysmithAivenUnreachable, KeysmithAivenThrottled]
  runbookURL: https://example.com/runbook
`)
	got := find[prometheusRule](t, render(t, "--values="+variant(t, "default"), "--values="+values), "PrometheusRule")
	if got.Metadata.Namespace != "monitoring" || got.Metadata.Labels["release"] != "prometheus" {
		t.Errorf("it is in namespace %s with labels %v", got.Metadata.Namespace, got.Metadata.Labels)
	}
	severities := map[string]bool{}
	for _, group := range got.Spec.Groups {
		if group.Name == "keysmith.aiven" {
			t.Error("a group without alerts is left")
		}
		for _, r := range group.Rules {
			delete(all, r.Alert)
			severities[r.Labels["severity"]] = true
			if r.Labels["team"] != "streams" || r.Labels["area"] != "platform" {
				t.Errorf("%s has the labels %v", r.Alert, r.Labels)
			}
			if want := "https://example.com/runbook#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("%s leads to %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"page": true, "warning": true, "notify": true}, severities); diff != "" {
		t.Errorf("severities (-want +got):\n%s", diff)
	}
	left := slices.Sorted(maps.Keys(all))
	if diff := cmp.Diff([]string{"KeysmithAivenThrottled", "KeysmithAivenTokenRefused", "KeysmithAivenUnreachable", "KeysmithSlow"}, left); diff != "" {
		t.Errorf("alerts that are left out (-want +got):\n%s", diff)
	}
	_, _, err := helm(t, "template", "keysmith", "helm/keysmith", "--values="+variant(t, "default"),
		"--set=prometheusRule.enabled=true", "--set=prometheusRule.disabled={KeysmithSlwo}")
	if err == nil || !strings.Contains(err.Error(), `prometheusRule.disabled: there is no alert "KeysmithSlwo"; there are KeysmithDown`) {
		t.Errorf("an alert that there is not is left out: %v", err)
	}
}

func TestTheDashboardIsFound(t *testing.T) {
	t.Parallel()
	got := find[corev1.ConfigMap](t, render(t, "--values="+variant(t, "default"),
		"--set=dashboard.enabled=true", "--set=dashboard.namespace=grafana", "--set=dashboard.annotations.grafana_folder=Platform",
		`--set=dashboard.labels.app\.giantswarm\.io/kind=dashboard`, "--show-only=templates/dashboard.yaml"), "ConfigMap")
	if got.Namespace != "grafana" || got.Annotations["grafana_folder"] != "Platform" ||
		got.Labels["grafana_dashboard"] != "1" || got.Labels["app.giantswarm.io/kind"] != "dashboard" {
		t.Errorf("it is in namespace %s with labels %v and annotations %v", got.Namespace, got.Labels, got.Annotations)
	}
	raw, err := os.ReadFile(filepath.Join(env.Chart(t), "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want, is any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got.Data["keysmith.json"]), &is); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("dashboard (-file +chart):\n%s", diff)
	}
}
