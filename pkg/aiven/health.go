package aiven

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

const (
	// refusedAge is how long a refused permission counts against the token, without being refused again.
	refusedAge = 15 * time.Minute
	// graceAge is how long one success outweighs failures: single calls fail all the time.
	graceAge = time.Minute
)

// health is what the last calls told about the API and the token.
type health struct {
	mu      sync.Mutex
	success time.Time // of the last call that was understood and allowed
	failure error     // since then, or nil
	refused map[permission]refusedAt
}

// permission is what a token can lack: bounded, unlike the texts of the API.
type permission struct{ operation, project string }

type refusedAt struct {
	at     time.Time
	status int
}

func newHealth() *health {
	return &health{failure: errors.New("the Aiven API has not been called yet"), refused: map[permission]refusedAt{}}
}

// succeeded takes note of a call that the API understood and allowed.
func (h *health) succeeded(cl *call, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.success, h.failure = now, nil
	delete(h.refused, permission{cl.operation, cl.project})
	for p, r := range h.refused {
		if r.status == http.StatusUnauthorized {
			delete(h.refused, p)
		}
	}
}

// failed takes note of a call without an answer that could be understood.
func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
}

// refuse takes note of a call that was answered, but not with success.
func (h *health) refuse(cl *call, r *refusal, err error, now time.Time) {
	switch {
	case r.code == "resource_managed_by_governance": // about the object, whatever the token
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.failure = err
		h.refused[permission{cl.operation, cl.project}] = refusedAt{now, r.status}
	case r.status >= 400 && r.status < 500 && r.status != http.StatusTooManyRequests:
		h.succeeded(cl, now)
	default:
		h.failed(err)
	}
}

// withheld takes note of whether a read showed the secrets it asked for.
func (h *health) withheld(project string, yes bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := permission{"service:secrets:read", project}
	if !yes {
		delete(h.refused, p)
		return
	}
	h.refused[p] = refusedAt{now, http.StatusForbidden}
}

// refusals are what was refused to the token of late, in order.
func (h *health) refusals(now time.Time) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for p, r := range h.refused {
		if now.Sub(r.at) >= refusedAge {
			continue
		}
		text := p.operation
		if p.project != "" {
			text += " in project " + p.project
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (h *health) ready(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil || !h.success.IsZero() && now.Sub(h.success) < graceAge {
		return nil
	}
	return h.failure
}

// Ready returns why the API cannot be used at the moment, as far as the last calls told: not called yet, unreachable,
// or the token refused. A call that succeeded within the last minute outweighs others that failed.
func (c *Client) Ready() error { return c.health.ready(c.clock.Now()) }

// Refused returns what was refused to the token within the last 15 minutes and has not been allowed since, nil if nothing was. Its text is
// bounded by the operations and the projects in use, such as "refused: ServiceUserCreate in project dev".
func (c *Client) Refused() error {
	refusals := c.health.refusals(c.clock.Now())
	if len(refusals) == 0 {
		return nil
	}
	return fmt.Errorf("refused: %s: %w", strings.Join(refusals, ", "), ErrUnauthorized)
}

// Probe makes one cheap call, for use at the start and when nothing else calls, and returns its error.
func (c *Client) Probe(ctx context.Context) error {
	cl := call{operation: "ProjectList", tried: "list projects", read: true}
	return c.do(ctx, cl, func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, "", nil, skipAnswer)
	})
}

type metrics struct {
	latency   *prometheus.HistogramVec
	retries   *prometheus.CounterVec
	throttled prometheus.Counter

	created, updated, deleted *prometheus.CounterVec // users
}

func newMetrics(registry prometheus.Registerer, h *health, c clock.PassiveClock) (*metrics, error) {
	users := func(what string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aivenator_service_users_" + what,
			Help: "Service users that were " + what + ", by project.",
		}, []string{"pool"})
	}
	m := &metrics{
		created: users("created"), updated: users("updated"), deleted: users("deleted"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "aivenator_aiven_latency",
			Help:    "Seconds until an answer of the Aiven API was read, by operation, HTTP status (or error) and project.",
			Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"operation", "status", "pool"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "keysmith_aiven_retries_total",
			Help: "Reads of the Aiven API that were repeated at once after a failure, by operation.",
		}, []string{"operation"}),
		throttled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "keysmith_aiven_throttled_total",
			Help: "Calls that the Aiven API refused because there were too many of them.",
		}),
	}
	if registry == nil {
		return m, nil
	}
	valid := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "keysmith_aiven_token_valid",
		Help: "1, or 0 where the Aiven API refused the token, or a permission it needs, within the last 15 minutes.",
	}, func() float64 {
		if len(h.refusals(c.Now())) == 0 {
			return 1
		}
		return 0
	})
	var errs []error
	for _, collector := range []prometheus.Collector{m.latency, m.retries, m.throttled, valid, m.created, m.updated, m.deleted} {
		errs = append(errs, registry.Register(collector))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) observe(cl *call, took time.Duration) {
	status := "error"
	if cl.status != 0 {
		status = strconv.Itoa(cl.status)
	}
	m.latency.WithLabelValues(cl.operation, status, cl.project).Observe(took.Seconds())
}
