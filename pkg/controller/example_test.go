package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// say is a resource that says what it is asked for.
type say string

func (s say) EnsureCreated(ctx context.Context, _ any) error { return s.say(ctx, "create") }
func (s say) EnsureDeleted(ctx context.Context, _ any) error { return s.say(ctx, "delete") }
func (s say) Name() string                                   { return string(s) }

func (s say) say(ctx context.Context, verb string) error {
	if database, err := resource.Scope[string](ctx, nil); err == nil {
		fmt.Printf("%s %s of %s\n", verb, string(s), database)
		return nil
	}
	fmt.Println(verb, string(s))
	return nil
}

// A slice runs forwards for an object that is there, and backwards for one that is deleted, which its finalizer keeps until
// then. In a program, SetupWithManager adds the controller to a manager, which calls Reconcile.
func Example() {
	ctx := context.Background()
	server := fake.NewFakeClient(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "db"}})
	c, err := controller.New(controller.Config[*corev1.ConfigMap]{
		Name: "example", Client: server, Resources: []resource.Interface{say("user"), say("rights")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reconcile := func() {
		var cm corev1.ConfigMap
		if err := server.Get(ctx, client.ObjectKey{Name: "db"}, &cm); err != nil {
			fmt.Println("gone")
			return
		}
		if _, err := c.Reconcile(ctx, &cm); err != nil {
			fmt.Println(err)
		}
	}

	reconcile()
	_ = server.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "db"}})
	reconcile()
	reconcile()
	// Output:
	// create user
	// create rights
	// delete rights
	// delete user
	// gone
}

// Prepare plans a pass: the slice runs once for each scope. Here a ConfigMap asks for one database and asks no more for
// another, which was noted when it was made.
func ExamplePlan() {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Finalizers: []string{controller.Finalizer("example")}},
		Data:       map[string]string{"wanted": "orders", "made": "invoices"},
	}
	c, err := controller.New(controller.Config[*corev1.ConfigMap]{
		Name: "example", Client: fake.NewFakeClient(cm), Resources: []resource.Interface{say("user")},
		Prepare: func(_ context.Context, cm *corev1.ConfigMap) (controller.Plan, error) {
			return controller.Plan{Ensure: []any{cm.Data["wanted"]}, Delete: []any{cm.Data["made"]}}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Reconcile(context.Background(), cm); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// create user of orders
	// delete user of invoices
}

// A Periodic runs at its start, at its interval, and soon after Trigger. A manager starts it, on the leader.
func ExamplePeriodic() {
	p, err := controller.NewPeriodic(controller.PeriodicConfig{
		Name: "sweep", Resource: say("sweep"), Interval: time.Hour, Debounce: time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Trigger() // before the first round, which answers it
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = p.Start(ctx)
	// Output: create sweep
}

// An error of the API server tells which right is missing.
func ExampleMissingPermission() {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "password", errors.New(
		`User "system:serviceaccount:ops:keeper" cannot patch resource "secrets" in API group "" in the namespace "shop"`))
	if missing, ok := controller.MissingPermission(fmt.Errorf("publish: %w", err)); ok {
		fmt.Println(missing.User, "may not", missing)
	}
	// Output: system:serviceaccount:ops:keeper may not patch secrets in namespace shop
}
