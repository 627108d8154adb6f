package resource_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Greeter is a resource that works on ConfigMaps. It has no state of a reconcile.
type Greeter struct{}

// EnsureCreated greets whom the ConfigMap names.
func (Greeter) EnsureCreated(_ context.Context, cm *corev1.ConfigMap) error {
	switch name := cm.Data["name"]; name {
	case "":
		return resource.RequeueAfter(10*time.Second, "ConfigMap %s names nobody yet", cm.Name)
	case "-":
		return reconcile.TerminalError(errors.New(`"-" is no name: put another one under the key name`))
	default:
		fmt.Println("Hello,", name)
		return nil
	}
}

// EnsureDeleted says goodbye.
func (Greeter) EnsureDeleted(_ context.Context, cm *corev1.ConfigMap) error {
	fmt.Println("Goodbye,", cm.Data["name"])
	return nil
}

// Name names the resource in logs and metrics.
func (Greeter) Name() string { return "greeter" }

// A typed resource says what it works on. Adapt makes of it what controllers, operatorkit's among them, run.
func Example() {
	r := resource.Adapt(Greeter{}, resource.Object[*corev1.ConfigMap])

	ctx := context.Background()
	for _, name := range []string{"Ada", "", "-"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "guest"}, Data: map[string]string{"name": name}}
		if err := r.EnsureCreated(ctx, cm); err != nil {
			fmt.Printf("%s: %v\n", resource.OutcomeOf(err), err)
		}
	}
	// Output:
	// Hello, Ada
	// waiting: ConfigMap guest names nobody yet
	// terminal: terminal error: "-" is no name: put another one under the key name
}

// The error of a resource says what happens next, also where it was wrapped or joined.
func ExampleOutcomeOf() {
	errs := []error{
		nil,
		resource.RequeueAfter(time.Minute, "the database starts"),
		fmt.Errorf("read the database: %w", errors.New("connection refused")),
		reconcile.TerminalError(errors.New("spec.size: -1 is not a size")),
		errors.Join(resource.RequeueAfter(time.Minute, "the database starts"), errors.New("no rights")),
	}
	for _, err := range errs {
		after, _ := resource.After(err)
		fmt.Println(resource.OutcomeOf(err), after)
	}
	// Output:
	// done 0s
	// waiting 1m0s
	// failed 0s
	// terminal 0s
	// failed 1m0s
}

// Middleware is one function, which sees both operations of every resource that it is wrapped around.
func ExampleAround() {
	trace := resource.Around(func(ctx context.Context, c resource.Call) error {
		fmt.Println("before", c.Operation, c.Resource)
		defer fmt.Println("after", c.Operation, c.Resource)
		return c.Run(ctx)
	})
	slice := resource.Wrap([]resource.Interface{resource.Adapt(Greeter{}, resource.Object[*corev1.ConfigMap])}, trace)

	_ = slice[0].EnsureDeleted(context.Background(), &corev1.ConfigMap{Data: map[string]string{"name": "Ada"}})
	// Output:
	// before delete greeter
	// Goodbye, Ada
	// after delete greeter
}

// Account is the state that the resources of a run share: what one found out, the next one reads.
type Account struct {
	Name string
	ID   int // from createAccount
}

type createAccount struct{}

func (createAccount) EnsureCreated(_ context.Context, a *Account) error { a.ID = 7; return nil }
func (createAccount) EnsureDeleted(context.Context, *Account) error     { return nil }
func (createAccount) Name() string                                      { return "account" }

type grantRights struct{}

func (grantRights) EnsureCreated(_ context.Context, a *Account) error {
	fmt.Printf("grant rights to %s, number %d\n", a.Name, a.ID)
	return nil
}
func (grantRights) EnsureDeleted(context.Context, *Account) error { return nil }
func (grantRights) Name() string                                  { return "rights" }

// A scope flows through the slice, typed as the object is. A controller puts it into the context, from the plan of a pass.
func ExampleScope() {
	slice := []resource.Interface{
		resource.Adapt(createAccount{}, resource.Scope[*Account]),
		resource.Adapt(grantRights{}, resource.Scope[*Account]),
	}
	ctx := resource.WithScope(context.Background(), &Account{Name: "ada"})
	for _, r := range slice {
		if err := r.EnsureCreated(ctx, nil); err != nil {
			fmt.Println(err)
		}
	}
	// Output: grant rights to ada, number 7
}

// A part that failed does not hold back what the following resources can do without it.
func ExamplePartial() {
	err := resource.Partial(errors.New("one of two databases is away"))
	fmt.Println(resource.OutcomeOf(err), resource.IsPartial(err), err)
	// Output: failed true one of two databases is away
}
