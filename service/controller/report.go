package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
	"github.com/keysmith-io/keysmith/resource/serviceuser"
)

// Reasons that only the controllers use. The comments are what the reference of the resource says of them.
const (
	reasonSynchronized = "Synchronized"         // Every Secret holds working credentials.
	reasonExpired      = "Expired"              // `expiresAt` has passed: the application is being deleted.
	reasonNamespace    = "NamespaceTerminating" // The namespace is being deleted: nothing more is made in it.
	reasonUnauthorized = "AivenUnauthorized"    // Aiven refuses the operator's token: a matter for those who run the operator.
	reasonBusy         = "AivenBusy"            // Aiven is at work on the service and takes no changes for the moment. Goes on by itself.
	reasonThrottled    = "AivenThrottled"       // Aiven allows no more calls for the moment. Goes on by itself.
	reasonAiven        = "AivenFailure"         // Aiven fails or refuses; the message is its answer. Tried again, less and less often.
	reasonLocal        = "LocalFailure"         // Something in the cluster fails; the message says what. Tried again, less and less often.
	reasonPaused       = "Paused"               // An annotation stops all work on the application (condition `Paused`).
	reasonNotPaused    = "NotPaused"            // It no longer does.
	reasonStillHeld    = "OldCredentialsInUse"  // Pods still have the credentials of a user that was replaced and is about to go (binding).
	reasonNotRotated   = "RotationFailed"       // A user should be replaced, which cannot be done yet; it goes on working (event).
)

// maxMessage is how long the message of a condition or an event may be. The API server would allow more, 1 KiB for events; people would not
// read it.
const maxMessage = 512

// throttledNote ends the message of the condition Ready while a pass had to stop because Aiven allows no more calls. That says nothing of the
// application, whose condition otherwise stays as it was.
const throttledNote = " (Aiven allows no more calls at the moment: the next look is taken later)"

// Report writes what became of a pass into the status: the bindings, and conditions that speak of the generation that was looked at.
func (a *Application) Report(app *v1.AivenApplication, results []resource.Result) {
	before := app.Status.DeepCopy()
	results = finished(results)
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	a.tell(app, results)
	err := binding.WithoutAside(errors.Join(errs...))
	if err == nil && !app.DeletionTimestamp.IsZero() {
		a.metrics.processed(app, v1.RolloutComplete, nil)
		a.farewell(app)
		return // it goes now; nothing about it is ready
	}
	if len(results) != 1 || results[0].Scope != nil {
		app.Status.Bindings = bindings(app.Status.Bindings, results)
	}
	now := metav1.NewTime(a.clock.Now())
	is, looked := ready(app), app.Status.ObservedGeneration == app.Generation
	app.Status.ObservedGeneration = app.Generation
	switch {
	case isThrottled(err) && is != nil && looked && (is.Status != corev1.ConditionTrue || !isMissing(results)):
		if is.Reason != reasonThrottled {
			text := strings.TrimSuffix(is.Message, throttledNote) + throttledNote
			setCondition(&app.Status, v1.ConditionReady, is.Status, is.Reason, text, now)
		}
	case err == nil:
		app.Status.SynchronizationState = v1.RolloutComplete
		app.Status.SynchronizedGeneration = app.Generation
		app.Status.SynchronizationHash = hash(app.Spec)
		setConditions(&app.Status, nil, now)
	default:
		app.Status.SynchronizationState = v1.RolloutFailed
		setConditions(&app.Status, err, now)
	}
	if !equality.Semantic.DeepEqual(before, &app.Status) {
		app.Status.SynchronizationTime = &now
	}
	a.metrics.processed(app, app.Status.SynchronizationState, err)
}

var errUnfinished = errors.New("the pass ended before the Secret was written")

// finished gives an error to each result that has none although a Secret lacks credentials and no step said why: nobody is told of an
// application that it is ready when it is not.
func finished(results []resource.Result) []resource.Result {
	out := slices.Clone(results)
	for i, r := range out {
		set, ok := r.Scope.(*binding.Set)
		if !ok || r.Operation != resource.Create || binding.WithoutAside(r.Err) != nil {
			continue
		}
		if slices.ContainsFunc(set.Bindings, func(b *binding.Binding) bool { return !b.Published && b.Err == nil }) {
			out[i].Err = errors.Join(r.Err, errUnfinished)
		}
	}
	return out
}

