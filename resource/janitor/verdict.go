package janitor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Verdict is the janitor's decision on one Secret, and the state that the gauge of managed Secrets counts it under.
type Verdict string

// The verdicts. Unused is the only one after which a Secret goes.
const (
	InUse      Verdict = "in_use"      // its application asks for it, or a workload refers to it
	Protected  Verdict = "protected"   // unused, kept for good
	NotExpired Verdict = "not_expired" // unused, kept until a date
	Unused     Verdict = "unused"
	NotOwned   Verdict = "not_owned" // somebody's copy
	Leaving    Verdict = "leaving"   // being deleted
)

// judge decides on a Secret of ours.
func judge(inUse, protected bool, expires *time.Time, now time.Time) Verdict {
	switch {
	case inUse:
		return InUse
	case protected && expires == nil:
		return Protected
	case protected && now.Before(*expires):
		return NotExpired
	default:
		return Unused
	}
}

// Judgement is a verdict with what it rests on.
type Judgement struct {
	Verdict   Verdict
	Owner     string // the application that the Secret belongs to; "" if it is nobody's
	Protected bool
	Expires   *time.Time // until when it is protected, if that has an end
	// Unreadable says why a time limit cannot be read. It protects.
	Unreadable error
}

// Judge decides on a Secret with our type label. Used tells whether its owner asks for it, or a workload refers to it; it is called only where that
// matters, and its error is the only one.
func Judge(s *corev1.Secret, used func(owner string) (bool, error), now time.Time) (Judgement, error) {
	j := Judgement{Owner: binding.Owner(s)}
	switch {
	case !s.DeletionTimestamp.IsZero():
		j.Verdict = Leaving
		return j, nil
	case j.Owner == "":
		j.Verdict = NotOwned
		return j, nil
	}
	inUse, err := used(j.Owner)
	if err != nil {
		return Judgement{}, err
	}
	j.Protected, j.Expires, j.Unreadable = protection(s)
	j.Verdict = judge(inUse, j.Protected, j.Expires, now)
	return j, nil
}

// protection reads what a Secret says of itself. A time limit that cannot be read protects, and is reported.
func protection(s *corev1.Secret) (protected bool, expires *time.Time, err error) {
	if s.Annotations[key.Protected] != "true" && s.Labels[key.Protected] != "true" {
		return false, nil, nil
	}
	if s.Annotations[key.AnnotationTimeLimit] != "true" {
		return true, nil, nil
	}
	limit := s.Annotations[key.AnnotationExpiresAt]
	t, err := time.Parse(time.RFC3339, limit)
	if err != nil {
		return true, nil, fmt.Errorf("annotation %s: %.64q is not an RFC 3339 time such as 2030-01-31T12:00:00Z: the Secret is kept",
			key.AnnotationExpiresAt, limit)
	}
	return true, &t, nil
}
