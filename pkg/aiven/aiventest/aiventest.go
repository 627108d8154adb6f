// Package aiventest gives a test a client of the Aiven API whose other end is the simulator.
package aiventest

import (
	"net/http/httptest"
	"testing"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// Project is the project of every service that New makes.
const Project = "dev"

// The services that New makes, one of each type.
var (
	Kafka      = aiven.Ref{Project: Project, Service: "kafka"}
	OpenSearch = aiven.Ref{Project: Project, Service: "opensearch-shop-logs"}
	Valkey     = aiven.Ref{Project: Project, Service: "valkey-shop-cache"}
)

// Aiven is a simulator with a client.
type Aiven struct {
	*aiven.Client
	Sim *aivensim.Simulator
}

// New makes a simulator with the services above, and a client. Both end with the test.
func New(t testing.TB) *Aiven {
	t.Helper()
	const token = "token-of-a-test"
	sim := aivensim.New(aivensim.Options{Token: token, KeySize: 2048, ECDSA: true, Seed: 1})
	project := sim.AddProject(Project)
	project.AddService(Kafka.Service, aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	project.AddService(OpenSearch.Service, aivensim.ServiceConfig{Type: aivensim.OpenSearch})
	project.AddService(Valkey.Service, aivensim.ServiceConfig{Type: aivensim.Valkey})
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	client, err := aiven.New(aiven.Options{URL: server.URL, Token: func() string { return token }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &Aiven{Client: client, Sim: sim}
}

// At is one of the services as the simulator sees it.
func (a *Aiven) At(ref aiven.Ref) *aivensim.Service { return a.Sim.Service(ref.Project, ref.Service) }

// Break makes every change of one kind fail from now on.
func (a *Aiven) Break(op aivensim.Operation) {
	a.Sim.Inject(aivensim.Rule{Operation: op, Answer: aivensim.Error(503, "", "Service Unavailable")})
}