// Paused shows in the status whether an application is paused. Most never are, and have no such condition.
func (a *Application) Paused(app *v1.AivenApplication, paused bool) {
	now := metav1.NewTime(a.clock.Now())
	if paused {
		setCondition(&app.Status, v1.ConditionPaused, corev1.ConditionTrue, reasonPaused, "An annotation stops all work on this application, its deletion included", now)
		return
	}
	if slices.ContainsFunc(app.Status.Conditions, func(c v1.Condition) bool { return c.Type == v1.ConditionPaused }) {
		setCondition(&app.Status, v1.ConditionPaused, corev1.ConditionFalse, reasonNotPaused, "", now)
	}
}

// Notify sends an event for each change of outcome, and for what has to be known of rotations.
func (a *Application) Notify(before, after *v1.AivenApplication) {
	for i := range after.Status.Bindings {
		r := &after.Status.Bindings[i]
		was := slices.IndexFunc(before.Status.Bindings, func(o v1.Binding) bool { return o.Kind == r.Kind && o.Username == r.Username })
		if was >= 0 && before.Status.Bindings[was].Reason == r.Reason {
			continue
		}
		switch {
		case r.Reason == reasonStillHeld:
			a.events.Eventf(after, nil, corev1.EventTypeWarning, reasonStillHeld, "Retire", "%s", shorten("User "+r.Username+" of Secret "+r.SecretName+": "+r.Message))
		case isStuck(r):
			a.events.Eventf(after, nil, corev1.EventTypeWarning, reasonNotRotated, "Rotate", "%s", shorten(stuck(r)))
		}
	}
	was, is := ready(before), ready(after)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	if was == nil && is.Status == corev1.ConditionTrue {
		return // the events of its Secrets have said it
	}
	kind := corev1.EventTypeNormal
	if failed := condition(after, v1.ConditionAivenFailure) != nil || condition(after, v1.ConditionLocalFailure) != nil; failed {
		kind = corev1.EventTypeWarning
	}
	a.events.Eventf(after, nil, kind, is.Reason, "Synchronize", "%s", is.Message)
}

// bindings are the records after a pass: what the spec asks for, in its order, then what is retained or not gone yet.
func bindings(before []v1.Binding, results []resource.Result) []v1.Binding {
	var out []v1.Binding
	var retired []*binding.Binding
	for _, r := range results {
		set, ok := r.Scope.(*binding.Set)
		if !ok || r.Operation != resource.Create {
			continue
		}
		for _, b := range set.Bindings {
			out = append(out, describe(before, set, b, binding.WithoutAside(r.Err)))
		}
		for _, b := range set.Bindings {
			if b.Successor != nil {
				out = append(out, describe(before, set, b.Successor, r.Err))
			}
		}
		for _, b := range set.Outgoing {
			out = append(out, retiring(set, b))
		}
		retired = append(retired, set.Retired...)
	}
	for _, r := range before {
		switch {
		case r.State == StateRetained:
			r.Reason, r.Message = "", "A Secret that is still there holds this user; it goes once the Secret is unused"
			out = append(out, r)
		case r.State == StateDeleted && isStale(results, r.SecretName):
			out = append(out, r)
		}
	}
	for _, r := range results {
		set, ok := r.Scope.(*binding.Set)
		if !ok || r.Operation != resource.Delete {
			continue
		}
		for _, b := range set.Bindings {
			record := toRecord(set, b)
			switch {
			case r.Err != nil:
				record.State, record.Reason, record.Message = StateDeleting, reason(r.Err), message(r.Err)
			case slices.Contains(retired, b):
				// Its Secret still records it, and would have it deleted again and again.
				record.State = StateDeleted
			default:
				continue
			}
			out = append(out, record)
		}
	}
	return out
}

// isStale tells whether a Secret of the plan exists and could not be written: it still records whom it recorded before.
func isStale(results []resource.Result, secret string) bool {
	return slices.ContainsFunc(results, func(r resource.Result) bool {
		set, ok := r.Scope.(*binding.Set)
		return ok && r.Operation == resource.Create && set.Secret == secret && set.Current != nil &&
			!slices.ContainsFunc(set.Bindings, func(b *binding.Binding) bool { return b.Published })
	})
}

