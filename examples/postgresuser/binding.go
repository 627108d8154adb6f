package postgresuser

import (
	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Kind is that of bindings to PostgreSQL.
const Kind binding.Kind = "postgresql"

// Annotations that record a user on its Secret, and what else it takes to find it again.
const (
	AnnotationUser    = "postgresql.aiven.nais.io/serviceUser"
	AnnotationService = "postgresql.aiven.nais.io/serviceName"
	AnnotationProject = "postgresql.aiven.nais.io/project"
)

// FromSpec derives the binding that a spec asks for. Its service, which has to be found, and its user's name, which has to be claimed, are
// filled in by the controller.
func FromSpec(spec PostgreSQL, s binding.Settings) *binding.Binding {
	return &binding.Binding{Kind: Kind, Instance: spec.Instance, Ref: aiven.Ref{Project: s.Project}}
}

// Name is the user name that an attempt makes for a binding: "<application>-<suffix>".
func Name(b *binding.Binding, cluster, namespace, application string, attempt int32) string {
	id := key.Identity{
		Cluster: cluster, Namespace: namespace, Application: application,
		Project: b.Ref.Project, Service: b.Ref.Service, Attempt: attempt,
	}
	return id.Valkey(string(v1.AccessAdmin)) // the form of a Valkey user without a level: its rights are given in SQL
}

// Matches tells whether a name can be that of a PostgreSQL user of an application. A record of any other is not believed.
func Matches(name, application string) bool { return key.IsValkeyUser(name, application) }

// Record is the annotations that clean-up needs. FromRecord is the inverse.
func Record(b *binding.Binding) map[string]string {
	return map[string]string{AnnotationUser: b.Username, AnnotationService: b.Ref.Service, AnnotationProject: b.Ref.Project}
}

// FromRecord derives the binding that the annotations of a Secret record, nil if they record none.
func FromRecord(annotations map[string]string) *binding.Binding {
	if annotations[AnnotationUser] == "" {
		return nil
	}
	return &binding.Binding{
		Kind: Kind, Username: annotations[AnnotationUser], Resumed: true,
		Ref: aiven.Ref{Project: annotations[AnnotationProject], Service: annotations[AnnotationService]},
	}
}
