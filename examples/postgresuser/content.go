package postgresuser

import (
	"net/url"
	"strconv"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// database is the one that Aiven makes with each service.
const database = "defaultdb"

// Content is what a binding puts into its Secret: the variables of libpq, with the instance at the end of each name, so that several
// instances can share a Secret.
func Content(b *binding.Binding, service *aiven.Service) (map[string][]byte, error) {
	primary, ok := service.Component("pg", "primary")
	if !ok {
		return nil, binding.Waiting(binding.ReasonWaiting, 30*time.Second, "service %s has no address for pg yet", b.Ref.Service)
	}
	uri := url.URL{
		Scheme: "postgres", User: url.UserPassword(b.Username, b.User.Password), Host: primary.Address(), Path: database,
		RawQuery: "sslmode=require",
	}
	data := map[string][]byte{}
	for name, value := range map[string]string{
		"PGHOST": primary.Host, "PGPORT": strconv.Itoa(primary.Port), "PGDATABASE": database, "PGSSLMODE": "require",
		"PGUSER": b.Username, "PGPASSWORD": b.User.Password, "PGURI": uri.String(),
	} {
		data[name+"_"+key.Variable(b.Instance)] = []byte(value)
	}
	return data, nil
}
