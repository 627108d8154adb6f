package binding

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Records are the annotations of what clean-up needs: the users of all bindings that have a name, retired ones
// included. FromSecret is the inverse.
func (s *Set) Records() map[string]string {
	out := map[string]string{}
	if text := s.record(); text != "" {
		out[key.AnnotationRotation] = text
	}
	for _, b := range slices.Concat(s.Retired, s.Bindings) {
		if b.Username == "" || b.IsOutgoing() {
			continue
		}
		switch b.Kind {
		case Kafka:
			out[key.AnnotationKafkaUser] = b.Username
			out[key.AnnotationKafkaPool] = b.Ref.Project
		case OpenSearch:
			out[key.AnnotationOpenSearchUser] = b.Username
			out[key.AnnotationOpenSearchService] = b.Ref.Service
			out[key.AnnotationOpenSearchProject] = b.Ref.Project
		case Valkey:
			out[key.ValkeyUser(b.Instance)] = b.Username
			out[key.ValkeyService(b.Instance)] = b.Ref.Service
			out[key.AnnotationValkeyProject] = b.Ref.Project
		}
	}
	return out
}

// IsRecord tells whether an annotation is one that Records writes.
func IsRecord(annotation string) bool {
	switch annotation {
	case key.AnnotationKafkaUser, key.AnnotationKafkaPool,
		key.AnnotationOpenSearchUser, key.AnnotationOpenSearchService, key.AnnotationOpenSearchProject,
		key.AnnotationValkeyProject, key.AnnotationRotation:
		return true
	}
	instance, _ := key.ValkeyAnnotation(annotation)
	return instance != ""
}

// FromSecret derives the bindings that a Secret's annotations record. A Kafka binding has no service name: the annotations do not hold it. A
// Valkey instance has the form that annotations have. Where an annotation is missing, so is that part of the binding. Outgoing users come last.
func FromSecret(s *corev1.Secret) []*Binding {
	var bindings []*Binding
	a := s.Annotations
	add := func(kind Kind, instance, user, project, service string) {
		if a[user] != "" {
			bindings = append(bindings, &Binding{
				Kind: kind, Instance: instance, Username: a[user], Resumed: true,
				Ref: aiven.Ref{Project: a[project], Service: a[service]},
			})
		}
	}
	add(Kafka, "", key.AnnotationKafkaUser, key.AnnotationKafkaPool, "")
	add(OpenSearch, "", key.AnnotationOpenSearchUser, key.AnnotationOpenSearchProject, key.AnnotationOpenSearchService)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if instance, user := key.ValkeyAnnotation(name); instance != "" && user {
			add(Valkey, instance, name, key.AnnotationValkeyProject, key.ValkeyService(instance))
		}
	}
	return withRotation(s, bindings)
}

// IsUser tells whether two bindings are about one user of a project. The earlier operator gave the users of an application one name on all Valkey
// services, which the instance tells apart where one does not know its service.
func (b *Binding) IsUser(o *Binding) bool {
	switch {
	case b.Kind != o.Kind, b.Username != o.Username:
		return false
	case b.Kind == Valkey && b.Ref.Service != "" && o.Ref.Service != "":
		return b.Ref.Service == o.Ref.Service
	default:
		return b.slot() == o.slot()
	}
}

// Password is the one that a Secret holds for the binding's user; "" if it holds none.
func (b *Binding) Password(s *corev1.Secret) string {
	switch b.Kind {
	case Kafka:
		return string(s.Data[key.KafkaSchemaRegistryPassword])
	case OpenSearch:
		return string(s.Data[key.OpenSearchPassword])
	default:
		return string(s.Data[key.Valkey(key.Password, b.Instance)])
	}
}

// Owner is the application that a Secret belongs to; "" if it is nobody's. The proof is the type label, and the annotation that records the
// owner and the Secret's own namespace and name, so that a copy is nobody's. A Secret of the earlier operator proves itself by
// the type label, the app label and a recorded user that fits the naming scheme.
func Owner(s *corev1.Secret) string {
	if s.Labels[key.LabelType] != key.TypeAivenator {
		return ""
	}
	if owner, ok := s.Annotations[key.AnnotationOwner]; ok {
		return key.OwnedBy(owner, s.Namespace, s.Name)
	}
	app := s.Labels[key.LabelApp] // not shortened: the earlier operator could not make Secrets for longer names
	for _, b := range FromSecret(s) {
		if app != "" && b.Matches(b.Username, s.Namespace, app) {
			return app
		}
	}
	return ""
}
