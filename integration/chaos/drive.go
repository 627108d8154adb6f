package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/integration/stage"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/service/controller"
)

// driver does a model's operations to a namespace of the cluster.
type driver struct {
	stage     *stage.Stage
	history   *history
	namespace string
	model     *Model
	rng       *rand.Rand      // of the pauses
	paused    map[string]bool // applications, which the model has forgotten when their namespace is to go

	// What only the cluster could tell. Guarded by mu.
	mu        sync.Mutex
	strangers map[string]stamp     // by name; without a version: it may be changed
	excused   map[string]bool      // users whose record was destroyed
	disowned  map[string]bool      // users that a status was made to call gone: the operator makes that true, and others in their place, at once
	hidden    map[string]bool      // users whose Secret has lost its labels, and may be out of the operator's sight until its namespace goes
	bare      map[types.UID]bool   // Secrets whose finalizers were taken away
	removed   map[string]time.Time // when the driver last deleted a Secret, by name
	asked     map[string]time.Time // when an application last changed, by name
	leaving   bool                 // the namespace is being deleted

	ledger ledger // what Secrets promise
}

func newDriver(s *stage.Stage, h *history, namespace string, model *Model, pauses *rand.Rand) *driver {
	return &driver{
		stage: s, history: h, namespace: namespace, model: model, rng: pauses, paused: map[string]bool{},
		strangers: map[string]stamp{}, excused: map[string]bool{}, disowned: map[string]bool{}, hidden: map[string]bool{}, bare: map[types.UID]bool{}, removed: map[string]time.Time{}, asked: map[string]time.Time{},
	}
}

// run does operations, with pauses in between, until until ends; ctx ends it in the middle of one.
func (d *driver) run(ctx, until context.Context, pause time.Duration) error {
	for {
		if !rest(until, time.Duration(d.rng.ExpFloat64()*float64(pause))) {
			return nil
		}
		o := d.model.Next()
		outcome, err := d.do(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
		d.history.note(d.namespace, o.Name, "%s: %s", o.describe(), outcome)
		d.history.count("operation", string(o.Kind))
	}
}

// rest waits and tells whether ctx has not ended.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// describe says what is done, short enough for a line.
func (o Operation) describe() string {
	parts := []string{o.String()}
	switch o.Kind {
	case CreateApplication, ChangeApplication, RenameSecret:
		for _, b := range bindings("*", o.Spec) {
			what := string(b.Access)
			for _, t := range b.Topics {
				what = strings.TrimSpace(what + " " + t.Topic + ":" + string(t.Access))
			}
			parts = append(parts, fmt.Sprintf("%s/%s->%s(%s)", b.Project, strings.TrimPrefix(b.Service, string(b.Kind)+"-*-"), b.Secret, what))
		}
		if o.Spec.Protected {
			parts = append(parts, "protected")
		}
		if r := o.Spec.Rotation; r != nil {
			parts = append(parts, "rotation "+r.Interval+" "+r.Overlap)
		}
	case CreateWorkload, RollWorkload:
		parts = append(parts, fmt.Sprintf("with %q, %d replicas", o.Workload.Secrets, o.Workload.Replicas))
	case SetInstance:
		parts = append(parts, o.State)
	}
	return strings.Join(parts, " ")
}

// do does one operation and tells what became of it.
func (d *driver) do(ctx context.Context, o Operation) (outcome string, err error) {
	switch o.Kind {
	case CreateApplication:
		err = d.createApplication(ctx, o)
	case ChangeApplication, RenameSecret:
		d.touch(o.Name)
		now := time.Now()
		d.ledger.asks(o.Name, o.Spec, now)
		err = d.update(ctx, &v1.AivenApplication{ObjectMeta: d.meta(o.Name)}, func(obj client.Object) {
			obj.(*v1.AivenApplication).Spec = o.Spec
		})
		d.ledger.asks(o.Name, o.Spec, now) // of what was promised meanwhile too
		d.touch(o.Name)
	case DeleteApplication:
		d.touch(o.Name)
		err = d.delete(ctx, &v1.AivenApplication{ObjectMeta: d.meta(o.Name)})
	case ExpireApplication:
		d.touch(o.Name)
		err = d.update(ctx, &v1.AivenApplication{ObjectMeta: d.meta(o.Name)}, func(obj client.Object) {
			obj.(*v1.AivenApplication).Spec.ExpiresAt = time.Now().UTC().Format(time.RFC3339)
		})
	case RotateUsers:
		err = d.rotate(ctx, o.Name, o.String())
	case PauseApplication, ResumeApplication:
		err = d.pause(ctx, o.Name, o.Kind == PauseApplication)
		d.touch(o.Name)
	case TamperStatus:
		return d.status(ctx, o)
	case EditSecret, TamperRecord, DeleteSecret, CopySecret:
		return d.secret(ctx, o)
	case MakeStranger:
		return d.makeStranger(ctx, o)
	case DeleteStranger:
		return d.deleteStranger(ctx, o)
	case CreateWorkload:
		err = d.create(ctx, deployment(d.meta(o.Name), o.Workload))
	case RollWorkload:
		next := deployment(d.meta(o.Name), o.Workload)
		err = d.update(ctx, &appsv1.Deployment{ObjectMeta: d.meta(o.Name)}, func(obj client.Object) {
			obj.(*appsv1.Deployment).Spec.Template, obj.(*appsv1.Deployment).Spec.Replicas = next.Spec.Template, next.Spec.Replicas
		})
	case DeleteWorkload:
		err = d.delete(ctx, &appsv1.Deployment{ObjectMeta: d.meta(o.Name)})
	case SetInstance:
		kind := binding.Valkey
		if o.Name == OpenSearchInstance {
			kind = binding.OpenSearch
		}
		err = d.setState(ctx, kind, o.Name, o.State)
	case DeleteNamespace:
		err = d.leave(ctx)
	case MakeNamespace:
		err = d.enter(ctx)
	}
	return "done", err
}

func (d *driver) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: d.namespace, Name: name}
}

