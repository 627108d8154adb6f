package controller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/resource/janitor"
)

// A user is replaced in three steps, each of which can be repeated. The name of its successor is claimed, as that of any new user: the record says
// Rotating. The Secret gets the successor, in one write that also says who went out and until when. Only that makes the old user's record Retiring; when
// its time has come it is retired as a user is that nobody asks for any more.

// request is what an application asks for by the annotation keysmith.io/rotate, in a form that can be recorded; "" if it asks for nothing.
func request(app *v1.AivenApplication) string {
	const longest = 64
	value := app.Annotations[key.AnnotationRotate]
	if len(value) <= longest {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// schedule says when a user is to be replaced.
type schedule struct {
	issuedAt time.Time     // when the Secret got it; zero: not known
	interval time.Duration // zero: only on demand
	request  string        // of the application
	answered string        // the request that the user answers
}

// next is when that is; zero: there is no such time. A request is due at once.
func (s schedule) next(now time.Time) time.Time {
	switch {
	case s.request != "" && s.request != s.answered:
		return now
	case s.interval == 0 || s.issuedAt.IsZero():
		return time.Time{}
	default:
		return s.issuedAt.Add(s.interval)
	}
}

// end is when a replaced user goes: as the status and, unless that is zero, the Secret record it, the earlier of the two, but no later than an overlap
// after its successor was issued. An overlap that is shortened ends the earlier for it, and a record that somebody edits keeps no user for ever. Where the
// application no longer says how long an overlap is, what both records say may be more than the default, and counts.
func end(recorded, announced, issued time.Time, set *binding.Set) time.Time {
	limit := issued.Add(set.Overlap + time.Second)
	if set.Interval == 0 && !announced.IsZero() {
		limit = announced
	}
	return soonest(limit, soonest(recorded, announced))
}

// announced is until when the record of a Secret says that a user works whom one of its users has replaced; zero: it does not say.
func announced(recorded []*binding.Binding, r *v1.Binding) time.Time {
	for _, b := range recorded {
		if b.IsOutgoing() && b.Username == r.Username && b.Ref.Project == r.Project && isAbout(*r, b) {
			return b.RetiresAt
		}
	}
	return time.Time{}
}

// warning is how long before its end the owner of a replaced user is told who still holds it: a tenth of the overlap, at least a minute and at most a day.
func warning(overlap time.Duration) time.Duration {
	return min(max(overlap/10, time.Minute), 24*time.Hour)
}

// isOutgoing tells whether a record is that of a user that was replaced.
func isOutgoing(r *v1.Binding) bool { return r.RetiresAt != nil }

// isUnpublished tells whether no Secret has ever held a record's user, as far as the status knows.
func isUnpublished(r *v1.Binding) bool { return r.State == StatePending || r.State == StateRotating }

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func stampOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// settle takes note of publications that the status has not seen, because the process ended in between: where the Secret records a successor as the
// user of its service, the record of the user before becomes that of an outgoing one.
func (k *book) settle(set *binding.Set, now time.Time) {
	if set.Current == nil {
		return
	}
	recorded := binding.FromSecret(set.Current)
	for _, b := range recorded {
		i := slices.IndexFunc(k.records, func(r v1.Binding) bool {
			return r.SecretName == set.Secret && r.Username == b.Username && r.State == StateRotating && isAbout(r, b)
		})
		if b.IsOutgoing() || i < 0 {
			continue
		}
		k.records[i].State, k.records[i].IssuedAt = StateReady, stampOf(b.IssuedAt)
		for j := range k.records {
			old := &k.records[j]
			if j == i || old.SecretName != set.Secret || old.Username == "" || isOutgoing(old) || isUnpublished(old) || !isAbout(*old, b) {
				continue
			}
			until := announced(recorded, old)
			if until.IsZero() {
				until = now.Add(set.Overlap)
			}
			old.RetiresAt, old.State = stampOf(until), StateRetiring
		}
	}
}

// rotate plans the rotation of a set: which users have successors, which go on for the overlap, and which have come to their end. Outgoing users whose
// time has come are left to retire. It returns the moment at which the set has to be looked at again; zero: none.
//
// A user whose certificate has expired is replaced alone: Aiven makes another certificate months before that, and if it has not it will not.
func (a *Application) rotate(
	ctx context.Context, app *v1.AivenApplication, set *binding.Set, k *book, services map[*binding.Binding]*aiven.Service,
) (time.Time, error) {
	now, wish := a.clock.Now(), request(app)
	var next time.Time
	var eligible, expired []*binding.Binding
	due := false
	for _, b := range set.Bindings {
		record := k.recordOf(set, b)
		b.Request = wish
		if record != nil {
			if isUnpublished(record) || k.fromSecret[record.Username] { // it has nothing to answer for
				record.RotationRequest = wish
			}
			b.IssuedAt, b.Request = timeOf(record.IssuedAt), record.RotationRequest
		}
		if b.IssuedAt.After(now) {
			b.IssuedAt = now.Truncate(time.Second)
		}
		if b.IssuedAt.IsZero() && set.Interval > 0 { // counts from now
			next = soonest(next, now.Add(set.Interval))
		}
		outgoing, err := a.keep(ctx, set, k, b)
		if err != nil {
			return time.Time{}, err
		}
		for _, o := range outgoing {
			lead := warning(o.RetiresAt.Sub(b.IssuedAt))
			next = soonest(next, o.RetiresAt)
			if warn := o.RetiresAt.Add(-lead); warn.After(now) {
				next = soonest(next, warn)
			}
		}
		at := schedule{b.IssuedAt, set.Interval, wish, b.Request}.next(now)
		if at.After(now) {
			next = soonest(next, at)
		}
		if b.Err == nil && set.Current != nil && record != nil && record.State != StatePending && !k.hasOutgoing(set, b) {
			eligible = append(eligible, b)
			due = due || !at.IsZero() && !at.After(now)
			if user, ok := services[b].User(b.Username); ok && user.IsExpired(now) {
				expired = append(expired, b)
			}
		}
	}
	for _, b := range set.Bindings {
		if b.Err != nil && b.Username != "" && k.isRotating(set, b) {
			b.Successor = k.successor(set, b)
			b.Successor.Waits = true
		}
	}
	if !due {
		eligible = expired
	}
	if len(eligible) == 0 {
		return next, nil
	}
	if set.Current.Immutable != nil && *set.Current.Immutable {
		set.Due = true
		return next, nil
	}
	for _, b := range eligible {
		b.Successor = k.successor(set, b)
		b.Successor.Request = wish
	}
	return next, nil
}

// keep makes outgoing users of the records of a binding's service whose time has not come.
func (a *Application) keep(ctx context.Context, set *binding.Set, k *book, b *binding.Binding) ([]*binding.Binding, error) {
	if set.Current == nil && (b.Err == nil || b.Username == "") {
		return nil, nil // they went with the Secret
	}
	now, issued := a.clock.Now(), b.IssuedAt
	if issued.IsZero() { // counts from now
		issued = now
	}
	var out []*binding.Binding
	for i := range k.records {
		r := &k.records[i]
		if k.used[i] || !isOutgoing(r) || !k.concerns(r, set, b) || r.State == StateDeleting || r.State == StateDeleted {
			continue
		}
		var recorded []*binding.Binding
		if set.Current != nil {
			recorded = binding.FromSecret(set.Current)
		}
		until := end(r.RetiresAt.Time, announced(recorded, r), issued, set)
		r.RetiresAt = stampOf(until)
		if !until.After(now) {
			continue
		}
		k.used[i], r.State = true, StateRetiring
		o := fromRecord(*r)
		if b.Ref.Service != "" {
			o.Ref = b.Ref
		}
		o.Access, o.ACL, o.OwnACL, o.Err = b.Access, b.ACL, b.OwnACL, b.Err
		o.RetiresAt = until
		if lead := warning(until.Sub(b.IssuedAt)); !now.Before(until.Add(-lead)) {
			var err error
			if o.Holders, err = janitor.Holders(ctx, a.client, set.Namespace, set.Secret, b.IssuedAt, named); err != nil {
				return nil, err
			}
		}
		set.Outgoing, out = append(set.Outgoing, o), append(out, o)
	}
	return out, nil
}

// concerns tells whether a record is about the service of a binding of a set.
func (k *book) concerns(r *v1.Binding, set *binding.Set, b *binding.Binding) bool {
	return r.SecretName == set.Secret && r.Username != "" && r.Project == b.Ref.Project && isAbout(*r, b)
}

// recordOf is the record of the user that a binding has; nil: it has none yet.
func (k *book) recordOf(set *binding.Set, b *binding.Binding) *v1.Binding {
	for i := range k.records {
		if r := &k.records[i]; b.Username != "" && r.Username == b.Username && k.concerns(r, set, b) {
			return r
		}
	}
	return nil
}

// hasOutgoing tells whether a user of a binding's service was replaced and is not gone yet: no other is replaced before that.
func (k *book) hasOutgoing(set *binding.Set, b *binding.Binding) bool {
	return slices.ContainsFunc(k.records, func(r v1.Binding) bool { return isOutgoing(&r) && k.concerns(&r, set, b) })
}

// isRotating tells whether a successor of a binding's user is recorded.
func (k *book) isRotating(set *binding.Set, b *binding.Binding) bool {
	return slices.ContainsFunc(k.records, func(r v1.Binding) bool { return r.State == StateRotating && k.concerns(&r, set, b) })
}

// successor is the binding of the user that is to replace a binding's: one that is recorded, or one that has no name yet.
func (k *book) successor(set *binding.Set, b *binding.Binding) *binding.Binding {
	s := *b
	s.Username, s.Attempt, s.Resumed, s.IssuedAt = "", 0, false, time.Time{}
	for i := range k.records {
		if r := &k.records[i]; !k.used[i] && r.State == StateRotating && k.concerns(r, set, b) {
			k.used[i] = true
			s.Username, s.Attempt, s.Resumed, s.Ref.Service = r.Username, r.Attempt, true, cmp.Or(s.Ref.Service, r.Service)
			break
		}
	}
	return &s
}

// soonest is the earlier of two moments, of which zero is none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
