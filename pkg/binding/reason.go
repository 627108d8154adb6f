package binding

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Reasons of conditions and events. The comments are what the reference of the resource says of them.
const (
	ReasonInvalidName      = "InvalidName"           // A Secret's name is missing or impossible: correct the spec.
	ReasonInvalidSpec      = "InvalidSpec"           // The spec asks for what cannot be; the message names the field.
	ReasonPoolNotAllowed   = "PoolNotAllowed"        // The pool is not one of the projects that this cluster may use; the message lists them.
	ReasonInstanceNotFound = "InstanceNotFound"      // The namespace has no such instance, or the project has no Kafka service. Goes on when there is one.
	ReasonWaiting          = "WaitingForService"     // The service is being built or is not running. Goes on when it runs.
	ReasonPoweredOff       = "ServicePoweredOff"     // Somebody powered the service off. Goes on when it is powered on.
	ReasonSecretNotOwned   = "SecretNotOwned"        // A Secret of that name exists and is not this application's: delete it, or choose another name.
	ReasonSecretDeleted    = "SecretBeingDeleted"    // The former Secret of that name is still being deleted; a new one follows.
	ReasonCredentials      = "WaitingForCredentials" // Aiven has made the user, but not all of its credentials yet. Takes seconds.
	ReasonBadCredentials   = "InvalidCredentials"    // Aiven gave a certificate, key or CA that does not fit. The Secret keeps what it had.
	ReasonExpired          = "CertificateExpired"    // The user's certificate has expired, and Aiven has made no other: the user is being replaced.
	ReasonNameTaken        = "UserNameTaken"         // Somebody else has a user of the name that was chosen; another one is tried at once.
	ReasonSecretImmutable  = "SecretImmutable"       // The Secret is immutable and would have to change: delete it, and another one follows.
)

type reasoned struct {
	reason string
	err    error
}

func (e *reasoned) Error() string { return e.err.Error() }
func (e *reasoned) Unwrap() error { return e.err }

// WithReason gives an error the word that conditions and events call it by.
func WithReason(reason string, err error) error { return &reasoned{reason: reason, err: err} }

// ReasonOf is that word; "" if the error has none.
func ReasonOf(err error) string {
	if r, ok := errors.AsType[*reasoned](err); ok {
		return r.reason
	}
	return ""
}

// Waiting is a wait with a reason.
func Waiting(reason string, d time.Duration, format string, args ...any) error {
	return WithReason(reason, resource.RequeueAfter(d, format, args...))
}

// refuse is an error that only a change of the object can mend.
func refuse(reason, format string, args ...any) error {
	return WithReason(reason, reconcile.TerminalError(fmt.Errorf(format, args...)))
}
