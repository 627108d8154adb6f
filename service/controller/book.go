package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// book is what is recorded of an application's users: in its status, and in the Secrets where the status is silent.
type book struct {
	records []v1.Binding
	used    map[int]bool // indexes of records that a binding of the spec has
	// fromSecret are the users of which the status was silent.
	fromSecret map[string]bool
}

// trusted are the records of the status. One of a user that cannot be the application's is dropped, and reported: whoever can edit a record must
// not be able to have another user published, changed or deleted. So is one that another application's status records too, unless the Secret proves
// whose it is: where neither can, nobody touches the user. A user belongs to one Secret: of two records of one user, the second is dropped.
func (a *Application) trusted(ctx context.Context, app *v1.AivenApplication, others func() []string) ([]v1.Binding, error) {
	var k book
	for _, r := range app.Status.Bindings {
		if r.Username == "" {
			k.records = append(k.records, r)
			continue
		}
		b := fromRecord(r)
		foreign := !mayHold(b, app.Namespace, app.Name, a.settings, others)
		if !foreign {
			var err error
			if foreign, err = a.locator.foreign(ctx, b, app.Namespace, app.Name, r.SecretName); err != nil {
				return nil, err
			}
		}
		switch {
		case foreign:
			a.refuse(app, app.Name, r.Username)
		case !k.has(b):
			k.records = append(k.records, r)
		}
	}
	return k.records, nil
}

// open gathers the records: those of the status, which are trusted, and those of Secrets about which it is silent, as far as they may be: not
// where another application has the user, as far as its status tells.
func (a *Application) open(app *v1.AivenApplication, sets []*binding.Set, others func() []string, taken func(*binding.Binding) bool) *book {
	k := &book{records: slices.Clone(app.Status.Bindings), used: map[int]bool{}, fromSecret: map[string]bool{}}
	for _, set := range sets {
		if set.Current == nil {
			continue
		}
		for _, b := range binding.FromSecret(set.Current) {
			about := func(r v1.Binding) bool { return r.SecretName == set.Secret && r.Username != "" && isAbout(r, b) }
			same := func(r v1.Binding) bool { return about(r) && r.Username == b.Username && r.Project == b.Ref.Project }
			switch {
			case slices.ContainsFunc(k.records, same):
			case slices.ContainsFunc(app.Status.Bindings, about), k.has(b), !b.IsOutgoing() && slices.ContainsFunc(k.records, about),
				!mayOwn(b, app.Namespace, app.Name, a.settings, others), taken(b):
				a.refuse(app, set.Secret, b.Username)
			default:
				k.fromSecret[b.Username] = true
				r := toRecord(set, b)
				if r.State = StateReady; b.IsOutgoing() {
					r.State = StateRetiring
				}
				k.records = append(k.records, r)
			}
		}
	}
	return k
}

func (a *Application) refuse(app *v1.AivenApplication, where, username string) {
	a.events.Eventf(app, nil, corev1.EventTypeWarning, "RecordRestored", "Restore", "%s",
		shorten(fmt.Sprintf("%s recorded the user %q, which does not belong there; the user was left alone", where, username)))
}

// isAbout tells whether a record is about the same service of a Secret as a binding. Where one of them does not know the service, the
// instance decides.
func isAbout(r v1.Binding, b *binding.Binding) bool {
	switch {
	case r.Kind != string(b.Kind):
		return false
	case b.Kind == binding.Kafka:
		return true
	case r.Service != "" && b.Ref.Service != "":
		return r.Service == b.Ref.Service
	case b.Kind == binding.OpenSearch:
		return r.Instance == b.Instance
	default:
		return key.ValkeyUser(r.Instance) == key.ValkeyUser(b.Instance)
	}
}

// assign gives the bindings of a set the users that are recorded for them. A user whose Secret was published once and is gone was
// revoked with it: there will be another one.
func (k *book) assign(set *binding.Set) {
	for _, b := range set.Bindings {
		if binding.ReasonOf(b.Err) == binding.ReasonSecretNotOwned {
			continue
		}
		// One that was to be the successor of a user that is gone with its Secret is as good as any other that was never published.
		for _, i := range k.candidates() {
			r := &k.records[i]
			if k.used[i] || r.State == StateDeleting || r.State == StateDeleted || isOutgoing(r) || !k.concerns(r, set, b) {
				continue
			}
			if b.Err == nil && set.Current == nil && !isUnpublished(r) {
				continue
			}
			k.used[i] = true
			b.Username, b.Attempt, b.Resumed = r.Username, r.Attempt, true
			if b.Ref.Service == "" {
				b.Ref.Service = r.Service
			}
			r.Service, r.Instance = b.Ref.Service, b.Instance
			switch r.State {
			case StateRetained:
				r.State = StateReady
			case StateRotating:
				r.State = StatePending
			}
			break
		}
	}
}

