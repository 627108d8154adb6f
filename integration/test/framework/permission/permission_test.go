//go:build k8srequired

// Package permission shows an operator that lacks a right: it says which one, where people look, and works as soon as the right is granted, without
// a restart.
package permission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

type right struct{ verb, group, resource string }

func (r right) String() string { return r.verb + " " + r.resource }

// all are the rights that the operator needs.
var all = []right{
	{"list", "", "services"},
	{"watch", "", "services"},
	{"patch", "", "services"},
	{"patch", "", "services/status"},
	{"create", "", "configmaps"},
	{"list", "", "configmaps"},
	{"watch", "", "configmaps"},
	{"create", "events.k8s.io", "events"},
	{"patch", "events.k8s.io", "events"},
}

// without returns all rights but some.
func without(missing ...string) []right {
	return slices.DeleteFunc(slices.Clone(all), func(r right) bool { return slices.Contains(missing, r.String()) })
}

// user returns the name of a user with these rights in the bed's namespace.
func user(bed *counting.Bed, rights []right) string {
	name := "operator-" + bed.Namespace
	bed.Make(
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "operator"}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "operator"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
			RoleRef:    rbacv1.RoleRef{Kind: "Role", APIGroup: rbacv1.GroupName, Name: "operator"},
		})
	grant(bed, rights)
	for _, right := range rights { // the API server learns of them by a watch
		bed.Eventually(func(ctx context.Context) error {
			of, sub, _ := strings.Cut(right.resource, "/")
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: name,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: bed.Namespace, Verb: right.verb, Group: right.group, Resource: of, Subresource: sub,
				},
			}}
			if err := bed.Create(ctx, review); err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("%s may not %s yet", name, right)
			}
			return nil
		})
	}
	return name
}

func grant(bed *counting.Bed, rights []right) {
	counting.Change(bed, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}, func(role *rbacv1.Role) {
		role.Rules = nil
		for _, r := range rights {
			role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{r.verb}, APIGroups: []string{r.group}, Resources: []string{r.resource}})
		}
	})
}

// start starts an operator as that user, with a resource that does that with the operator's client.
func start(bed *counting.Bed, user string, do func(ctx context.Context, api client.Client, cm *corev1.ConfigMap) error) (*counting.Operator, *counting.Resource) {
	r := counting.Named("child")
	config := bed.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return bed.StartAs(config, nil, func(o *counting.Operator) error {
		r.Do(func(ctx context.Context, op resource.Operation, obj client.Object) error {
			if op == resource.Delete {
				return nil
			}
			return do(ctx, o.Manager.GetClient(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName()}})
		})
		cfg := counting.Services("permission", r)
		cfg.MaxBackoff, cfg.Timeout = time.Second, 5*time.Second
		return counting.Controller(cfg)(o)
	}), r
}

func create(ctx context.Context, api client.Client, cm *corev1.ConfigMap) error {
	if err := client.IgnoreAlreadyExists(api.Create(ctx, cm)); err != nil {
		return fmt.Errorf("create ConfigMap: %w", err)
	}
	return nil
}

func read(ctx context.Context, api client.Client, cm *corev1.ConfigMap) error {
	if err := client.IgnoreNotFound(api.Get(ctx, client.ObjectKeyFromObject(cm), cm)); err != nil {
		return fmt.Errorf("read ConfigMap: %w", err)
	}
	return nil
}

const (
	failures = "operatorkit_controller_errors_total"
	watches  = "keysmith_watch_errors_total"
)

func TestMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ missing string }{
		"for finalizers":           {"patch services"},
		"for the status":           {"patch services/status"},
		"for what a resource does": {"create configmaps"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			user := user(bed, without(test.missing))
			op, r := start(bed, user, create)
			cart := counting.Service("cart")
			bed.Make(cart)

			sentence := fmt.Sprintf("%s is not allowed to %s in namespace %s", user, test.missing, bed.Namespace)
			op.Logs(`"msg":"Reconciler error"`, sentence, `"controller":"permission"`, bed.Namespace+"/cart")
			bed.Event("cart", "Warning MissingPermission "+sentence)
			bed.AtLeast(5, "failures", func() int { return int(op.Metric(failures, "controller", "permission")) })
			bed.Event("cart", "Warning MissingPermission "+sentence) // once
			for _, line := range op.Errors() {
				if !strings.Contains(line, sentence) {
					t.Errorf("an error about something else: %s", line)
				}
			}

			grant(bed, all)
			bed.Ready("cart", "True Done")
			failed, passes := op.Metric(failures), r.Created("cart")
			bed.Annotate(cart, "touched", "1")
			bed.AtLeast(passes+1, "creations", func() int { return r.Created("cart") })
			bed.Remove(cart)
			bed.Gone(cart)
			if n := op.Metric(failures); n != failed {
				t.Errorf("%v failures after the right was granted", n-failed)
			}
			bed.Event("cart", "Warning MissingPermission "+sentence)
			if n := op.Metric(watches); n != 0 {
				t.Errorf("%v watches failed", n)
			}
		})
	}
}

func TestMissingRightToWatchIsNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		missing []string
		verb    string
	}{
		"to watch":          {missing: []string{"watch services"}, verb: "watch"},
		"to list and watch": {missing: []string{"list services", "watch services"}, verb: "list"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := counting.New(t)
			user := user(bed, without(test.missing...))
			op, r := start(bed, user, create)
			cart := counting.Service("cart")
			bed.Make(cart)
			op.Logs(`"msg":"a permission is missing"`, fmt.Sprintf(`"user":%q`, user), fmt.Sprintf(`"verb":%q`, test.verb),
				`"resource":"services"`, fmt.Sprintf(`"namespace":%q`, bed.Namespace))
			bed.AtLeast(2, "failed watches", func() int { return int(op.Metric(watches, "kind", "Service", "reason", "forbidden")) })
			if n := op.Metric(failures); n != 0 {
				t.Errorf("%v failed passes, but it is the watch that fails", n)
			}

			grant(bed, all)
			bed.Ready("cart", "True Done")
			for i := range 5 { // by the watch
				passes := r.Created("cart")
				bed.Annotate(cart, "touched", fmt.Sprint(i))
				bed.AtLeast(passes+1, "creations", func() int { return r.Created("cart") })
			}
			bed.Event("cart")
			if n := op.Metric(failures); n != 0 {
				t.Errorf("%v failed passes", n)
			}
		})
	}
}

func TestMissingRightToWatchWhatAResourceReadsIsNamed(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	user := user(bed, without("list configmaps", "watch configmaps"))
	op, _ := start(bed, user, read)
	bed.Make(counting.Service("cart"))
	op.Logs(`"msg":"a permission is missing"`, fmt.Sprintf(`"user":%q`, user), `"verb":"list"`, `"resource":"configmaps"`)
	bed.Ready("cart", "False Failed: ") // the client waits for its cache until the pass has to end
	bed.AtLeast(1, "failed watches", func() int { return int(op.Metric(watches, "kind", "ConfigMap", "reason", "forbidden")) })
	bed.AtLeast(1, "failed passes", func() int { return int(op.Metric(failures)) })

	grant(bed, all)
	bed.Ready("cart", "True Done")
}
