package binding

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// DefaultOverlap is how long users that were replaced on demand go on working where the application does not say it.
const DefaultOverlap = 24 * time.Hour

// aside is what went wrong although the Secret holds credentials that work.
type aside struct{ err error }

func (e *aside) Error() string { return e.err.Error() }
func (e *aside) Unwrap() error { return e.err }

// Aside marks an error that keeps no application from being ready, because the Secret holds credentials that work: it is logged and counted, and what
// failed is tried again.
func Aside(err error) error { return &aside{err} }

// WithoutAside is err less what Aside has marked.
func WithoutAside(err error) error {
	_, rest := withoutAside(err)
	return rest
}

func withoutAside(err error) (changed bool, rest error) {
	switch e := err.(type) { //nolint:errorlint // err itself is meant, not what it wraps
	case *aside:
		return true, nil
	case interface{ Unwrap() []error }:
		var kept []error
		for _, cause := range e.Unwrap() {
			less, left := withoutAside(cause)
			kept, changed = append(kept, left), changed || less
		}
		if changed {
			return true, errors.Join(kept...)
		}
	case interface{ Unwrap() error }:
		if changed, rest = withoutAside(e.Unwrap()); changed {
			return true, rest
		}
	}
	return false, err
}

// IsOutgoing tells whether a user was replaced by another one.
func (b *Binding) IsOutgoing() bool { return !b.RetiresAt.IsZero() }

// users are those that steps work on: of the bindings, their successors, and outgoing ones.
func (s *Set) users() []*Binding {
	all := slices.Clone(s.Bindings)
	for _, b := range s.Bindings {
		if b.Successor != nil {
			all = append(all, b.Successor)
		}
	}
	return append(all, s.Outgoing...)
}

// Successors are those that take their places in the Secret, all at once.
func (s *Set) Successors() []*Binding {
	var out []*Binding
	for _, b := range s.Bindings {
		if b.Successor != nil && !b.Successor.Waits {
			out = append(out, b.Successor)
		}
	}
	return out
}

// Rotated is the set as it is once successors have taken their places: those whom they replace are outgoing from now on.
func (s *Set) Rotated(now time.Time) *Set {
	next := *s
	next.Bindings, next.Outgoing = slices.Clone(s.Bindings), slices.Clone(s.Outgoing)
	for i, b := range s.Bindings {
		if b.Successor == nil || b.Successor.Waits {
			continue
		}
		old, successor := *b, *b.Successor
		old.Successor, old.RetiresAt = nil, now.Add(s.Overlap+time.Second-1).Truncate(time.Second) // not a moment too early
		successor.IssuedAt = now.Truncate(time.Second)
		next.Bindings[i], next.Outgoing = &successor, append(next.Outgoing, &old)
	}
	return &next
}

// rotation is the content of key.AnnotationRotation.
type rotation struct {
	Issued   map[string]time.Time `json:"issued,omitempty"` // by "kind/user", for Valkey "valkey/instance/user"
	Outgoing []outgoing           `json:"outgoing,omitempty"`
}

// slot tells a user from the others of a Secret. The earlier operator gave the users of an application one name on all Valkey services.
func (b *Binding) slot() string {
	if b.Kind != Valkey {
		return string(b.Kind) + "/" + b.Username
	}
	instance, _ := key.ValkeyAnnotation(key.ValkeyUser(b.Instance)) // in the form that annotations have
	return string(b.Kind) + "/" + instance + "/" + b.Username
}

// outgoing is a user that was replaced. A Kafka service is left out, as in other annotations.
type outgoing struct {
	Kind      Kind      `json:"kind"`
	Instance  string    `json:"instance,omitempty"`
	Project   string    `json:"project"`
	Service   string    `json:"service,omitempty"`
	User      string    `json:"user"`
	RetiresAt time.Time `json:"retiresAt"`
}

// record is the value of key.AnnotationRotation; "" where nothing is rotated.
func (s *Set) record() string {
	var r rotation
	for _, b := range slices.Concat(s.Outgoing, s.Retired) {
		if !b.IsOutgoing() || b.Username == "" {
			continue
		}
		o := outgoing{Kind: b.Kind, Instance: b.Instance, Project: b.Ref.Project, Service: b.Ref.Service, User: b.Username, RetiresAt: b.RetiresAt.UTC()}
		if b.Kind == Kafka {
			o.Service = ""
		}
		r.Outgoing = append(r.Outgoing, o)
	}
	if s.Interval == 0 && len(r.Outgoing) == 0 {
		return ""
	}
	for _, b := range s.Bindings {
		if !b.IssuedAt.IsZero() && b.Username != "" {
			if r.Issued == nil {
				r.Issued = map[string]time.Time{}
			}
			r.Issued[b.slot()] = b.IssuedAt.UTC().Truncate(time.Second)
		}
	}
	if len(r.Issued) == 0 && len(r.Outgoing) == 0 {
		return ""
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return "" // a year that has no four digits
	}
	return string(raw)
}

// IsRotationReadable tells whether the record that a Secret has of rotation, if any, can be read.
func IsRotationReadable(s *corev1.Secret) bool {
	_, err := readRotation(s)
	return err == nil
}

func readRotation(s *corev1.Secret) (rotation, error) {
	var r rotation
	text, ok := s.Annotations[key.AnnotationRotation]
	if !ok {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return rotation{}, err
	}
	return r, nil
}

// withRotation adds to the bindings of a Secret's other annotations what the record of rotation says: since when the Secret has them, and which
// users they replaced. One that is both is in use.
func withRotation(s *corev1.Secret, bindings []*Binding) []*Binding {
	r, err := readRotation(s)
	if err != nil {
		return bindings
	}
	for _, b := range bindings {
		b.IssuedAt = r.Issued[b.slot()]
	}
	for _, o := range r.Outgoing {
		b := &Binding{
			Kind: o.Kind, Instance: o.Instance, Username: o.User, Resumed: true,
			Ref: aiven.Ref{Project: o.Project, Service: o.Service}, RetiresAt: o.RetiresAt,
		}
		if b.Kind == Kafka {
			b.Ref.Service = ""
		}
		known := slices.ContainsFunc(bindings, func(other *Binding) bool { return other.slot() == b.slot() })
		if b.Username != "" && b.IsOutgoing() && slices.Contains([]Kind{Kafka, OpenSearch, Valkey}, b.Kind) && !known {
			bindings = append(bindings, b)
		}
	}
	return bindings
}
