//go:build k8srequired

// Package namespace shows that a namespace that is deleted takes its users with it, that nothing new is made in it, and that nothing but
// Aiven's failing holds it.
package namespace

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	framework "github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/service/controller"
)

func TestMain(m *testing.M) { world.Run(m) }

const failures = "operatorkit_controller_errors_total"

func written(w *world.World) (series string) {
	return fmt.Sprintf(`aivenator_kubernetes_resources_written{namespace=%q,resource_type="Secret"}`, w.Namespace)
}

func remove(w *world.World) {
	w.Remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}})
}

func TestDeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		fails bool // Aiven, for a while
	}{
		"it ends":                    {},
		"it ends once Aiven is back": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			services := []*aivensim.Service{
				w.Kafka,
				w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{}),
				w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{}),
			}
			w.Start()
			const apps = 4
			for i := range apps {
				w.Apply(fmt.Sprintf("app-%d", i), v1.AivenApplicationSpec{
					Protected:  i == 0,
					Kafka:      &v1.Kafka{Pool: world.Pool, SecretName: fmt.Sprintf("kafka-%d", i), ACL: []v1.KafkaACL{{Topic: "orders"}}},
					OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: fmt.Sprintf("search-%d", i)},
					Valkey:     []v1.Valkey{{Instance: "cache", SecretName: fmt.Sprintf("cache-%d", i)}},
				})
			}
			w.Make(deployment(w.Namespace, "web", "kafka-1"))
			for i := range apps {
				w.Ready(fmt.Sprintf("app-%d", i))
			}
			w.Apply("refused", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "elsewhere", SecretName: "refused"}})
			w.NotReady("refused", binding.ReasonPoolNotAllowed)
			w.Earlier("earlier", "earlier")
			for _, s := range services {
				if len(world.Users(s)) < apps {
					t.Fatalf("users of %s: %q", s.Name(), world.Users(s))
				}
			}
			before, failed := w.Metric(written(w)), w.Metric(failures)
			w.Sim.ResetCounters()

			var outage *aivensim.Injection
			if tc.fails {
				outage = w.Sim.Inject(aivensim.Rule{Answer: aivensim.Error(503, "", "Service unavailable")})
			}
			remove(w)
			if tc.fails {
				w.Eventually(func(context.Context) error {
					if outage.Hits() < 100 {
						return fmt.Errorf("%d calls failed", outage.Hits())
					}
					return nil
				})
				var secrets corev1.SecretList
				if err := w.List(t.Context(), &secrets, client.InNamespace(w.Namespace)); err != nil {
					t.Fatal(err)
				}
				if len(secrets.Items) != 3*apps+1 {
					t.Errorf("%d Secrets wait for Aiven, want %d", len(secrets.Items), 3*apps+1)
				}
				for _, s := range services {
					if len(world.Users(s)) < apps {
						t.Errorf("users of %s while Aiven fails: %q", s.Name(), world.Users(s))
					}
				}
				outage.Remove()
			}
			most := before // what is counted of a namespace goes with it
			w.Eventually(func(ctx context.Context) error {
				most = max(most, w.Metric(written(w)))
				err := w.Get(ctx, client.ObjectKey{Name: w.Namespace}, &corev1.Namespace{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("the namespace is still there: %w", err)
			})
			w.NamespaceGone()
			for _, s := range services {
				w.UsersAre(s)
			}
			for _, e := range w.Kafka.KafkaACLs() {
				if e.Username != "avnadmin" {
					t.Errorf("a Kafka entry is left: %+v", e)
				}
			}
			if left := services[1].OpenSearchACLs().ACLs; len(left) > 0 {
				t.Errorf("OpenSearch rules are left: %+v", left)
			}
			calls := w.Sim.Counters().Requests
			got := map[string]int{
				"users made": calls[aivensim.ServiceUserCreate], "entries made": calls[aivensim.ServiceKafkaACLAdd],
				"Secrets written": int(most - before),
			}
			want := map[string]int{"users made": 0, "entries made": 0, "Secrets written": 0}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was made in a namespace that is being deleted (-want +got):\n%s", diff)
			}
			if n := w.Metric(failures) - failed; !tc.fails && n != 0 {
				t.Errorf("%v failures were counted, want none", n)
			}
		})
	}
}

func TestAnApplicationThatWasNeverSynchronized(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	app := &v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: "cart", Finalizers: []string{framework.Finalizer(controller.ApplicationName)},
		},
		Spec: v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}},
	}
	w.Make(app)
	w.Kubeconfig() // nobody can be granted anything in a namespace that is being deleted
	remove(w)
	w.Eventually(func(ctx context.Context) error {
		err := w.Get(ctx, w.Key("cart"), app)
		if err == nil && app.DeletionTimestamp.IsZero() {
			err = fmt.Errorf("the application is not being deleted yet")
		}
		return err
	})
	w.Start()
	w.NamespaceGone()
	if calls := w.Sim.Counters(); calls.Writes > 0 {
		t.Errorf("calls that change something at Aiven: got %+v, want none", calls.Requests)
	}
	if got := w.Metric(written(w)); got != 0 {
		t.Errorf("Secrets written: got %v, want none", got)
	}
	if got := w.Metric(failures); got != 0 {
		t.Errorf("errors: got %v, want none", got)
	}
	w.NoErrorLogged()
}

func deployment(namespace, name, secret string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: name, Image: "none", EnvFrom: []corev1.EnvFromSource{
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}},
				}}},
			}},
		},
	}
}
