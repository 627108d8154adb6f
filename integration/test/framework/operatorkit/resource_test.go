//go:build k8srequired

package operatorkit

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/giantswarm/backoff"
	"github.com/giantswarm/operatorkit/v7/pkg/resource/wrapper/metricsresource"
	"github.com/giantswarm/operatorkit/v7/pkg/resource/wrapper/retryresource"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/integration/operatorkit/controllercontext"
	"github.com/keysmith-io/keysmith/integration/operatorkit/rolebinding"
	"github.com/keysmith-io/keysmith/integration/operatorkit/serviceaccount"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// wrapping is what stands around the resources.
type wrapping struct {
	workers int
	repeats bool // it repeats a call that failed, so that the pass goes on
	wrap    func(t *testing.T, w *tenants, o *counting.Operator, rs []resource.Interface) []resource.Interface
	check   func(t *testing.T, w *tenants, o *counting.Operator, name string) // at the end, for each resource
}

var wrappings = map[string]wrapping{
	"bare": {
		workers: 8,
		wrap: func(_ *testing.T, _ *tenants, _ *counting.Operator, rs []resource.Interface) []resource.Interface {
			return rs
		},
	},
	"in our middleware": {
		workers: 8,
		repeats: true,
		wrap: func(_ *testing.T, _ *tenants, o *counting.Operator, rs []resource.Interface) []resource.Interface {
			m := middleware.NewMetrics(o.Registry, nil)
			return resource.Wrap(rs, middleware.Logging(nil), m.Middleware(controllerName), middleware.Retry(nil, nil))
		},
		check: func(t *testing.T, _ *tenants, o *counting.Operator, name string) {
			for _, operation := range []string{"create", "delete"} {
				if o.Metric("keysmith_resource_duration_seconds", "resource", name, "operation", operation, "outcome", "done") == 0 {
					t.Errorf("no call %s of %s was measured", operation, name)
				}
			}
		},
	},
	"in operatorkit's metrics": {
		workers: 8,
		wrap: func(t *testing.T, _ *tenants, _ *counting.Operator, rs []resource.Interface) []resource.Interface {
			rs, err := metricsresource.Wrap(rs, metricsresource.WrapConfig{})
			if err != nil {
				t.Error(err)
			}
			return rs
		},
		check: measured,
	},
	"in operatorkit's retry and metrics": {
		// The retry wrapper has one back-off for all calls of a resource, and each call resets it: with more workers
		// than one the race detector reports it.
		workers: 1,
		repeats: true,
		wrap: func(t *testing.T, w *tenants, _ *counting.Operator, rs []resource.Interface) []resource.Interface {
			rs, err := retryresource.Wrap(rs, retryresource.WrapConfig{
				// Not NewExponential: with the version of github.com/cenkalti/backoff that is in use here, it does not
				// stop when its time is over, and does not wait any more either.
				BackOffFactory: func() backoff.Interface { return backoff.NewMaxRetries(3, 10*time.Millisecond) },
				Logger:         w.logger,
			})
			if err != nil {
				t.Error(err)
			}
			rs, err = metricsresource.Wrap(rs, metricsresource.WrapConfig{})
			if err != nil {
				t.Error(err)
			}
			return rs
		},
		check: func(t *testing.T, w *tenants, o *counting.Operator, name string) {
			measured(t, w, o, name)
			if got := len(w.log.lines(t, "retrying due to error")); got != 3 {
				t.Errorf("%d repetitions in the log, want 3: one for each refused request", got)
			}
		},
	},
}

// TestResources sends each of the two resources, and both together, through the life of three tenants, while the API server
// refuses one request of each method.
func TestResources(t *testing.T) {
	fixtures := map[string]struct{ accounts, bindings bool }{
		"a simple resource":      {accounts: true},
		"a resource with crud":   {bindings: true},
		"one and then the other": {accounts: true, bindings: true},
	}
	for name, tc := range fixtures {
		for kind, wrapping := range wrappings {
			t.Run("runs "+name+" "+kind, func(t *testing.T) {
				t.Parallel()
				live(t, tc.accounts, tc.bindings, wrapping)
			})
		}
	}
}

// life is that of three tenants, cocoa, coffee and tea.
type life struct {
	*tenants
	accounts, bindings bool // what the resources under test make
}

func live(t *testing.T, accounts, bindings bool, wrapping wrapping) {
	l := &life{newTenants(t), accounts, bindings}
	var rs []resource.Interface
	cfg := controller.Config[*corev1.ConfigMap]{Prepare: prepare, Workers: wrapping.workers}
	if accounts {
		rs = append(rs, l.serviceAccount())
	} else {
		cfg.Prepare = prepareWithDefaultAccount
	}
	if bindings {
		rs = append(rs, l.roleBinding())
	}
	o := l.runIn(func(o *counting.Operator) controller.Config[*corev1.ConfigMap] {
		cfg.Resources = resource.Wrap(wrapping.wrap(t, l.tenants, o, rs), inContext)
		return cfg
	})

	l.create()
	l.repair()
	l.change()
	l.remove()

	want := 3.0 // one for each refused request
	if wrapping.repeats {
		want = 0
	}
	if got := o.Metric("operatorkit_controller_errors_total", "controller", controllerName); got != want {
		t.Errorf("%v passes failed, want %v", got, want)
	}
	l.checkLog()
	for _, r := range rs {
		if wrapping.check != nil {
			wrapping.check(t, l.tenants, o, r.Name())
		}
	}
}

