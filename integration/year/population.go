package year

import (
	"fmt"
	"slices"
	"time"

	"github.com/keysmith-io/keysmith/integration/demand"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// The Aiven projects: pool holds Kafka, whose service is called kafka, and main all the rest.
const (
	pool = "dev"
	main = "main"
)

// The instances of each namespace.
const (
	search = "logs"
	cache  = "cache"
	store  = "my-store"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// application is one of those that live through the year.
type application struct {
	namespace, name string
	spec            v1.AivenApplicationSpec
	bindings        []demand.Bound
}

func (a *application) String() string { return a.namespace + "/" + a.name }

// secrets are the names of the application's Secrets.
func (a *application) secrets() []string {
	var out []string
	for _, b := range a.bindings {
		out = append(out, b.Secret)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// kinds of applications there are. The last of them does not rotate.
const kinds = 5

// newApplication makes the nth application. Among kinds of them there is each mix of services; all but one rotate weekly.
func newApplication(namespace string, n int) *application {
	a := &application{namespace: namespace, name: fmt.Sprintf("app-%02d", n)}
	one, two := a.name+"-one", a.name+"-two"
	kafka := &v1.Kafka{Pool: pool, SecretName: one, ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessReadWrite}, {Topic: "parcels-*"}}}
	switch n % kinds {
	case 0:
		a.spec.Kafka = kafka
	case 1:
		a.spec.Kafka, a.spec.OpenSearch = kafka, &v1.OpenSearch{Instance: search, Access: v1.AccessRead, SecretName: one}
	case 2:
		a.spec.Valkey = []v1.Valkey{
			{Instance: cache, Access: v1.AccessReadWrite, SecretName: one}, {Instance: store, Access: v1.AccessAdmin, SecretName: one},
		}
	case 3:
		a.spec.OpenSearch = &v1.OpenSearch{Instance: search, Access: v1.AccessReadWrite, SecretName: one}
		a.spec.Valkey = []v1.Valkey{{Instance: cache, Access: v1.AccessRead, SecretName: two}}
	default:
		a.spec.Kafka, a.spec.Valkey = kafka, []v1.Valkey{{Instance: store, Access: v1.AccessWrite, SecretName: two}}
	}
	if n%kinds != kinds-1 {
		a.spec.Rotation = &v1.Rotation{Interval: "168h", Overlap: "24h"}
		if n%3 == 0 {
			a.spec.Rotation.Overlap = "" // half of the interval
		}
	}
	a.bindings = demand.Bindings(main, pool, namespace, a.spec)
	return a
}
