package aiven

import (
	"context"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// family returns the metrics of a name.
func (f fixture) family(t *testing.T, name string) []*dto.Metric {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

// gauge returns whether the token is valid, as the metric says.
func (f fixture) gauge(t *testing.T) float64 {
	t.Helper()
	return f.family(t, "keysmith_aiven_token_valid")[0].GetGauge().GetValue()
}

func TestLatencyIsMeasured(t *testing.T) {
	f := newFixture(t)
	f.read(t, kafka)
	_, _ = f.User(t.Context(), kafka, "gone")
	_ = f.Probe(t.Context())
	f.sim.Inject(aivensim.Rule{Reset: true})
	_, _ = f.CreateUser(t.Context(), kafka, "app", nil)
	got := map[string]uint64{}
	for _, m := range f.family(t, "aivenator_aiven_latency") {
		labels := ""
		for _, l := range m.GetLabel() {
			labels += l.GetName() + "=" + l.GetValue() + " "
		}
		got[labels] = m.GetHistogram().GetSampleCount()
	}
	diff(t, map[string]uint64{
		"operation=ServiceGet pool=dev status=200 ":          1,
		"operation=ServiceUserGet pool=dev status=404 ":      1,
		"operation=ProjectList pool= status=200 ":            1,
		"operation=ServiceUserCreate pool=dev status=error ": 1,
	}, got)
}

func TestTokenMetric(t *testing.T) {
	ctx := context.Background()
	tests := map[string]struct {
		do   func(f fixture)
		want float64
	}{
		"it is valid before the first call": {func(f fixture) {}, 1},
		"it is valid after a success":       {func(f fixture) { _ = f.Probe(ctx) }, 1},
		"it is not after a 401": {func(f fixture) {
			f.sim.RevokeToken(token)
			_ = f.Probe(ctx)
		}, 0},
		"it is again after any success": {func(f fixture) {
			f.sim.RevokeToken(token)
			_ = f.Probe(ctx)
			f.sim.SetToken(token, aivensim.Token{})
			_, _ = f.CA(ctx, "dev")
		}, 1},
		"it is not while one permission is missing": {func(f fixture) {
			f.sim.SetToken(token, aivensim.Token{Deny: []aivensim.Operation{aivensim.ServiceUserCreate}})
			_, _ = f.CreateUser(ctx, kafka, "app", nil)
			_ = f.Probe(ctx)
		}, 0},
		"it is again after that permission was seen": {func(f fixture) {
			f.sim.SetToken(token, aivensim.Token{Deny: []aivensim.Operation{aivensim.ServiceUserCreate}})
			_, _ = f.CreateUser(ctx, kafka, "app", nil)
			f.sim.SetToken(token, aivensim.Token{})
			_, _ = f.CreateUser(ctx, kafka, "app", nil)
		}, 1},
		"it is again if the permission was not needed for long": {func(f fixture) {
			f.sim.SetToken(token, aivensim.Token{Deny: []aivensim.Operation{aivensim.ServiceUserCreate}})
			_, _ = f.CreateUser(ctx, kafka, "app", nil)
			f.pass(15 * time.Minute)
		}, 1},
		"it does not speak of objects that others manage": {func(f fixture) {
			f.project.AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, Governed: true})
			_, _ = f.CreateUser(ctx, kafka, "app", nil)
		}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			test.do(f)
			diff(t, test.want, f.gauge(t))
		})
	}
}

func TestReady(t *testing.T) {
	f := newFixture(t)
	ready := func() string {
		if err := f.Ready(); err != nil {
			return err.Error()
		}
		return "ready"
	}
	diff(t, "the Aiven API has not been called yet", ready())
	down := f.sim.Inject(aivensim.Rule{Answer: aivensim.Error(503, "", "Service Unavailable")})
	_ = f.Probe(t.Context())
	diff(t, "list projects: 503 Service Unavailable", ready())
	down.Remove()
	_ = f.Probe(t.Context())
	diff(t, "ready", ready())

	f.sim.RevokeToken(token)
	_, _ = f.User(t.Context(), kafka, "app")
	diff(t, "ready", ready()) // a single failure does not count yet
	f.pass(time.Minute)
	diff(t, "read user app on dev/kafka: 401 Unauthorized", ready())
	f.sim.SetToken(token, aivensim.Token{})
	_, _ = f.User(t.Context(), kafka, "gone") // a 404 is an answer as good as any
	diff(t, "ready", ready())
}
