package world

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/keysmith-io/keysmith/integration/env"
)

// Rules are the operator's rights, as its chart grants them.
type Rules struct {
	Work       []rbacv1.PolicyRule `json:"work"`       // in the namespaces that it works in
	Namespaces []rbacv1.PolicyRule `json:"namespaces"` // in the cluster
	Identity   []rbacv1.PolicyRule `json:"identity"`   // in the cluster, without --cluster-name
	Election   []rbacv1.PolicyRule `json:"election"`   // in its own namespace
}

// ReadRules reads the rules from the chart.
func ReadRules(t testing.TB) Rules {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(env.Chart(t), "files", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var r Rules
	if err := yaml.UnmarshalStrict(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Cluster are the rules of the ClusterRole of an operator that works in all namespaces.
func (r Rules) Cluster() []rbacv1.PolicyRule {
	return slices.Concat(r.Work, r.Namespaces, r.Identity)
}