func (d *driver) touch(app string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[app] = time.Now()
}

// patience is how long a request waits for what stands in its way, such as an application of the same name that is being deleted.
const patience = 5 * time.Minute

// createApplication waits until one of the same name is gone.
func (d *driver) createApplication(ctx context.Context, o Operation) error {
	d.ledger.asks(o.Name, o.Spec, time.Now())
	return stage.Await(ctx, patience, func(ctx context.Context) error {
		d.touch(o.Name)
		defer d.touch(o.Name)
		return d.stage.Create(ctx, &v1.AivenApplication{ObjectMeta: d.meta(o.Name), Spec: o.Spec})
	})
}

// create waits until one of the same name is gone.
func (d *driver) create(ctx context.Context, obj client.Object) error {
	return stage.Await(ctx, patience, func(ctx context.Context) error { return d.stage.Create(ctx, obj) })
}

// update edits an object, again if somebody else was faster.
func (d *driver) update(ctx context.Context, obj client.Object, edit func(client.Object)) error {
	return stage.Await(ctx, patience, func(ctx context.Context) error {
		if err := d.stage.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit(obj)
		return d.stage.Update(ctx, obj)
	})
}

// delete deletes an object, and does not wait until it is gone.
func (d *driver) delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	return client.IgnoreNotFound(d.stage.Delete(ctx, obj, append(options, client.PropagationPolicy(metav1.DeletePropagationBackground))...))
}

// rotate asks for new users of an application.
func (d *driver) rotate(ctx context.Context, app, wish string) error {
	return d.update(ctx, &v1.AivenApplication{ObjectMeta: d.meta(app)}, func(obj client.Object) {
		metav1.SetMetaDataAnnotation(&obj.(*v1.AivenApplication).ObjectMeta, "keysmith.io/rotate", wish)
	})
}

// pause stops all work on an application, or lets it go on.
func (d *driver) pause(ctx context.Context, name string, yes bool) error {
	d.paused[name] = yes
	if !yes {
		delete(d.paused, name)
	}
	return d.update(ctx, &v1.AivenApplication{ObjectMeta: d.meta(name)}, func(obj client.Object) {
		annotations := obj.GetAnnotations()
		delete(annotations, "operatorkit.giantswarm.io/paused")
		if yes {
			metav1.SetMetaDataAnnotation(&obj.(*v1.AivenApplication).ObjectMeta, "operatorkit.giantswarm.io/paused", "true")
		}
	})
}

// resume lets all paused applications go on.
func (d *driver) resume(ctx context.Context) error {
	var err error
	for _, name := range slices.Sorted(maps.Keys(d.paused)) {
		err = errors.Join(err, d.pause(ctx, name, false))
	}
	return err
}

