package binding

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Reasons of conditions and events.
const (
	ReasonInvalidName      = "InvalidName"
	ReasonInvalidSpec      = "InvalidSpec"
	ReasonPoolNotAllowed   = "PoolNotAllowed"
	ReasonInstanceNotFound = "InstanceNotFound"
	ReasonWaiting          = "WaitingForService"
	ReasonPoweredOff       = "ServicePoweredOff"
	ReasonSecretNotOwned   = "SecretNotOwned"
	ReasonSecretDeleted    = "SecretBeingDeleted"
	ReasonCredentials      = "WaitingForCredentials"
	ReasonBadCredentials   = "InvalidCredentials"
	ReasonNameTaken        = "UserNameTaken"
	ReasonSecretImmutable  = "SecretImmutable"
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
