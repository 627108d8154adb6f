package docs

import (
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// The oldest Kubernetes is the same wherever it is named: the chart refuses an older one, and tests run on it.
func TestTheOldestKubernetesIsTheOneOfTheChart(t *testing.T) {
	var chart struct {
		KubeVersion string `json:"kubeVersion"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../helm/keysmith/Chart.yaml")), &chart); err != nil {
		t.Fatal(err)
	}
	for path, sentence := range map[string]string{
		"../README.md":                `Kubernetes (\S+) or later`,
		"../helm/keysmith/README.md":  `Kubernetes (\S+) or later`,
		"../Makefile":                 `(?m)^OLDEST \?= (\d+\.\d+)\.\d+$`,
		"../pkg/apis/aiven/v1/doc.go": `The rules keep to what Kubernetes (\S+) can compile`,
	} {
		m := regexp.MustCompile(sentence).FindStringSubmatch(read(t, path))
		if m == nil || ">="+m[1]+".0-0" != chart.KubeVersion {
			t.Errorf("%s says %q, the chart %s", path, m, chart.KubeVersion)
		}
	}
}