// isMissing tells whether a Secret of the plan does not exist.
func isMissing(results []resource.Result) bool {
	return slices.ContainsFunc(results, func(r resource.Result) bool {
		set, ok := r.Scope.(*binding.Set)
		return ok && r.Operation == resource.Create && set.Current == nil
	})
}

func toRecord(set *binding.Set, b *binding.Binding) v1.Binding {
	return v1.Binding{
		Kind: string(b.Kind), Instance: b.Instance, Project: b.Ref.Project, Service: b.Ref.Service,
		SecretName: set.Secret, Username: b.Username, Attempt: b.Attempt,
		IssuedAt: stampOf(b.IssuedAt), RetiresAt: stampOf(b.RetiresAt), RotationRequest: b.Request,
	}
}

// describe is the record of one binding that the spec asks for. A user that no Secret has ever held stays Pending, whatever happens: that is how
// it is told from one whose Secret is gone.
func describe(before []v1.Binding, set *binding.Set, b *binding.Binding, outcome error) v1.Binding {
	record := toRecord(set, b)
	i := slices.IndexFunc(before, func(r v1.Binding) bool {
		return r.Username == record.Username && r.SecretName == record.SecretName && isAbout(r, b)
	})
	if !b.Published {
		record.IssuedAt = nil
		if i >= 0 {
			record.IssuedAt = before[i].IssuedAt
		}
	}
	if set.Interval > 0 && record.IssuedAt != nil {
		record.RotatesAt = stampOf(record.IssuedAt.Add(set.Interval))
	}
	if b.Published && b.Err == nil {
		record.State = StateReady
		return record
	}
	err := b.Err
	if err == nil {
		err = outcome
	}
	if i >= 0 && isThrottled(err) {
		record.State, record.Reason, record.Message = before[i].State, before[i].Reason, before[i].Message
		return record
	}
	record.Reason, record.Message = reason(err), message(err)
	if errors.Is(err, serviceuser.ErrTaken) {
		record.Username, record.Attempt = "", b.Attempt+1
	}
	record.State = StateFailed
	if resource.OutcomeOf(err) == resource.Waiting {
		record.State = StateWaiting
	}
	if i >= 0 && record.Username != "" && !b.Published && isUnpublished(&before[i]) {
		record.State = before[i].State
	}
	return record
}

// retiring is the record of a user that was replaced.
func retiring(set *binding.Set, b *binding.Binding) v1.Binding {
	record := toRecord(set, b)
	record.State, record.IssuedAt, record.RotationRequest = StateRetiring, nil, ""
	if len(b.Holders) > 0 {
		record.Reason = reasonStillHeld
		record.Message = shorten("Was replaced and stops working at " + b.RetiresAt.UTC().Format(time.RFC3339) +
			"; restart what was started before and still runs: " + strings.Join(b.Holders, ", "))
	}
	return record
}

func setConditions(s *v1.AivenApplicationStatus, err error, now metav1.Time) {
	drop := func(types ...v1.ConditionType) {
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.Condition) bool { return slices.Contains(types, c.Type) })
	}
	if err == nil {
		drop(v1.ConditionAivenFailure, v1.ConditionLocalFailure)
		setCondition(s, v1.ConditionSucceeded, corev1.ConditionTrue, reasonSynchronized, "", now)
		setCondition(s, v1.ConditionReady, corev1.ConditionTrue, reasonSynchronized, summary(s.Bindings), now)
		return
	}
	why, text := reason(err), message(err)
	setCondition(s, v1.ConditionSucceeded, corev1.ConditionFalse, why, text, now)
	setCondition(s, v1.ConditionReady, corev1.ConditionFalse, why, text, now)
	switch {
	case resource.OutcomeOf(err) == resource.Waiting && why != reasonUnauthorized:
		drop(v1.ConditionAivenFailure, v1.ConditionLocalFailure)
	case isAiven(err):
		drop(v1.ConditionLocalFailure)
		setCondition(s, v1.ConditionAivenFailure, corev1.ConditionTrue, why, text, now)
	default:
		drop(v1.ConditionAivenFailure)
		setCondition(s, v1.ConditionLocalFailure, corev1.ConditionTrue, why, text, now)
	}
}

