package binding

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Settings are what an installation decides.
type Settings struct {
	Project string   // the main project: it holds OpenSearch and Valkey, and its CA is published
	Pools   []string // the projects whose Kafka service applications may use
	Cluster string   // identity of this cluster, part of what user names are derived from
}

// FromApplication derives what an application asks for, one Set for each Secret, in the order of the spec. What can never be
// served carries its error.
func FromApplication(app *v1.AivenApplication, s Settings) []*Set {
	var sets []*Set
	add := func(own string, b *Binding) {
		name := cmp.Or(own, app.Spec.SecretName)
		b.Err = cmp.Or(b.Err, checkSecretName(b, name))
		i := slices.IndexFunc(sets, func(s *Set) bool { return s.Secret == name })
		if i < 0 {
			i = len(sets)
			sets = append(sets, newSet(app, name))
		}
		sets[i].Bindings = append(sets[i].Bindings, b)
	}
	if k := app.Spec.Kafka; k != nil {
		b := &Binding{Kind: Kafka, Ref: aiven.Ref{Project: k.Pool}}
		if k.ACL != nil {
			b.OwnACL, b.ACL = true, k.ACL
		}
		if !slices.Contains(s.Pools, k.Pool) {
			b.Err = refuse(ReasonPoolNotAllowed, "spec.kafka.pool: %q is not one of the projects that this cluster may use: %s",
				k.Pool, strings.Join(s.Pools, ", "))
		}
		b.Err = cmp.Or(b.Err, checkTopics(b.ACL))
		add(k.SecretName, b)
	}
	if o := app.Spec.OpenSearch; o != nil {
		add(o.SecretName, instance(OpenSearch, "spec.openSearch", o.Instance, o.Access, s))
	}
	for i, v := range app.Spec.Valkey {
		b := instance(Valkey, "spec.valkey["+strconv.Itoa(i)+"]", v.Instance, v.Access, s)
		if slices.ContainsFunc(app.Spec.Valkey[:i], func(o v1.Valkey) bool { return o.Instance == v.Instance }) {
			b.Err = refuse(ReasonInvalidSpec, "spec.valkey[%d].instance: %q stands there twice", i, v.Instance)
		}
		add(v.SecretName, b)
	}
	for _, set := range sets {
		checkKeys(set)
	}
	return sets
}

func newSet(app *v1.AivenApplication, secret string) *Set {
	generation := app.Labels[key.LabelGeneration]
	if _, err := strconv.Atoi(generation); err != nil {
		generation = "0"
	}
	set := &Set{
		Namespace: app.Namespace, Application: app.Name, Secret: secret,
		Labels: map[string]string{
			key.LabelApp:        key.LabelValue(app.Name),
			key.LabelTeam:       app.Namespace,
			key.LabelType:       key.TypeAivenator,
			key.LabelGeneration: generation,
			key.Protected:       strconv.FormatBool(app.Spec.Protected),
		},
		Annotations: map[string]string{
			key.Protected:       strconv.FormatBool(app.Spec.Protected),
			key.AnnotationOwner: key.Owner(app.Namespace, secret, app.Name),
		},
	}
	set.Overlap = DefaultOverlap
	if r := app.Spec.Rotation; r != nil {
		// One that cannot be read was stored before the schema refused it; nothing is replaced on a guess.
		if interval, overlap, err := r.Periods(); err == nil {
			set.Interval, set.Overlap = interval, overlap
			set.Annotations[key.AnnotationReloader] = "true"
		}
	}
	if id, ok := app.Annotations[key.AnnotationCorrelationID]; ok {
		set.Annotations[key.AnnotationCorrelationID] = id
	}
	if app.Spec.Protected && app.Spec.ExpiresAt != "" {
		set.Annotations[key.AnnotationTimeLimit] = "true"
		set.Annotations[key.AnnotationExpiresAt] = app.Spec.ExpiresAt
	}
	return set
}

func instance(kind Kind, field, name string, access v1.Access, s Settings) *Binding {
	b := &Binding{Kind: kind, Instance: name, Ref: aiven.Ref{Project: s.Project}, Access: access.OrDefault()}
	if !known(b.Access) {
		b.Err = refuse(ReasonInvalidSpec, "%s.access: %q is not one of read, write, readwrite, admin", field, access)
	}
	switch {
	case name == "":
		b.Err = refuse(ReasonInvalidSpec, "%s.instance: must name an instance", field)
	case kind == Valkey && len(validation.IsQualifiedName(key.ValkeyUser(name))) > 0:
		// The name begins the names of annotations. A user must not be made that no Secret could record.
		b.Err = refuse(ReasonInvalidSpec, "%s.instance: %q must begin and end with a lower-case letter or digit", field, name)
	}
	return b
}

func known(a v1.Access) bool {
	switch a {
	case v1.AccessRead, v1.AccessWrite, v1.AccessReadWrite, v1.AccessAdmin:
		return true
	}
	return false
}

func checkTopics(acl []v1.KafkaACL) error {
	for i, a := range acl {
		if a.Topic == "" || !known(a.Access.OrDefault()) {
			return refuse(ReasonInvalidSpec, "spec.kafka.acl[%d]: must name a topic, and one of read, write, readwrite, admin", i)
		}
	}
	return nil
}

// checkSecretName applies the API's own rule, so that nothing is made for a Secret that can never exist.
func checkSecretName(b *Binding, name string) error {
	field := "spec." + map[Kind]string{Kafka: "kafka", OpenSearch: "openSearch", Valkey: "valkey"}[b.Kind]
	if b.Kind == Valkey {
		field += "[" + b.Instance + "]"
	}
	if name == "" {
		return refuse(ReasonInvalidName, "%s.secretName: must name a Secret", field)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return refuse(ReasonInvalidName, "%s.secretName: %q is not the name of a Secret: %s", field, name, problems[0])
	}
	return nil
}

// checkKeys refuses instances of one Secret that would overwrite each other's keys.
func checkKeys(set *Set) {
	seen := map[string]*Binding{}
	for _, b := range set.Bindings {
		if b.Kind != Valkey {
			continue
		}
		for _, k := range []string{key.Variable(b.Instance), key.ValkeyUser(b.Instance)} {
			other, ok := seen[k]
			if !ok {
				seen[k] = b
				continue
			}
			if other == b || other.Instance == b.Instance {
				continue
			}
			err := refuse(ReasonInvalidSpec, "spec.valkey: instances %q and %q have the same keys and cannot share the Secret %q",
				other.Instance, b.Instance, set.Secret)
			other.Err, b.Err = cmp.Or(other.Err, err), cmp.Or(b.Err, err)
		}
	}
}
