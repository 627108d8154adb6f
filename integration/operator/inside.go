package operator

import (
	"context"
	"io"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Inside runs an operator in this process, for tests that move its time. Its metrics are those of the registry. run returns when its context ends;
// stopping is closed before that where the operator is to end well. What it prints goes to output.
func Inside(registry prometheus.Gatherer, run func(ctx context.Context, stopping <-chan struct{}, output io.Writer) error) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	stopping := make(chan struct{})
	metrics := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	p := &Process{Metrics: metrics.URL, output: &output{}, done: make(chan struct{})}
	p.inside = &inside{stop: func() {
		close(stopping)
		cancel()
	}, kill: cancel}
	go func() {
		p.err = run(ctx, stopping, p.output)
		metrics.Close()
		close(p.done)
	}()
	return p
}

// inside ends an operator in this process.
type inside struct {
	stop func() // once
	kill func()
}