// setCondition sets a condition; its time moves only when something in it changes.
func setCondition(s *v1.AivenApplicationStatus, kind v1.ConditionType, status corev1.ConditionStatus, why, text string, now metav1.Time) {
	want := v1.Condition{Type: kind, Status: status, Reason: why, Message: text, LastUpdateTime: now}
	i := slices.IndexFunc(s.Conditions, func(c v1.Condition) bool { return c.Type == kind })
	if i < 0 {
		s.Conditions = append(s.Conditions, want)
		return
	}
	current := s.Conditions[i]
	if current.Status != status || current.Reason != why || current.Message != text {
		s.Conditions[i] = want
	}
}

func ready(app *v1.AivenApplication) *v1.Condition { return condition(app, v1.ConditionReady) }

func condition(app *v1.AivenApplication, kind v1.ConditionType) *v1.Condition {
	i := slices.IndexFunc(app.Status.Conditions, func(c v1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &app.Status.Conditions[i]
}

// summary says which Secrets there are, and for which services: a column cannot show a list.
func summary(records []v1.Binding) string {
	var secrets []string
	services := map[string][]string{}
	for _, r := range records {
		if r.State != StateReady {
			continue
		}
		if services[r.SecretName] == nil {
			secrets = append(secrets, r.SecretName)
		}
		services[r.SecretName] = append(services[r.SecretName], strings.TrimSpace(r.Kind+" "+r.Instance))
	}
	if len(secrets) == 0 {
		return "Nothing is asked for"
	}
	for i, name := range secrets {
		secrets[i] = name + " (" + strings.Join(services[name], ", ") + ")"
	}
	sentences := []string{"Up to date: " + strings.Join(secrets, ", ")}
	for i := range records {
		if isStuck(&records[i]) {
			sentences = append(sentences, stuck(&records[i]))
		}
	}
	return shorten(strings.Join(sentences, ". "))
}

// isStuck tells whether a user could not replace another one, for another reason than that this takes some seconds.
func isStuck(r *v1.Binding) bool {
	return r.State == StateRotating && r.Reason != "" && r.Reason != binding.ReasonCredentials && r.Reason != binding.ReasonNameTaken
}

func stuck(r *v1.Binding) string {
	return fmt.Sprintf("The user of %s in Secret %s works and cannot be replaced yet: %s", r.Service, r.SecretName, r.Message)
}

// reason is the word for an error: the one it carries, or what Aiven's answer means.
func reason(err error) string {
	switch worst := worst(err); {
	case binding.ReasonOf(worst) != "":
		return binding.ReasonOf(worst)
	case errors.Is(worst, aiven.ErrUnauthorized):
		return reasonUnauthorized
	case errors.Is(worst, aiven.ErrNotPowered):
		return binding.ReasonPoweredOff
	case errors.Is(worst, aiven.ErrBusy):
		return reasonBusy
	case errors.Is(worst, aiven.ErrThrottled):
		return reasonThrottled
	case isAiven(worst):
		return reasonAiven
	default:
		return reasonLocal
	}
}

// worst is the first of joined errors that has their outcome.
func worst(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	for _, cause := range joined.Unwrap() {
		if resource.OutcomeOf(cause) == resource.OutcomeOf(err) {
			return worst(cause)
		}
	}
	return err
}

func isAiven(err error) bool {
	_, ok := errors.AsType[*aiven.Error](err)
	return ok || errors.Is(err, aiven.ErrUnauthorized)
}

// isThrottled tells whether all that kept a pass from its end is that Aiven allows no more calls.
func isThrottled(err error) bool {
	if _, ok := err.(*aiven.Error); ok { //nolint:errorlint // err itself is meant, not what it wraps
		return errors.Is(err, aiven.ErrThrottled)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(cause error) bool { return !isThrottled(cause) })
	}
	cause := errors.Unwrap(err)
	return cause != nil && isThrottled(cause)
}

func isGone(err error) bool { return errors.Is(err, aiven.ErrNotFound) }

// message is an error's text on one line. That an error is terminal is for programs.
func message(err error) string {
	return shorten(strings.Join(strings.Fields(strings.NewReplacer("\n", "; ", "terminal error: ", "").Replace(err.Error())), " "))
}

func shorten(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage-3], "") + "..."
	}
	return text
}

// hash is that of the spec, as synchronizationHash holds it.
func hash(spec v1.AivenApplicationSpec) string {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("marshal spec: %v", err)) // it holds strings, lists and booleans only
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
