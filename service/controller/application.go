package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/resource/opensearchacl"
)

// States of a binding in the status.
const (
	StatePending  = "Pending"  // a user may exist already; no Secret has ever held it
	StateReady    = "Ready"    // the Secret holds working credentials
	StateWaiting  = "Waiting"  // nothing can be done for the moment
	StateFailed   = "Failed"   // something is wrong; the Secret keeps what it had
	StateRotating = "Rotating" // will replace the user of its service, once the Secret holds it
	StateRetiring = "Retiring" // was replaced, and works until retiresAt
	StateRetained = "Retained" // no longer asked for; a Secret in use still holds it
	StateDeleting = "Deleting" // is being taken back
	StateDeleted  = "Deleted"  // is gone from Aiven; its Secret, which serves others, does not know yet
)

const (
	// strangerWait is how often a Secret that is not ours is looked at again: it is not watched.
	strangerWait = 30 * time.Second
	// leavingWait is a safety net: the end of a deletion is watched.
	leavingWait = 30 * time.Second
	// forgetWait is a safety net: after most deletions the Secret has changed too, which is watched.
	forgetWait = 15 * time.Second
	// maxAttempts bounds the search for a free name. Finding the first few taken is a chance of one in thousands.
	maxAttempts = 100
)

// Application prepares and reports AivenApplications.
type Application struct {
	client   client.Client // reads come from the cache
	server   client.Reader // reads come from the API server
	locator  *locator
	events   events.EventRecorder
	clock    clock.PassiveClock
	settings binding.Settings
	janitor  func() // asks for a round of the janitor
	metrics  *metrics

	// unreadable has what an application's spec says that cannot be read, as its owner was told last.
	unreadable sync.Map // types.UID -> string
}

// Prepare plans what is to be done for an application. It derives everything anew: from the spec, from what the status and the Secrets record,
// and from snapshots of the services. New user names are recorded in the status before it returns.
func (a *Application) Prepare(ctx context.Context, app *v1.AivenApplication) (controller.Plan, error) {
	a.metrics.begun(app)
	others := a.locator.namespaces(ctx)
	records, err := a.trusted(ctx, app, others)
	if err != nil {
		return controller.Plan{}, err
	}
	app.Status.Bindings = records
	if !app.DeletionTimestamp.IsZero() {
		return a.prepareDeletion(ctx, app)
	}
	a.complain(app)
	left, err := a.expire(ctx, app)
	if err != nil {
		return controller.Plan{}, err
	}
	if err := a.checkNamespace(ctx, app.Namespace); err != nil {
		return controller.Plan{}, err
	}
	if seen := app.Status.ObservedGeneration; seen != 0 && seen != app.Generation {
		a.janitor() // it may have let go of a Secret
	}
	sets := binding.FromApplication(app, a.settings)
	var wg sync.WaitGroup
	for _, set := range sets {
		wg.Go(func() { a.find(ctx, app, set) })
	}
	wg.Wait()
	services := a.locate(ctx, app, sets) // of those whose Secret can be had: a set that was not looked for would count as one without Secret
	book := a.open(app, sets, others, func(b *binding.Binding) bool { return a.locator.taken(ctx, b, app.Namespace, app.Name) })
	for _, set := range sets {
		book.settle(set, a.clock.Now())
		book.assign(set)
		a.confirm(ctx, set, services)
	}
	var next time.Time
	for _, set := range sets {
		at, err := a.rotate(ctx, app, set, book, services)
		if err != nil {
			return controller.Plan{}, err
		}
		next = soonest(next, at)
	}
	retired, err := a.retire(ctx, app, sets, book)
	if err != nil {
		return controller.Plan{}, err
	}
	claimed := book.claim(a.settings.Cluster, app, sets, services, func(b *binding.Binding) bool { return a.locator.published(ctx, b, app.Namespace) })
	a.announce(sets, services)
	if err := a.record(ctx, app, book, claimed); err != nil {
		return controller.Plan{}, err
	}
	now := a.clock.Now()
	if left > 0 {
		next = soonest(next, now.Add(left))
	}
	var plan controller.Plan
	for _, set := range sets {
		plan.Ensure = append(plan.Ensure, set)
		if slices.ContainsFunc(set.Retired, func(b *binding.Binding) bool { return b.Err == nil }) {
			next = soonest(next, now.Add(forgetWait))
		}
	}
	if !next.IsZero() {
		plan.RequeueAfter = max(next.Sub(now), time.Millisecond)
	}
	for _, set := range retired {
		plan.Delete = append(plan.Delete, set)
	}
	return plan, nil
}

