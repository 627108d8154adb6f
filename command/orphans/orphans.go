// Package orphans finds the users at Aiven that this cluster made and that nothing in it records any more, and deletes those that a person names.
//
// A name alone never proves whose a user is where clusters share an Aiven project: one is called an orphan only if its name is one that this cluster derives for
// a namespace and an application, so that another cluster would have made it by chance alone. What merely fits the naming scheme may be another cluster's, or the
// earlier operator's, and may be in use.
package orphans

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Class tells how sure it is that a user is this cluster's.
type Class string

// The classes of users that nothing here records. All others are none of our business.
const (
	Orphan  Class = "orphan"  // this cluster made it
	Unclear Class = "unclear" // its name fits the naming scheme, and tells no more
)

// Finding is a user that nothing in the cluster records.
type Finding struct {
	Class       Class        `json:"class"`
	Kind        binding.Kind `json:"kind"`
	Project     string       `json:"project"`
	Service     string       `json:"service"`
	Username    string       `json:"username"`
	Namespace   string       `json:"namespace,omitempty"` // for which its name was derived; none of an unclear user
	Application string       `json:"application,omitempty"`
	Since       *time.Time   `json:"since,omitempty"` // when its password was set, which is when it was made
}

// kinds are the types of service that keysmith makes users on.
var kinds = map[string]binding.Kind{
	aiven.TypeKafka: binding.Kafka, aiven.TypeOpenSearch: binding.OpenSearch, aiven.TypeValkey: binding.Valkey,
}

// classify finds the users of a service that nothing in the cluster records and that fit the naming scheme, sorted by name.
func classify(s *aiven.Service, c *census) []Finding {
	var out []Finding
	kind := kinds[s.Type]
	for _, name := range s.Usernames() {
		u, _ := s.User(name)
		if u.Type == "primary" || c.recorder(kind, s.Ref, name) != "" {
			continue
		}
		f := Finding{Kind: kind, Project: s.Project, Service: s.Service, Username: name}
		id := key.Identity{Cluster: c.cluster, Project: s.Project, Service: s.Service}
		switch kind {
		case binding.Kafka:
			f.kafka(id, c)
		case binding.OpenSearch:
			f.openSearch(id, c)
		case binding.Valkey:
			f.valkey(id, c)
		}
		if f.Class == "" {
			continue
		}
		if !u.PasswordUpdated.IsZero() {
			f.Since = &u.PasswordUpdated
		}
		out = append(out, f)
	}
	return out
}

// made notes for whom a user was made, if it was made for one of these.
func (f *Finding) made(id key.Identity, of []application, derived func(key.Identity) bool) bool {
	for _, a := range of {
		id.Namespace, id.Application = a.Namespace, a.Name
		if derived(id) {
			f.Class, f.Namespace, f.Application = Orphan, a.Namespace, a.Name
			return true
		}
	}
	return false
}

func (f *Finding) kafka(id key.Identity, c *census) {
	var of []application
	for _, o := range key.KafkaOrigins(f.Username) {
		of = append(of, application{o.Namespace, o.Application})
	}
	of = append(of, c.byStem[f.Username[:max(0, len(f.Username)-key.KafkaSuffix)]]...)
	if !f.made(id, of, func(i key.Identity) bool { return i.MadeKafka(f.Username) }) && key.LooksKafka(f.Username) {
		f.Class = Unclear
	}
}

// openSearch looks at the applications that are known in the namespaces that the name can stand for: it does not hold the application's.
func (f *Finding) openSearch(id key.Identity, c *census) {
	fits := func(namespace string) bool { return key.IsOpenSearchUser(f.Username, namespace) }
	for namespace, of := range c.byNamespace {
		if fits(namespace) && f.made(id, of, func(i key.Identity) bool { return i.Made(f.Username) }) {
			return
		}
	}
	if slices.ContainsFunc(slices.Concat(c.namespaces, key.ServiceOwners(f.Service, string(f.Kind))), fits) {
		f.Class = Unclear
	}
}

// valkey looks at the applications that are known, and at those that the names of the user and of the service can stand for.
func (f *Finding) valkey(id key.Identity, c *census) {
	derived := func(i key.Identity) bool { return i.Made(f.Username) }
	fits := false
	for name, of := range c.byName {
		if !key.IsValkeyUser(f.Username, name) {
			continue
		}
		if fits = true; f.made(id, of, derived) {
			return
		}
	}
	namespaces := key.ServiceOwners(f.Service, string(f.Kind))
	if len(namespaces) == 0 {
		namespaces = c.namespaces // an instance that is named by the whole name of its service
	}
	for _, name := range key.ValkeyOrigins(f.Username) {
		fits = true
		for _, namespace := range namespaces {
			if f.made(id, []application{{namespace, name}}, derived) {
				return
			}
		}
	}
	if fits {
		f.Class = Unclear
	}
}

func sortFindings(list []Finding) {
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(a.Service, b.Service), strings.Compare(a.Username, b.Username))
	})
}
