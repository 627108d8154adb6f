package middleware_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// flaky is a resource that fails at first.
type flaky struct{ failures int }

func (f *flaky) EnsureCreated(context.Context, any) error {
	if f.failures > 0 {
		f.failures--
		fmt.Println("failed")
		return errors.New("connection reset")
	}
	fmt.Println("created")
	return nil
}

func (f *flaky) EnsureDeleted(context.Context, any) error { return nil }
func (f *flaky) Name() string                             { return "flaky" }

// The first middleware is outermost: the two failures are one observation, of a call that was done.
func Example() {
	registry := prometheus.NewRegistry()
	metrics := middleware.NewMetrics(registry, nil)
	atOnce := func() backoff.BackOff { return &backoff.ZeroBackOff{} }
	slice := resource.Wrap([]resource.Interface{&flaky{failures: 2}},
		middleware.Logging(nil), metrics.Middleware("example"), middleware.Retry(atOnce, nil))

	if err := slice[0].EnsureCreated(context.Background(), nil); err != nil {
		fmt.Println(err)
	}
	families, _ := registry.Gather()
	for _, m := range families[0].GetMetric() {
		fmt.Printf("%s: %d of outcome %s\n", families[0].GetName(), m.GetHistogram().GetSampleCount(), m.GetLabel()[2].GetValue())
	}
	// Output:
	// failed
	// failed
	// created
	// keysmith_resource_duration_seconds: 1 of outcome done
}
