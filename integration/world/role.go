package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Kubeconfig is the path of a kubeconfig file for a user who has the rights that the chart gives, in the whole cluster and in the world's namespace, and
// no others.
func (w *World) Kubeconfig() string {
	w.t.Helper()
	if w.kubeconfig != "" {
		return w.kubeconfig
	}
	user := "keysmith-" + w.Namespace
	w.grant(user, ReadRules(w.t))
	config, err := clientcmd.LoadFromFile(os.Getenv(env.Kubeconfig))
	if err != nil {
		w.t.Fatalf("read %s: %v", env.Kubeconfig, err)
	}
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Impersonate = user
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatalf("write a kubeconfig: %v", err)
	}
	w.isGranted(user)
	w.kubeconfig = path
	return path
}

// grant gives a user the operator's rights until the test ends.
func (w *World) grant(user string, rules Rules) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Name: user}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	for _, obj := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules.Cluster()},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: user}, Rules: rules.Election},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: user}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		},
	} {
		if err := w.Create(w.t.Context(), obj); err != nil {
			w.t.Fatalf("grant the operator its rights: %v", err)
		}
		if obj.GetNamespace() != "" {
			continue // it goes with the namespace
		}
		w.t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := client.IgnoreNotFound(w.Delete(ctx, obj)); err != nil {
				w.t.Errorf("clean up: %v", err)
			}
		})
	}
}

// isGranted waits until the API server knows of both roles.
func (w *World) isGranted(user string) {
	w.t.Helper()
	scheme := runtime.NewScheme()
	if err := authorizationv1.AddToScheme(scheme); err != nil {
		w.t.Fatal(err)
	}
	c := env.Client(w.t, scheme)
	for _, right := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "secrets"}, {Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: w.Namespace},
	} {
		w.Eventually(func(ctx context.Context) error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
			if err := c.Create(ctx, review); err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("%s may not %s %s yet", user, right.Verb, right.Resource)
			}
			return nil
		})
	}
}
