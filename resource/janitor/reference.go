package janitor

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// SecretIndex is the field under which the cache finds the objects of a namespace that refer to a Secret.
const SecretIndex = "keysmith.secret"

// page is how many objects one list call to the API server answers.
const page = 500

// kind is a kind of object that can refer to a Secret.
type kind struct {
	name string
	list func() client.ObjectList
	obj  client.Object
}

// Kinds are the objects that a workload consists of: Pods, and everything that has a pod template. One that is scaled to zero,
// suspended or finished counts as long as it exists.
var kinds = []kind{
	{"Pod", func() client.ObjectList { return &corev1.PodList{} }, &corev1.Pod{}},
	{"ReplicaSet", func() client.ObjectList { return &appsv1.ReplicaSetList{} }, &appsv1.ReplicaSet{}},
	{"Deployment", func() client.ObjectList { return &appsv1.DeploymentList{} }, &appsv1.Deployment{}},
	{"StatefulSet", func() client.ObjectList { return &appsv1.StatefulSetList{} }, &appsv1.StatefulSet{}},
	{"DaemonSet", func() client.ObjectList { return &appsv1.DaemonSetList{} }, &appsv1.DaemonSet{}},
	{"Job", func() client.ObjectList { return &batchv1.JobList{} }, &batchv1.Job{}},
	{"CronJob", func() client.ObjectList { return &batchv1.CronJobList{} }, &batchv1.CronJob{}},
}

// Lists returns an empty list of each kind that can refer to a Secret, by the kind's name, in a fixed order.
func Lists(yield func(kind string, list client.ObjectList) bool) {
	for _, k := range kinds {
		if !yield(k.name, k.list()) {
			return
		}
	}
}

// Workloads returns an object of each kind that can refer to a Secret, for a cache to be set up with Strip and Index.
func Workloads() []client.Object {
	out := make([]client.Object, len(kinds))
	for i, k := range kinds {
		out[i] = k.obj
	}
	return out
}

// template is the pod template of an object, or the spec of a Pod; nil for other objects.
func template(obj runtime.Object) *corev1.PodSpec {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec
	default:
		return nil
	}
}

// Index lists the Secrets that an object refers to: an application by its spec, a workload by its pod template.
func Index(obj client.Object) []string {
	if app, ok := obj.(*v1.AivenApplication); ok {
		return requested(app)
	}
	spec := template(obj)
	if spec == nil {
		return nil
	}
	return references(spec)
}

// requested are the Secrets that an application asks for; one that is being deleted asks for none.
func requested(app *v1.AivenApplication) []string {
	if !app.DeletionTimestamp.IsZero() {
		return nil
	}
	names := []string{app.Spec.SecretName}
	if k := app.Spec.Kafka; k != nil {
		names = append(names, k.SecretName)
	}
	if o := app.Spec.OpenSearch; o != nil {
		names = append(names, o.SecretName)
	}
	for _, v := range app.Spec.Valkey {
		names = append(names, v.SecretName)
	}
	return unique(names)
}

// Reference is a place of a workload that names a Secret.
type Reference struct {
	Secret string
	Field  string // of the pod spec, lists by name, such as "containers[app].env[PASSWORD]"
}

// References are the places of a workload that name a Secret; none for other objects.
func References(obj runtime.Object) []Reference {
	var out []Reference
	if spec := template(obj); spec != nil {
		visit(spec, func(secret string, at place) { out = append(out, Reference{Secret: secret, Field: at.String()}) })
	}
	return out
}

// place is where a Secret is named. It becomes a text only for people.
type place struct{ list, item, field, name string }

// String is the place as Reference has it.
func (p place) String() string {
	text := p.list
	if p.item != "" {
		text += "[" + p.item + "]." + p.field
	}
	if p.name != "" {
		text += "[" + p.name + "]"
	}
	return text
}

// references are the Secrets that a Pod of this spec needs.
func references(spec *corev1.PodSpec) []string {
	var names []string
	visit(spec, func(secret string, _ place) { names = append(names, secret) })
	return unique(names)
}

// visit finds every name of a Secret that a Pod of this spec needs: volumes, projected volumes, variables of all kinds of container, and what it pulls
// its images with.
func visit(spec *corev1.PodSpec, found func(secret string, at place)) {
	for _, v := range spec.Volumes {
		if v.Secret != nil {
			found(v.Secret.SecretName, place{"volumes", v.Name, "secret", ""})
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				found(source.Secret.Name, place{"volumes", v.Name, "projected", ""})
			}
		}
	}
	for _, c := range spec.InitContainers {
		variables("initContainers", c.Name, c.EnvFrom, c.Env, found)
	}
	for _, c := range spec.Containers {
		variables("containers", c.Name, c.EnvFrom, c.Env, found)
	}
	for _, c := range spec.EphemeralContainers {
		variables("ephemeralContainers", c.Name, c.EnvFrom, c.Env, found)
	}
	for _, s := range spec.ImagePullSecrets {
		found(s.Name, place{list: "imagePullSecrets"})
	}
}

func variables(list, container string, from []corev1.EnvFromSource, env []corev1.EnvVar, found func(secret string, at place)) {
	for _, e := range from {
		if e.SecretRef != nil {
			found(e.SecretRef.Name, place{list, container, "envFrom", ""})
		}
	}
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			found(e.ValueFrom.SecretKeyRef.Name, place{list, container, "env", e.Name})
		}
	}
}