// prepareDeletion takes back the users that no Secret holds. Those that one holds go with it, once the janitor finds it unused.
func (a *Application) prepareDeletion(ctx context.Context, app *v1.AivenApplication) (controller.Plan, error) {
	a.janitor()
	a.unreadable.Delete(app.UID)
	book := a.open(app, nil, nil, nil)
	retired, err := a.retire(ctx, app, nil, book)
	if err != nil {
		return controller.Plan{}, err
	}
	app.Status.Bindings = book.records
	var plan controller.Plan
	for _, set := range retired {
		plan.Delete = append(plan.Delete, set)
	}
	return plan, nil
}

// complain tells the owner of an application, once, of times in its spec that cannot be read: they were stored before the schema refused them. Nothing is
// deleted or replaced on a guess.
func (a *Application) complain(app *v1.AivenApplication) {
	_, err := app.Spec.Expiry()
	if r := app.Spec.Rotation; r != nil {
		_, _, bad := r.Periods()
		err = errors.Join(err, bad)
	}
	if err == nil {
		a.unreadable.Delete(app.UID)
		return
	}
	text := message(err)
	if last, said := a.unreadable.Swap(app.UID, text); !said || last != text {
		a.events.Eventf(app, nil, corev1.EventTypeWarning, "SpecUnreadable", "Read", "%s", shorten("Left out: "+text))
	}
}

// expire deletes an application whose time has come; otherwise it tells how long that will be.
func (a *Application) expire(ctx context.Context, app *v1.AivenApplication) (left time.Duration, err error) {
	expiry, err := app.Spec.Expiry()
	if err != nil || expiry == nil {
		return 0, nil //nolint:nilerr // complain has told the owner
	}
	if left := expiry.Sub(a.clock.Now()); left > 0 {
		return left, nil
	}
	err = a.client.Delete(ctx, app.DeepCopy(), client.Preconditions{UID: &app.UID, ResourceVersion: &app.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("delete expired application: %w", err)
	}
	return 0, binding.Waiting(reasonExpired, leavingWait, "expired at %s", app.Spec.ExpiresAt)
}

// checkNamespace makes sure that nothing is made in a namespace that is going away.
func (a *Application) checkNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{}
	if err := a.client.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
		return fmt.Errorf("read namespace %s: %w", name, err)
	}
	if !ns.DeletionTimestamp.IsZero() {
		return binding.Waiting(reasonNamespace, leavingWait, "namespace %s is being deleted", name)
	}
	return nil
}

// find looks up the Secret of a set, and fails the set if it is somebody else's or on its way out.
func (a *Application) find(ctx context.Context, app *v1.AivenApplication, set *binding.Set) {
	if len(set.Alive()) == 0 {
		return
	}
	current, exists, err := a.secret(ctx, app, set.Secret)
	switch {
	case err != nil:
		set.Fail(err)
	case exists && current == nil:
		set.Fail(binding.Waiting(binding.ReasonSecretNotOwned, strangerWait,
			"Secret %s exists and does not belong to this application: choose another name or remove it", set.Secret))
	case current == nil:
	case !current.DeletionTimestamp.IsZero():
		set.Fail(binding.Waiting(binding.ReasonSecretDeleted, leavingWait, "Secret %s is being deleted and will be made again", set.Secret))
	default:
		set.Current = current
	}
}

// confirm makes sure that a set of which a user is missing still has its Secret. Whoever deletes a Secret takes its users back, and the cache may not know
// yet: they must not be made again.
func (a *Application) confirm(ctx context.Context, set *binding.Set, services map[*binding.Binding]*aiven.Service) {
	lost := func(b *binding.Binding) bool {
		_, found := services[b].User(b.Username)
		return b.Username != "" && !found
	}
	if set.Current == nil || !slices.ContainsFunc(set.Alive(), lost) {
		return
	}
	s := &metav1.PartialObjectMetadata{}
	s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := a.server.Get(ctx, client.ObjectKeyFromObject(set.Current), s)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		set.Fail(fmt.Errorf("read Secret %s: %w", set.Secret, err))
	case err != nil || s.UID != set.Current.UID || !s.DeletionTimestamp.IsZero():
		set.Fail(binding.Waiting(binding.ReasonSecretDeleted, time.Second, "Secret %s was deleted and will be made again", set.Secret))
	}
}

