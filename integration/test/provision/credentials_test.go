//go:build k8srequired

package provision

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// A user may be there before its password and its certificate are. No Secret has an empty value meanwhile, and nobody is told of a failure.
func TestCredentialsAreLate(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	cache := w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{})
	empty := emptyValues(t, w)
	w.Sim.SetLag(aivensim.Lag{Credentials: 15 * time.Second}) // longer than the operator waits before it looks again
	w.Start()
	specs := map[string]v1.AivenApplicationSpec{
		"cart": {Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "cart"}},
		"shop": {Valkey: []v1.Valkey{{Instance: "cache", SecretName: "shop"}}},
		"both": {SecretName: "both", Kafka: &v1.Kafka{Pool: world.Pool}, Valkey: []v1.Valkey{{Instance: "cache"}}},
	}
	for name, spec := range specs {
		w.Apply(name, spec)
	}
	for name := range specs {
		app := w.NotReady(name, binding.ReasonCredentials)
		for _, c := range app.Status.Conditions {
			if c.Type == v1.ConditionAivenFailure || c.Type == v1.ConditionLocalFailure {
				t.Errorf("%s: waiting shows as a failure: %+v", name, c)
			}
		}
		if err := w.Get(t.Context(), w.Key(name), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("there is a Secret %s already: %v", name, err)
		}
	}
	for name := range specs {
		w.Ready(name)
		expectLogin(t, w, w.Secret(name))
	}
	for what, s := range map[string]*aivensim.Service{"Kafka": w.Kafka, "Valkey": cache} {
		if users := world.Users(s); len(users) != 2 {
			t.Errorf("%s: users %q, want two", what, users)
		}
	}
	n := w.Sim.Counters()
	if posts := n.Requests[aivensim.ServiceUserCreate]; posts != 4 || n.UsersReset != 0 {
		t.Errorf("%d users were made and %d passwords changed: want four and none", posts, n.UsersReset)
	}
	if got := w.Metric("operatorkit_controller_errors_total"); got != 0 {
		t.Errorf("%v failures were counted, want none", got)
	}
	w.NoErrorLogged()
	if err := empty(); err != nil {
		t.Error(err)
	}
}

// emptyValues watches the Secrets of a world. What it returns ends that, and tells of values that were ever empty.
func emptyValues(t *testing.T, w *world.World) func() error {
	t.Helper()
	watch, err := w.Client.(client.WithWatch).Watch(t.Context(), &corev1.SecretList{}, client.InNamespace(w.Namespace))
	if err != nil {
		t.Fatalf("watch Secrets: %v", err)
	}
	found := make(chan error, 1)
	go func() {
		err := errors.New("no Secret was seen")
		for e := range watch.ResultChan() {
			s, ok := e.Object.(*corev1.Secret)
			if !ok {
				continue // the last word of a watch that is stopped
			}
			err = nil
			for k, v := range s.Data {
				if len(v) == 0 {
					found <- fmt.Errorf("%s of Secret %s was empty", k, s.Name)
					return
				}
			}
		}
		found <- err
	}()
	return func() error {
		watch.Stop()
		return <-found
	}
}
