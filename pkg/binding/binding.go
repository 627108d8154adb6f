// Package binding derives credentials from objects. A Binding is one set of credentials on one service instance; a Set holds
// the bindings that share one Secret and is what flows through the resources. Both are derived purely, from an
// application (FromApplication) or from a Secret (FromSecret).
package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Kind tells what a service is.
type Kind string

// The kinds of service that keysmith knows.
const (
	Kafka      Kind = "kafka"
	OpenSearch Kind = "opensearch"
	Valkey     Kind = "valkey"
)

// Binding is one set of credentials on one service instance.
type Binding struct {
	Kind     Kind
	Instance string    // as the application names it; empty for Kafka
	Ref      aiven.Ref // the service; its name is filled in by the controller, which knows what exists
	Access   v1.Access
	ACL      []v1.KafkaACL // topic rights of a Kafka user
	OwnACL   bool          // ACL is to be enforced; otherwise nobody asked for it, and entries are left alone

	Username string // as recorded; empty until a name is claimed
	Attempt  int32  // what the name was derived with
	// Resumed says that the name was recorded by an earlier pass, or that a create call was left without an answer: a user of this name
	// is ours. Without it, such a user belongs to a stranger.
	Resumed bool

	// Successor is the user that takes this one's place once the Secret can hold it; nil: no rotation is under way.
	Successor *Binding
	IssuedAt  time.Time // when the Secret got this user; zero: not known, or nobody asked for rotation
	RetiresAt time.Time // when this user goes, which was replaced; zero: it is in use
	Request   string    // the last request for rotation that this user answers
	Waits     bool      // the service of this successor cannot be used now, which does not hold back those of other services
	Holders   []string  // Pods that still have the credentials of a replaced user, looked up when its end is near

	Rights    []string    // filled in by what manages rights: those that changed, in words, such as "read on topic orders"
	User      *aiven.User // filled in by serviceuser (Kafka, OpenSearch) and valkeyuser
	Published bool        // filled in by secret: the Secret holds these credentials

	// Err is why this binding is not served. What fails is left out by the steps that follow.
	Err error
	// failed names the step that set Err, which alone may try again.
	failed string
}

// Set holds the bindings that share one Secret.
type Set struct {
	Namespace   string
	Application string // its owner
	Secret      string // its name

	Labels      map[string]string // what the application contributes to the Secret's metadata
	Annotations map[string]string

	Bindings []*Binding
	// Outgoing users were replaced and work for the overlap: their rights are kept up, but they are not made again.
	Outgoing []*Binding
	// Retired users were once in this Secret and are recorded there until their users are gone.
	Retired []*Binding

	Interval time.Duration // at which users are replaced; zero: only on demand
	Overlap  time.Duration // for which a replaced user goes on working
	Due      bool          // a rotation is due that cannot begin, because the Secret is immutable

	Current *corev1.Secret // what exists; nil if nothing does
	Written string         // filled in by secret: what was written in this pass, in words; "" if nothing was
}

// Err joins what went wrong with the bindings, with their successors and with outgoing users.
func (s *Set) Err() error {
	errs := make([]error, 0, len(s.Bindings))
	for _, b := range s.Bindings {
		errs = append(errs, b.Err)
		if b.Successor != nil && b.Successor.Err != nil {
			errs = append(errs, Aside(fmt.Errorf("rotate: %w", b.Successor.Err)))
		}
	}
	for _, b := range s.Outgoing {
		if b.failed != "" { // else it is the error of the binding as well
			errs = append(errs, b.Err)
		}
	}
	return errors.Join(errs...)
}

// Fail gives every binding that has no error yet this one.
func (s *Set) Fail(err error) {
	for _, b := range s.Bindings {
		if b.Err == nil {
			b.Err = err
		}
	}
}

// Alive are the bindings without an error.
func (s *Set) Alive() []*Binding {
	return slices.DeleteFunc(slices.Clone(s.Bindings), func(b *Binding) bool { return b.Err != nil })
}

// Each runs one step for the bindings of some kinds, side by side, and records in each what went wrong with it. A binding that an
// earlier step failed is left out. While another binding of the set is alive the error is a partial one: the set goes on without those that failed.
func (s *Set) Each(ctx context.Context, step string, f func(context.Context, *Binding) error, kinds ...Kind) error {
	var wg sync.WaitGroup
	for _, b := range s.users() {
		if !slices.Contains(kinds, b.Kind) || b.Err != nil && b.failed != step {
			continue
		}
		wg.Go(func() {
			b.Err, b.failed = orWait(f(ctx, b)), step
		})
	}
	wg.Wait()
	err := s.Err()
	if err != nil && len(s.Alive()) > 0 {
		return resource.Partial(err)
	}
	return err
}

// offWait is how long a step waits for a service that is powered off. Nobody tells when it is back; a Secret that is being deleted should go soon
// after.
const offWait = 30 * time.Second

// orWait makes a wait of the refusal of a service that is powered off: somebody wanted it so, and it may last.
func orWait(err error) error {
	if errors.Is(err, aiven.ErrNotPowered) {
		return Waiting(ReasonPoweredOff, offWait, "%w", err)
	}
	return err
}

// Matches tells whether a name fits the naming scheme for the binding's kind and this application, whoever made it.
func (b *Binding) Matches(name, namespace, application string) bool {
	switch b.Kind {
	case Kafka:
		return key.IsKafkaUser(name, namespace, application)
	case OpenSearch:
		return key.IsOpenSearchUser(name, namespace)
	case Valkey:
		return key.IsValkeyUser(name, application)
	default:
		return false
	}
}

// Name is the user name that an attempt makes for this binding.
func (b *Binding) Name(cluster, namespace, application string, attempt int32) string {
	id := key.Identity{
		Cluster: cluster, Namespace: namespace, Application: application,
		Project: b.Ref.Project, Service: b.Ref.Service, Attempt: attempt,
	}
	switch b.Kind {
	case Kafka:
		return id.Kafka()
	case OpenSearch:
		return id.OpenSearch(string(b.Access))
	default:
		return id.Valkey(string(b.Access))
	}
}