// status edits the status of an application as somebody with that right can. What only the status knew is lost.
func (d *driver) status(ctx context.Context, o Operation) (string, error) {
	app := &v1.AivenApplication{}
	if err := d.stage.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: o.Name}, app); err != nil {
		return "", err
	}
	var lost, disowned []string
	for _, r := range app.Status.Bindings {
		s := &corev1.Secret{}
		if err := d.stage.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: r.SecretName}, s); client.IgnoreNotFound(err) != nil {
			return "", err
		}
		if ownerOf(s) != o.Name || !slices.ContainsFunc(binding.FromSecret(s), func(b *binding.Binding) bool {
			return string(b.Kind) == r.Kind && b.Username == r.Username && b.Ref.Project == r.Project
		}) {
			lost = append(lost, r.Username)
		}
	}
	what := "it is empty"
	switch o.Edit % 4 {
	case 0:
		app.Status = v1.AivenApplicationStatus{}
	case 1:
		app.Status.Bindings, what = nil, "nothing is recorded"
	case 2:
		for i := range app.Status.Bindings {
			app.Status.Bindings[i].Username = jane
		}
		what = "its records name " + jane
	default:
		for i := range app.Status.Bindings {
			app.Status.Bindings[i].State = controller.StateDeleted
		}
		what, lost = "all that it records is called gone", nil
		for _, r := range app.Status.Bindings {
			disowned = append(disowned, r.Username)
		}
	}
	d.mu.Lock()
	for _, user := range disowned {
		d.disowned[user] = true
	}
	for _, user := range lost {
		d.excused[user] = true
	}
	d.mu.Unlock()
	err := d.stage.Status().Update(ctx, app)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return "somebody else was faster", nil
	}
	return what, err
}

// secret does something to a Secret that an application asks for, if it is there and is ours.
func (d *driver) secret(ctx context.Context, o Operation) (string, error) {
	s := &corev1.Secret{}
	err := d.stage.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: o.Name}, s)
	if apierrors.IsNotFound(err) {
		return "there is none", nil
	}
	if err != nil {
		return "", err
	}
	if ownerOf(s) == "" || !s.DeletionTimestamp.IsZero() {
		return "it is not there for that", nil
	}
	switch o.Kind {
	case DeleteSecret:
		d.mu.Lock()
		d.removed[o.Name] = time.Now()
		d.mu.Unlock()
		d.ledger.release(time.Now(), func(p *promise) bool { return p.uid == s.UID })
		return "done", d.delete(ctx, s)
	case CopySecret:
		name := fmt.Sprintf("copy-%d", o.Number)
		twin := s.DeepCopy()
		twin.ObjectMeta = metav1.ObjectMeta{
			Namespace: d.namespace, Name: name, Labels: s.Labels, Annotations: s.Annotations, Finalizers: s.Finalizers,
		}
		if err := d.stage.Create(ctx, twin); err != nil {
			return "", err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.strangers[name] = stamp{uid: twin.UID} // its finalizer goes
		return "as " + name, nil
	}
	users := usersOf(s)
	what := edit(s, o)
	_, signed := s.Annotations["keysmith.io/owner"]
	d.mu.Lock()
	for _, user := range users {
		switch hidden := len(s.Labels) == 0; {
		case o.Kind == TamperRecord, hidden && (len(s.Finalizers) == 0 || !signed): // nothing tells whose the Secret was
			d.excused[user] = true
		case hidden:
			d.hidden[user] = true
		}
	}
	if len(s.Finalizers) == 0 {
		d.bare[s.UID] = true
	}
	d.mu.Unlock()
	err = d.stage.Update(ctx, s)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return "somebody else was faster", nil
	}
	return what, err
}

// usersOf are the users whose credentials a Secret holds, or held before they were replaced.
func usersOf(s *corev1.Secret) []string {
	var out []string
	for _, keys := range demand.Names {
		for _, k := range keys {
			if user := string(s.Data[k]); user != "" {
				out = append(out, user)
			}
		}
	}
	for _, o := range outgoingOf(s) {
		out = append(out, o.User)
	}
	return out
}

// edited is what people write into Secrets.
const edited = "edited"

