package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestNew(t *testing.T) {
	good := func() Config[*corev1.Service] {
		return Config[*corev1.Service]{
			Name: "a", Client: fake.NewFakeClient(), Resources: []resource.Interface{step{name: "a"}},
		}
	}
	tests := map[string]struct {
		change func(*Config[*corev1.Service])
		want   string
	}{
		"accepts the required fields alone":   {func(*Config[*corev1.Service]) {}, ""},
		"refuses an empty name":               {func(c *Config[*corev1.Service]) { c.Name = "" }, "check name"},
		"refuses a name that is no finalizer": {func(c *Config[*corev1.Service]) { c.Name = "a b" }, "check name"},
		"refuses to work without a client":    {func(c *Config[*corev1.Service]) { c.Client = nil }, "no client"},
		"refuses to work without resources":   {func(c *Config[*corev1.Service]) { c.Resources = nil }, "no resources"},
		"refuses a type that the scheme lacks": {func(c *Config[*corev1.Service]) {
			c.Client = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build()
		}, "no kind is registered"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := good()
			tc.change(&cfg)
			_, err := New(cfg)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTwoControllersShareMetrics(t *testing.T) {
	metrics := NewMetrics(prometheus.NewRegistry())
	for _, name := range []string{"a", "b"} {
		_, err := New(Config[*corev1.Service]{
			Name: name, Client: fake.NewFakeClient(), Resources: []resource.Interface{step{name: "a"}}, Metrics: metrics,
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestSetupWithManager(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // the test may run twice
	})
	if err != nil {
		t.Fatal(err)
	}
	watched := false
	err = Add(mgr, Config[*corev1.Service]{
		Name: "setup", Resources: []resource.Interface{step{name: "a"}},
		Watch: func(b *builder.Builder) {
			watched = true
			b.Owns(&corev1.Secret{}).Watches(&corev1.ConfigMap{}, &handler.EnqueueRequestForObject{})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Add(mgr, Config[*corev1.Service]{Name: "without resources"}); err == nil {
		t.Error("it accepts what New refuses")
	}
	if !watched {
		t.Error("it adds no further watches")
	}
	p, err := NewPeriodic(PeriodicConfig{Name: "a", Resource: step{name: "a"}, Interval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetupWithManager(mgr); err != nil {
		t.Error(err)
	}
}