func (l *life) create() {
	l.t.Helper()
	l.api.refuse(http.MethodPost)
	l.Make(tenant("cocoa", "registry", "view"), tenant("coffee", "registry", "edit view"), tenant("tea", "", "view"))
	l.isAsCreated()
	for _, name := range []string{"cocoa", "coffee", "tea"} {
		l.Finalizers(tenant(name, "", ""), finalizer)
	}
}

func (l *life) isAsCreated() {
	l.t.Helper()
	l.become(
		"ServiceAccount cocoa pulls with registry",
		"ServiceAccount coffee pulls with registry",
		"ServiceAccount tea pulls with nothing",
		"RoleBinding cocoa-view gives view to cocoa",
		"RoleBinding coffee-edit gives edit to coffee",
		"RoleBinding coffee-view gives view to coffee",
		"RoleBinding tea-view gives view to tea",
	)
	l.wasRefused()
}

// repair lets somebody else edit and delete what was made.
func (l *life) repair() {
	l.t.Helper()
	l.api.refuse(http.MethodPut)
	if l.accounts {
		counting.Change(l.Bed, account("coffee"), func(a *corev1.ServiceAccount) { a.ImagePullSecrets = nil })
		l.Remove(inNamespace(l.tenants, account("tea")))
	}
	if l.bindings {
		counting.Change(l.Bed, roleBinding("coffee-view"), func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "stranger" })
		l.Remove(inNamespace(l.tenants, roleBinding("tea-view")))
	}
	l.isAsCreated()
}

// change takes a role from a tenant, gives it another one and a pull secret.
func (l *life) change() {
	l.t.Helper()
	counting.Change(l.Bed, tenant("tea", "", ""), func(cm *corev1.ConfigMap) {
		cm.Data = map[string]string{"pullSecret": "pot", "roles": "admin"}
	})
	l.become(
		"ServiceAccount cocoa pulls with registry",
		"ServiceAccount coffee pulls with registry",
		"ServiceAccount tea pulls with pot",
		"RoleBinding cocoa-view gives view to cocoa",
		"RoleBinding coffee-edit gives edit to coffee",
		"RoleBinding coffee-view gives view to coffee",
		"RoleBinding tea-admin gives admin to tea",
	)
}

// remove deletes the tenants. The account of coffee does not go at once.
func (l *life) remove() {
	l.t.Helper()
	l.api.refuse(http.MethodDelete)
	if l.accounts {
		l.hold("coffee")
	}
	for _, name := range []string{"cocoa", "coffee", "tea"} {
		l.Remove(inNamespace(l.tenants, tenant(name, "", "")))
	}
	l.Gone(tenant("cocoa", "", ""))
	l.Gone(tenant("tea", "", ""))
	if l.accounts {
		l.become("ServiceAccount coffee pulls with registry, and is being deleted")
		l.AtLeast(2, "passes that kept the finalizer", func() int { return len(l.log.lines(l.t, "keeping finalizers")) })
		l.Finalizers(tenant("coffee", "", ""), finalizer)
		l.release("coffee")
	}
	l.Gone(tenant("coffee", "", ""))
	l.become()
	l.wasRefused()
}

// become waits for those of the lines that are about what the resources make. Where none makes accounts, roles are given to
// the namespace's own.
func (l *life) become(want ...string) {
	l.t.Helper()
	var lines []string
	for _, line := range want {
		isAccount := strings.HasPrefix(line, "ServiceAccount ")
		if isAccount && !l.accounts || !isAccount && !l.bindings {
			continue
		}
		if !l.accounts {
			line = line[:strings.LastIndex(line, " ")] + " default"
		}
		lines = append(lines, line)
	}
	l.tenants.become(lines...)
}

// wasRefused checks that what went well did so in spite of a refused request.
func (l *life) wasRefused() {
	l.t.Helper()
	if l.api.refusing() {
		l.t.Error("nobody made the request that was to be refused")
	}
}

// prepareWithDefaultAccount stands in for the resource that tells the account of a tenant: it is the namespace's own.
func prepareWithDefaultAccount(ctx context.Context, cm *corev1.ConfigMap) (controller.Plan, error) {
	plan, err := prepare(ctx, cm)
	for _, scope := range plan.Ensure {
		scope.(*controllercontext.Context).Status.ServiceAccount = "default"
	}
	return plan, err
}

// measured checks that operatorkit's metrics know all operations of a resource.
func measured(t *testing.T, _ *tenants, _ *counting.Operator, name string) {
	t.Helper()
	want := map[string][]string{
		serviceaccount.Name: {"EnsureCreated", "EnsureDeleted"},
		rolebinding.Name: {
			"ApplyCreatePatch", "ApplyDeletePatch", "ApplyUpdatePatch",
			"GetCurrentState", "GetDesiredState", "NewDeletePatch", "NewUpdatePatch",
		},
	}[name]
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if family.GetName() != "operatorkit_controller_operation_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if ls := m.GetLabel(); ls[1].GetName() == "resource" && ls[1].GetValue() == name { // labels are sorted by name
				got = append(got, ls[0].GetValue())
			}
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations of %s that were counted: (-want +got)\n%s", name, diff)
	}
}