// candidates are the indexes of records, those of successors last.
func (k *book) candidates() []int {
	var first, last []int
	for i := range k.records {
		if k.records[i].State == StateRotating {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	return append(first, last...)
}

// claim finds a free name for every binding that has none, and records it. It tells whether there was one. A name that was published is not free,
// even if its user is gone and no status knows of it any more.
func (k *book) claim(
	cluster string, app *v1.AivenApplication, sets []*binding.Set, services map[*binding.Binding]*aiven.Service, published func(*binding.Binding) bool,
) bool {
	claimed := false
	for _, set := range sets {
		for _, b := range set.Alive() {
			service, state := services[b], StatePending
			if b.Successor != nil {
				b, state = b.Successor, StateRotating
			}
			if b.Username != "" {
				continue
			}
			claimed = true
			b.Attempt = k.next(b)
			for range maxAttempts {
				b.Username = b.Name(cluster, app.Namespace, app.Name, b.Attempt)
				if k.isFree(b, service) && !published(b) {
					break
				}
				b.Attempt = (b.Attempt + 1) % key.Attempts
			}
			record := toRecord(set, b)
			record.State = state
			k.write(record)
		}
	}
	return claimed
}

// next is the first attempt that has not been used for a service. A record without a name keeps the one to go on with.
func (k *book) next(b *binding.Binding) int32 {
	var next int32
	for _, r := range k.records {
		if r.Project != b.Ref.Project || !isAbout(r, b) {
			continue
		}
		if r.Username != "" {
			r.Attempt++
		}
		next = max(next, r.Attempt)
	}
	return next % key.Attempts
}

func (k *book) isFree(b *binding.Binding, service *aiven.Service) bool {
	if _, taken := service.User(b.Username); taken {
		return false
	}
	return !k.has(b)
}

// has tells whether a binding's user is recorded, for whatever Secret.
func (k *book) has(b *binding.Binding) bool { return records(k.records, b) }

func records(list []v1.Binding, b *binding.Binding) bool {
	return slices.ContainsFunc(list, func(r v1.Binding) bool {
		return r.Username == b.Username && r.Project == b.Ref.Project && isAbout(r, b)
	})
}

// write records a claim, in the place of a record without a name if there is one.
func (k *book) write(claim v1.Binding) {
	i := slices.IndexFunc(k.records, func(r v1.Binding) bool {
		return r.Username == "" && r.Kind == claim.Kind && r.SecretName == claim.SecretName && r.Instance == claim.Instance
	})
	if i < 0 {
		i, k.records = len(k.records), append(k.records, v1.Binding{})
	}
	k.records[i] = claim
	k.used[i] = true
}

// mayHold tells whether a user that the status records can be one of an application. For Kafka its name alone decides: a user of a project that
// the cluster may no longer use has to be taken back all the same.
func mayHold(b *binding.Binding, namespace, app string, s binding.Settings, others func() []string) bool {
	return b.Kind == binding.Kafka && b.Matches(b.Username, namespace, app) || mayOwn(b, namespace, app, s, others)
}

// mayOwn tells whether a user that a Secret alone records can be one of an application: its name fits the naming scheme, its project is one that
// the cluster may use, and its service has a name of the application's namespace, unless the name was derived from just this service. A
// service of namespace a-b looks like one of namespace a: others, the namespaces that there are, decide.
func mayOwn(b *binding.Binding, namespace, app string, s binding.Settings, others func() []string) bool {
	switch {
	case !b.Matches(b.Username, namespace, app):
		return false
	case b.Kind == binding.Kafka:
		return slices.Contains(s.Pools, b.Ref.Project)
	}
	id := key.Identity{Cluster: s.Cluster, Namespace: namespace, Application: app, Project: b.Ref.Project, Service: b.Ref.Service}
	if id.Made(b.Username) {
		return true
	}
	return b.Ref.Project == s.Project && key.IsServiceOf(b.Ref.Service, string(b.Kind), namespace) && !slices.ContainsFunc(others(), func(other string) bool {
		return strings.HasPrefix(other, namespace+"-") && key.IsServiceOf(b.Ref.Service, string(b.Kind), other)
	})
}