// secret reads a Secret of an application. One that exists and is not the application's is not returned, nor is its content
// read. The cache holds managed Secrets only, and lags: whether there is none, the API server knows.
func (a *Application) secret(ctx context.Context, app *v1.AivenApplication, name string) (s *corev1.Secret, exists bool, err error) {
	at := client.ObjectKey{Namespace: app.Namespace, Name: name}
	s = &corev1.Secret{}
	err = a.client.Get(ctx, at, s)
	if err == nil {
		if !isOurs(&s.ObjectMeta, app) {
			return nil, true, nil
		}
		return s, true, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, false, fmt.Errorf("read Secret %s: %w", name, err)
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	opts := &client.GetOptions{}
	if !slices.ContainsFunc(app.Status.Bindings, func(r v1.Binding) bool { return r.SecretName == name && !isUnpublished(&r) }) {
		// For a new one the API server may answer from its own cache, without asking etcd: if that lags, the Secret cannot be created.
		opts.Raw = &metav1.GetOptions{ResourceVersion: "0"}
	}
	err = a.server.Get(ctx, at, meta, opts)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if !isOurs(&meta.ObjectMeta, app) {
		return nil, true, nil
	}
	err = a.server.Get(ctx, at, s)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if s.DeletionTimestamp.IsZero() {
		return s, true, nil // whatever it lost will be restored
	}
	return s, true, a.relabel(ctx, s)
}

// relabel gives a Secret of ours its type label back, if somebody took it away. Without it neither the janitor nor the controller of Secrets
// sees the Secret, and our finalizer would hold it for ever.
func (a *Application) relabel(ctx context.Context, s *corev1.Secret) error {
	if s.Labels[key.LabelType] == key.TypeAivenator {
		return nil
	}
	before := s.DeepCopy()
	metav1.SetMetaDataLabel(&s.ObjectMeta, key.LabelType, key.TypeAivenator)
	if err := client.IgnoreNotFound(a.client.Patch(ctx, s, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("label Secret %s: %w", s.Name, err)
	}
	return nil
}

// isOurs tells whether the metadata of a Secret prove that it is the application's. The proof may have been edited away: a Secret with our
// finalizer, and without an owner, that the application's status records as published, is still the one that was.
func isOurs(m *metav1.ObjectMeta, app *v1.AivenApplication) bool {
	s := &corev1.Secret{ObjectMeta: *m.DeepCopy()}
	held := slices.Contains(s.Finalizers, controller.Finalizer(SecretName))
	if held {
		metav1.SetMetaDataLabel(&s.ObjectMeta, key.LabelType, key.TypeAivenator)
	}
	if binding.Owner(s) == app.Name {
		return true
	}
	_, signed := s.Annotations[key.AnnotationOwner]
	return held && !signed && slices.ContainsFunc(app.Status.Bindings, func(r v1.Binding) bool {
		return r.SecretName == s.Name && r.Username != "" && !isUnpublished(&r)
	})
}

// locate finds the services of all bindings, side by side: one that hangs does not hold back the others longer than it must.
func (a *Application) locate(ctx context.Context, app *v1.AivenApplication, sets []*binding.Set) map[*binding.Binding]*aiven.Service {
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		services = map[*binding.Binding]*aiven.Service{}
	)
	for _, set := range sets {
		for _, b := range set.Alive() {
			wg.Go(func() {
				service, err := a.locator.locate(ctx, b, app.Namespace)
				b.Err = err
				mu.Lock()
				services[b] = service
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	if app.Status.SynchronizationHash == "" && app.Status.SynchronizedGeneration > 0 {
		// Somebody asks for a full synchronisation: what the snapshots say is read again.
		for _, service := range services {
			if service != nil {
				a.locator.aiven.Invalidate(service.Ref)
			}
		}
	}
	return services
}

// announce says which users are made in this pass, whose rights can then be written with those of others.
func (a *Application) announce(sets []*binding.Set, services map[*binding.Binding]*aiven.Service) {
	for _, set := range sets {
		for _, b := range set.Alive() {
			for _, user := range []*binding.Binding{b, b.Successor} {
				if user == nil {
					continue
				}
				if _, found := services[b].User(user.Username); !found {
					opensearchacl.Announce(a.locator.aiven, user)
				}
			}
		}
	}
}

// record stores names that were claimed in this pass, before anything is done with them.
func (a *Application) record(ctx context.Context, app *v1.AivenApplication, book *book, claimed bool) error {
	if !claimed {
		app.Status.Bindings = book.records
		return nil
	}
	before := app.DeepCopy()
	app.Status.Bindings = book.records
	// The lock makes sure that the records were derived from the latest ones: the cache may lag behind our own writes.
	err := a.client.Status().Patch(ctx, app, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("record user names: %w", err)
	}
	return nil
}

// retire makes sets to delete of the records that nobody asks for any more and that no Secret holds. What is to be deleted is
// decided on what the API server says, not the cache.
func (a *Application) retire(ctx context.Context, app *v1.AivenApplication, sets []*binding.Set, book *book) ([]*binding.Set, error) {
	var out []*binding.Set
	for i := range book.records {
		r := &book.records[i]
		if book.used[i] || r.Username == "" || r.State == StateDeleted && !a.exists(ctx, *r) {
			continue
		}
		wanted := slices.IndexFunc(sets, func(s *binding.Set) bool { return s.Secret == r.SecretName && s.Current != nil })
		if wanted < 0 && !a.isOver(r) {
			held, err := a.holds(ctx, app, r)
			if err != nil {
				return nil, err
			}
			if held {
				r.State = StateRetained
				continue
			}
		}
		r.State = StateDeleting
		b := fromRecord(*r)
		set := &binding.Set{Namespace: app.Namespace, Application: app.Name, Secret: r.SecretName}
		if wanted >= 0 {
			sets[wanted].Retired = append(sets[wanted].Retired, b)
		}
		if a.locator.complete(ctx, b); b.Err == nil {
			b.Err = off(sets, b.Ref)
		}
		i := slices.IndexFunc(out, func(s *binding.Set) bool { return s.Secret == set.Secret })
		if i < 0 {
			i, out = len(out), append(out, set)
		}
		out[i].Bindings = append(out[i].Bindings, b)
	}
	return out, nil
}

// off is the error of bindings that have found a service powered off: users of it that are to go wait as long.
func off(sets []*binding.Set, ref aiven.Ref) error {
	for _, set := range sets {
		for _, b := range set.Bindings {
			if b.Ref == ref && binding.ReasonOf(b.Err) == binding.ReasonPoweredOff {
				return b.Err
			}
		}
	}
	return nil
}

// isOver tells whether the time of a user that was replaced has come.
func (a *Application) isOver(r *v1.Binding) bool {
	return isOutgoing(r) && !r.RetiresAt.After(a.clock.Now())
}

// exists tells whether the user of a record is there, or may be: a state that says otherwise may be somebody's edit.
func (a *Application) exists(ctx context.Context, r v1.Binding) bool {
	b := fromRecord(r)
	a.locator.complete(ctx, b)
	service, err := a.locator.aiven.Service(ctx, b.Ref)
	if err != nil {
		return !isGone(err)
	}
	_, ok := service.User(b.Username)
	return ok
}

// holds tells whether the Secret of a record exists and holds its user: it was published there, or the Secret's annotations say so.
func (a *Application) holds(ctx context.Context, app *v1.AivenApplication, r *v1.Binding) (bool, error) {
	s := &corev1.Secret{}
	err := a.server.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: r.SecretName}, s)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read Secret %s: %w", r.SecretName, err)
	}
	if !isOurs(&s.ObjectMeta, app) {
		return false, nil
	}
	if err := a.relabel(ctx, s); err != nil {
		return false, err
	}
	return !isUnpublished(r) && r.State != StateDeleting || slices.ContainsFunc(binding.FromSecret(s), func(b *binding.Binding) bool {
		return b.IsUser(fromRecord(*r)) && b.Ref.Project == r.Project
	}), nil
}

// fromRecord is the binding of a record. The service of a Kafka user is left open where it has none of the names that Kafka services have: that is
// somebody's edit.
func fromRecord(r v1.Binding) *binding.Binding {
	b := &binding.Binding{
		Kind: binding.Kind(r.Kind), Instance: r.Instance,
		Ref:      aiven.Ref{Project: r.Project, Service: r.Service},
		Username: r.Username, Attempt: r.Attempt, Resumed: true,
		IssuedAt: timeOf(r.IssuedAt), RetiresAt: timeOf(r.RetiresAt), Request: r.RotationRequest,
	}
	if b.Kind == binding.Kafka && !slices.Contains(key.KafkaServices(r.Project), r.Service) {
		b.Ref.Service = ""
	}
	return b
}