func unique(names []string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// Strip reduces a workload, as it enters the cache, to what the janitor needs: where it stands, and the Secrets it refers to, all of which
// are listed as those that it pulls its images with. Clusters have many more Pods than applications; this is what they cost.
func Strip(obj any) (any, error) {
	o, ok := obj.(client.Object)
	if !ok {
		return obj, nil // a tombstone
	}
	spec := template(o)
	if spec == nil {
		return obj, nil
	}
	bare := metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		DeletionTimestamp: o.GetDeletionTimestamp(), CreationTimestamp: o.GetCreationTimestamp(),
	}
	var slim corev1.PodSpec
	for _, name := range references(spec) {
		slim.ImagePullSecrets = append(slim.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	switch obj := o.(type) {
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: bare, Spec: slim, Status: corev1.PodStatus{Phase: obj.Status.Phase, StartTime: obj.Status.StartTime}}, nil
	case *appsv1.ReplicaSet:
		return &appsv1.ReplicaSet{ObjectMeta: bare, Spec: appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{Spec: slim}}}, nil
	case *appsv1.Deployment:
		return &appsv1.Deployment{ObjectMeta: bare, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: slim}}}, nil
	case *appsv1.StatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: bare, Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: slim}}}, nil
	case *appsv1.DaemonSet:
		return &appsv1.DaemonSet{ObjectMeta: bare, Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: slim}}}, nil
	case *batchv1.Job:
		return &batchv1.Job{ObjectMeta: bare, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: slim}}}, nil
	case *batchv1.CronJob:
		out := &batchv1.CronJob{ObjectMeta: bare}
		out.Spec.JobTemplate.Spec.Template.Spec = slim
		return out, nil
	default:
		return obj, nil
	}
}

// Users names the workloads that refer to a Secret, as "Kind/name", from a cache that has the index. At most limit are named; zero means
// all.
func Users(ctx context.Context, cache client.Reader, namespace, secret string, limit int) ([]string, error) {
	var users []string
	for _, k := range kinds {
		list := k.list()
		if err := cache.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{SecretIndex: secret},
			client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list what refers to Secret %s: %w", secret, err)
		}
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			o, err := meta.Accessor(obj)
			if err == nil && (limit == 0 || len(users) < limit) {
				users = append(users, k.name+"/"+o.GetName())
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list what refers to Secret %s: %w", secret, err)
		}
		if limit > 0 && len(users) >= limit {
			break
		}
	}
	return users, nil
}

// Holders names the running Pods that refer to a Secret and were started no later than a time, as "Pod/name", from a cache that has the index. A
// Pod that no node has taken yet will start with what the Secret holds then. At most limit are named.
func Holders(ctx context.Context, cache client.Reader, namespace, secret string, since time.Time, limit int) ([]string, error) {
	var pods corev1.PodList
	err := cache.List(ctx, &pods, client.InNamespace(namespace), client.MatchingFields{SecretIndex: secret}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the Pods that refer to Secret %s: %w", secret, err)
	}
	var names []string
	for i := range pods.Items {
		p := &pods.Items[i]
		runs := p.DeletionTimestamp.IsZero() && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
		if runs && p.Status.StartTime != nil && !p.Status.StartTime.After(since) {
			names = append(names, "Pod/"+p.Name)
		}
	}
	slices.Sort(names)
	return names[:min(limit, len(names))], nil
}

// isRequested tells whether the cache has the owner of a Secret, and it asks for it. Another application that names the Secret will never
// get this one: it waits for it to go.
func isRequested(ctx context.Context, cache client.Reader, namespace, secret, owner string) (bool, error) {
	var apps v1.AivenApplicationList
	err := cache.List(ctx, &apps, client.InNamespace(namespace), client.MatchingFields{SecretIndex: secret}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("list the applications that ask for Secret %s: %w", secret, err)
	}
	return slices.ContainsFunc(apps.Items, func(a v1.AivenApplication) bool { return a.Name == owner }), nil
}

// use is what refers to the Secrets of a namespace.
type use struct {
	workloads map[string]bool     // by Secret
	requests  map[string][]string // the names of applications, by Secret
}

func (u use) of(secret, owner string) bool {
	return u.workloads[secret] || slices.Contains(u.requests[secret], owner)
}

// referred reads from the API server itself every Secret of a namespace that an application asks for or a workload refers to. Caches lag; what
// is deleted by mistake is somebody's outage.
func referred(ctx context.Context, server client.Reader, namespace string) (use, error) {
	out := use{workloads: map[string]bool{}, requests: map[string][]string{}}
	lists := []func() client.ObjectList{func() client.ObjectList { return &v1.AivenApplicationList{} }}
	for _, k := range kinds {
		lists = append(lists, k.list)
	}
	for _, newList := range lists {
		for next := ""; ; {
			list := newList()
			if err := server.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(next)); err != nil {
				return use{}, fmt.Errorf("list what refers to Secrets of namespace %s: %w", namespace, err)
			}
			err := meta.EachListItem(list, func(obj runtime.Object) error {
				o, ok := obj.(client.Object)
				if !ok {
					return nil
				}
				_, isApplication := o.(*v1.AivenApplication)
				for _, name := range Index(o) {
					if isApplication {
						out.requests[name] = append(out.requests[name], o.GetName())
					} else {
						out.workloads[name] = true
					}
				}
				return nil
			})
			if err != nil {
				return use{}, fmt.Errorf("list what refers to Secrets of namespace %s: %w", namespace, err)
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return out, nil
}