// edit changes a Secret as people do.
func edit(s *corev1.Secret, o Operation) string {
	if o.Kind == TamperRecord {
		for _, k := range slices.Sorted(maps.Keys(s.Annotations)) {
			if strings.HasSuffix(k, "/serviceUser") {
				s.Annotations[k] = jane
			}
		}
		return "its records name " + jane
	}
	keys := slices.Sorted(maps.Keys(s.Data))
	k := keys[o.Edit%len(keys)]
	switch o.Edit % 5 {
	case 0:
		delete(s.Data, k)
		return k + " is gone"
	case 1:
		s.Data[k] = []byte(edited)
		return k + " is another one"
	case 2:
		s.Labels = nil
		return "its labels are gone"
	case 3:
		s.Finalizers = nil
		return "its finalizers are gone"
	default:
		delete(s.Annotations, "keysmith.io/owner")
		return "its owner is gone"
	}
}

func (d *driver) makeStranger(ctx context.Context, o Operation) (string, error) {
	s := &corev1.Secret{ObjectMeta: d.meta(o.Name), Data: map[string][]byte{"OURS": []byte("somebody else's")}}
	err := d.stage.Create(ctx, s)
	if apierrors.IsAlreadyExists(err) {
		return "an application has it", nil
	}
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strangers[o.Name] = stampOf(s)
	return "done", nil
}

// deleteStranger deletes a foreign Secret, but no Secret that an application has made in its place.
func (d *driver) deleteStranger(ctx context.Context, o Operation) (string, error) {
	d.mu.Lock()
	is, ok := d.strangers[o.Name]
	delete(d.strangers, o.Name)
	d.mu.Unlock()
	if !ok {
		return "it was never made", nil
	}
	return "done", d.delete(ctx, &corev1.Secret{ObjectMeta: d.meta(o.Name)}, client.Preconditions{UID: &is.uid})
}

// deployment has no history: what it has rolled away from goes.
func deployment(meta metav1.ObjectMeta, w Workload) *appsv1.Deployment {
	labels := map[string]string{"app": meta.Name}
	none := int32(0)
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}}
	for i, name := range w.Secrets {
		if i%2 == 1 {
			spec.Containers[0].EnvFrom = append(spec.Containers[0].EnvFrom, corev1.EnvFromSource{
				SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
			})
			continue
		}
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name: fmt.Sprintf("secret-%d", i), VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}},
		})
	}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: &w.Replicas, RevisionHistoryLimit: &none, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
	}}
}

// refersTo lists the Secrets of such a Pod.
func refersTo(spec *corev1.PodSpec) []string {
	var out []string
	for _, v := range spec.Volumes {
		if v.Secret != nil {
			out = append(out, v.Secret.SecretName)
		}
	}
	for _, c := range spec.Containers {
		for _, e := range c.EnvFrom {
			out = append(out, e.SecretRef.Name)
		}
	}
	return out
}

// leave deletes the namespace. What is paused would keep it.
func (d *driver) leave(ctx context.Context) error {
	if err := d.resume(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.leaving = true
	clear(d.strangers)
	d.mu.Unlock()
	d.ledger.release(time.Now(), func(*promise) bool { return true })
	return client.IgnoreNotFound(d.stage.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace}}))
}

// enter makes the namespace, once the former one is gone, with its instances.
func (d *driver) enter(ctx context.Context) error {
	err := stage.Await(ctx, patience, func(ctx context.Context) error {
		return d.stage.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace}})
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.leaving = false
	clear(d.hidden)
	d.mu.Unlock()
	return stage.Await(ctx, patience, d.instances) // for a moment the API server may take the namespace for the former one
}

// instances makes the objects of all instances, or sets them running.
func (d *driver) instances(ctx context.Context) error {
	err := d.setState(ctx, binding.OpenSearch, OpenSearchInstance, "RUNNING")
	for _, name := range ValkeyInstances {
		err = errors.Join(err, d.setState(ctx, binding.Valkey, name, "RUNNING"))
	}
	return err
}

func (d *driver) setState(ctx context.Context, kind binding.Kind, instance, state string) error {
	obj := controller.Instance(kind)
	obj.SetNamespace(d.namespace)
	obj.SetName(string(kind) + "-" + d.namespace + "-" + instance)
	if err := d.stage.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make %s %s: %w", kind, instance, err)
	}
	patch := fmt.Appendf(nil, `{"status":{"state":%q}}`, state)
	if err := d.stage.Status().Patch(ctx, obj, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("set the state of %s %s: %w", kind, instance, err)
	}
	return nil
}
