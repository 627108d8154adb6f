//go:build k8srequired

// Package janitor shows which Secrets the janitor removes: those that no application asks for and no workload refers to, and no others.
package janitor

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

// hold keeps an object that was deleted.
const hold = "example.com/hold"

// stay makes sure that these Secrets of ours are still there, untouched, after the janitor has looked at them.
func stay(t *testing.T, w *world.World, names ...string) {
	t.Helper()
	versions := map[string]string{}
	for _, name := range names {
		versions[name] = w.Secret(name).ResourceVersion
	}
	w.Sweep()
	for _, name := range names {
		if got := w.Secret(name); got.ResourceVersion != versions[name] {
			t.Errorf("Secret %s was changed: %+v", name, got.ObjectMeta)
		}
	}
}

func TestEveryReferenceCounts(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	tests := map[string]func(spec *corev1.PodSpec, secret string){
		"volume": func(spec *corev1.PodSpec, secret string) { spec.Volumes = volume(secret) },
		"optional-volume": func(spec *corev1.PodSpec, secret string) {
			spec.Volumes = volume(secret)
			spec.Volumes[0].Secret.Optional = new(true)
		},
		"projected-volume": func(spec *corev1.PodSpec, secret string) {
			spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{DownwardAPI: &corev1.DownwardAPIProjection{}},
					{Secret: &corev1.SecretProjection{LocalObjectReference: named(secret)}},
				},
			}}}}
		},
		"env-from": func(spec *corev1.PodSpec, secret string) { spec.Containers[0].EnvFrom = envFrom(secret) },
		"optional-env-from": func(spec *corev1.PodSpec, secret string) {
			spec.Containers[0].EnvFrom = envFrom(secret)
			spec.Containers[0].EnvFrom[0].SecretRef.Optional = new(true)
		},
		"variable": func(spec *corev1.PodSpec, secret string) { spec.Containers[0].Env = variable(secret) },
		"second-container": func(spec *corev1.PodSpec, secret string) {
			spec.Containers = append(spec.Containers, corev1.Container{Name: "two", Image: "none", Env: variable(secret)})
		},
		"init-env-from": func(spec *corev1.PodSpec, secret string) {
			spec.InitContainers = []corev1.Container{{Name: "init", Image: "none", EnvFrom: envFrom(secret)}}
		},
		"init-variable": func(spec *corev1.PodSpec, secret string) {
			spec.InitContainers = []corev1.Container{{Name: "init", Image: "none", Env: variable(secret)}}
		},
		"image-pull-secret": func(spec *corev1.PodSpec, secret string) {
			spec.ImagePullSecrets = []corev1.LocalObjectReference{named(secret)}
		},
	}
	var secrets []string
	for name, refer := range tests {
		// An old revision, kept to go back to.
		w.Earlier(name, name)
		rs := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
			Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: selector(name), Template: template(name)},
		}
		refer(&rs.Spec.Template.Spec, name)
		w.Make(rs)
		secrets = append(secrets, name)
	}
	// Ephemeral containers cannot be part of a template.
	const debug = "ephemeral-container"
	w.Earlier(debug, debug)
	pod := pod(w.Namespace, debug)
	w.Make(pod)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "none", TerminationMessagePolicy: corev1.TerminationMessageReadFile, EnvFrom: envFrom(debug),
	}}}
	if err := w.SubResource("ephemeralcontainers").Update(t.Context(), pod); err != nil {
		t.Fatalf("add an ephemeral container: %v", err)
	}
	secrets = append(secrets, debug)

	w.Start()
	stay(t, w, secrets...)
	w.MetricIs(`aivenator_secrets_managed{state="in_use"}`, float64(len(secrets)))

	for name := range tests {
		w.Remove(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}})
	}
	w.Remove(pod)
	for _, name := range secrets {
		w.Gone(&corev1.Secret{}, name)
	}
	w.UsersAre(w.Kafka)
	w.MetricIs(`aivenator_secrets_managed{state="in_use"}`, 0)
}

func TestEveryKindOfWorkloadCounts(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.Namespace, Name: name} }
	using := func(name string) corev1.PodTemplateSpec {
		out := template(name)
		out.Spec.Volumes = volume(name)
		return out
	}
	once := func(name string) corev1.PodTemplateSpec {
		out := using(name)
		out.Spec.RestartPolicy = corev1.RestartPolicyNever
		return out
	}
	workloads := []client.Object{
		// Paused, it makes no ReplicaSet that would count for it.
		&appsv1.Deployment{ObjectMeta: meta("deployment"), Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Paused: true, Selector: selector("deployment"), Template: using("deployment"),
		}},
		&appsv1.ReplicaSet{ObjectMeta: meta("replicaset"), Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), Selector: selector("replicaset"), Template: using("replicaset"),
		}},
		&appsv1.StatefulSet{ObjectMeta: meta("statefulset"), Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(0)), Selector: selector("statefulset"), Template: using("statefulset"),
		}},
		// No node matches, as there is none.
		&appsv1.DaemonSet{ObjectMeta: meta("daemonset"), Spec: appsv1.DaemonSetSpec{Selector: selector("daemonset"), Template: using("daemonset")}},
		&batchv1.Job{ObjectMeta: meta("job"), Spec: batchv1.JobSpec{Suspend: new(true), Template: once("job")}},
		&batchv1.CronJob{ObjectMeta: meta("cronjob"), Spec: batchv1.CronJobSpec{
			Suspend: new(true), Schedule: "0 3 * * 0", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once("cronjob")}},
		}},
	}
	var secrets []string
	for _, workload := range workloads {
		w.Earlier(workload.GetName(), workload.GetName())
		w.Make(workload)
		secrets = append(secrets, workload.GetName())
	}
	w.Start()
	stay(t, w, secrets...)
	var pods corev1.PodList
	var sets appsv1.ReplicaSetList
	for _, list := range []client.ObjectList{&pods, &sets} {
		if err := w.List(t.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			t.Fatal(err)
		}
	}
	if len(pods.Items) > 0 || len(sets.Items) != 1 {
		t.Errorf("the templates alone are to count, but there are %d Pods and %d ReplicaSets", len(pods.Items), len(sets.Items))
	}

	for _, workload := range workloads {
		if err := w.Delete(t.Context(), workload, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatalf("delete %s: %v", workload.GetName(), err)
		}
	}
	for _, name := range secrets {
		w.Gone(&corev1.Secret{}, name)
	}
	w.UsersAre(w.Kafka)
}

func TestAFinishedJobCounts(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Earlier("creds", "creds")
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "migration"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: template("x").Spec}},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Template.Spec.Containers[0].EnvFrom = envFrom("creds")
	w.Make(job)
	var pods corev1.PodList
	w.Eventually(func(ctx context.Context) error {
		if err := w.List(ctx, &pods, client.InNamespace(w.Namespace)); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("the Job has %d Pods", len(pods.Items))
		}
		pods.Items[0].Status.Phase = corev1.PodSucceeded // there is no kubelet to run it
		return w.Status().Update(ctx, &pods.Items[0])
	})
	w.Eventually(func(ctx context.Context) error {
		if err := w.Get(ctx, w.Key("migration"), job); err != nil {
			return err
		}
		if !slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobComplete }) {
			return fmt.Errorf("the Job is not complete: %+v", job.Status)
		}
		return nil
	})
	w.Remove(&pods.Items[0])
	w.Gone(&corev1.Pod{}, pods.Items[0].Name)

	w.Start()
	stay(t, w, "creds")
	if err := w.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
}

func TestAPodCountsInEveryPhase(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	tests := map[string]func(p *corev1.Pod){
		"pending":     func(*corev1.Pod) {},
		"creating":    func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("ContainerCreating") },
		"crashing":    func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("CrashLoopBackOff") },
		"running":     func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
		"succeeded":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":      func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"terminating": nil,
	}
	var secrets []string
	for name, edit := range tests {
		w.Earlier(name, name)
		p := pod(w.Namespace, name)
		p.Spec.Containers[0].EnvFrom = envFrom(name)
		p.Finalizers = []string{hold}
		w.Make(p)
		if edit == nil {
			w.Remove(p)
		} else if edit(p); p.Status.Phase != "" || len(p.Status.ContainerStatuses) > 0 {
			if err := w.Status().Update(t.Context(), p); err != nil {
				t.Fatalf("set the status of Pod %s: %v", name, err)
			}
		}
		secrets = append(secrets, name)
	}
	w.Start()
	stay(t, w, secrets...)
	for name, edit := range tests {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
		if edit != nil {
			w.Remove(p)
		}
		w.Merge(p, `{"metadata":{"finalizers":null}}`)
	}
	for _, name := range secrets {
		w.Gone(&corev1.Secret{}, name)
	}
	w.UsersAre(w.Kafka)
}

func TestTheLastUserOfASecret(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Earlier("creds", "creds")
	set := func(name string) *appsv1.ReplicaSet {
		rs := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
			Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: selector(name), Template: template(name)},
		}
		rs.Spec.Template.Spec.Volumes = volume("creds")
		return rs
	}
	one, two := set("one"), set("two")
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "three"}, Spec: batchv1.CronJobSpec{
		Suspend: new(true), Schedule: "0 3 * * 0", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template("three")}},
	}}
	cron.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	cron.Spec.JobTemplate.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "none", Env: variable("creds")}}
	for _, user := range []client.Object{one, two, cron} {
		w.Make(user)
	}
	w.Start()
	w.Remove(one)
	stay(t, w, "creds")
	w.Remove(cron)
	stay(t, w, "creds")
	w.Remove(two)
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
}

func TestUseIsPerNamespace(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	other := env.Namespace(t, w.Client)
	w.Earlier("creds", "creds")
	stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "creds"}}
	w.Make(stranger)
	user := pod(other, "user")
	user.Spec.Containers[0].EnvFrom = envFrom("creds")
	w.Make(user)
	// What is ours in the other namespace is judged by the other namespace's Pods.
	w.Start("--namespaces=" + other)
	w.Gone(&corev1.Secret{}, "creds")
	w.UsersAre(w.Kafka)
	w.Sweep()
	got := &corev1.Secret{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(stranger), got); err != nil || got.ResourceVersion != stranger.ResourceVersion {
		t.Errorf("the other namespace's Secret was touched: %v, %+v", err, got.ObjectMeta)
	}
}

func TestWhatAnApplicationAsksForStays(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{})
	caches := []string{"one", "two", "three"}
	spec := v1.AivenApplicationSpec{
		Kafka:      &v1.Kafka{Pool: world.Pool, SecretName: "kafka"},
		OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: "opensearch"},
	}
	for _, c := range caches {
		w.Instance(binding.Valkey, c, aivensim.ServiceConfig{})
		spec.Valkey = append(spec.Valkey, v1.Valkey{Instance: c, SecretName: "valkey-" + c})
	}
	w.Start()
	w.Apply("cart", spec)
	w.Apply("legacy", v1.AivenApplicationSpec{SecretName: "legacy", Kafka: &v1.Kafka{Pool: world.Pool}})
	w.Ready("cart")
	w.Ready("legacy")
	secrets := []string{"kafka", "opensearch", "valkey-one", "valkey-two", "valkey-three", "legacy"}
	stay(t, w, secrets...)
	w.MetricIs(`aivenator_secrets_managed{state="in_use"}`, float64(len(secrets)))

	w.Change("cart", func(app *v1.AivenApplication) { app.Spec.Valkey = app.Spec.Valkey[:2] })
	w.Gone(&corev1.Secret{}, "valkey-three")
	w.Remove(w.App("legacy"))
	w.Gone(&corev1.Secret{}, "legacy")
	stay(t, w, "kafka", "opensearch", "valkey-one", "valkey-two")
	w.UsersAre(w.Sim.Service(world.Main, "valkey-"+w.Namespace+"-three"))
	if n := len(world.Users(w.Kafka)); n != 1 {
		t.Errorf("Kafka users: got %q, want the one of cart", world.Users(w.Kafka))
	}
}

func TestACopyIsNotOurs(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	other := env.Namespace(t, w.Client)
	w.Start("--namespaces=" + other)
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	username := w.Ready("cart").Status.Bindings[0].Username
	original := w.Secret("creds")
	var copies []*corev1.Secret
	for _, at := range []client.ObjectKey{{Namespace: w.Namespace, Name: "copy"}, {Namespace: other, Name: "creds"}, {Namespace: other, Name: "copy"}} {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: at.Namespace, Name: at.Name, Labels: original.Labels, Annotations: original.Annotations, Finalizers: original.Finalizers,
			},
			Data: original.Data,
		}
		w.Make(s)
		copies = append(copies, s)
	}
	for _, s := range copies {
		w.Eventually(func(ctx context.Context) error {
			if err := w.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
				return err
			}
			if len(s.Finalizers) > 0 {
				return fmt.Errorf("finalizers of the copy %s/%s: %q", s.Namespace, s.Name, s.Finalizers)
			}
			return nil
		})
	}
	w.MetricIs(`aivenator_secrets_managed{state="not_owned"}`, float64(len(copies)))
	w.Sweep()
	for _, s := range copies {
		got := &corev1.Secret{}
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(s), got); err != nil || got.ResourceVersion != s.ResourceVersion {
			t.Errorf("the copy %s/%s was touched: %v, %+v", s.Namespace, s.Name, err, got.ObjectMeta)
			continue
		}
		w.Remove(got)
		w.Eventually(func(ctx context.Context) error {
			if err := w.Get(ctx, client.ObjectKeyFromObject(s), got); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("the copy %s/%s is still there: %v", s.Namespace, s.Name, err)
			}
			return nil
		})
	}
	w.UsersAre(w.Kafka, username)
	if got := w.Secret("creds"); got.ResourceVersion != original.ResourceVersion {
		t.Errorf("the original was touched: %+v", got.ObjectMeta)
	}
}

func TestACopyInTheEarlierFormatDoesNotTakeTheUserAlong(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	username := w.Earlier("creds", "cart")
	original := w.Secret("creds")
	w.Make(&corev1.Secret{ // its owner annotation could tell it from the original, but the earlier operator made none
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: "copy", Labels: original.Labels, Annotations: original.Annotations, Finalizers: []string{key.FinalizerAivenator},
		},
	})
	w.Apply("cart", v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: "creds"}})
	w.Start("--janitor-grace=24h")
	w.Ready("cart")
	w.Remove(w.Secret("copy"))
	w.Gone(&corev1.Secret{}, "copy")
	w.UsersAre(w.Kafka, username)
	if calls := w.Calls(aivensim.ServiceUserDelete, username); len(calls) > 0 {
		t.Errorf("the user was deleted: %+v", calls)
	}
}

func named(secret string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: secret}
}

func volume(secret string) []corev1.Volume {
	return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}}
}

func envFrom(secret string) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named(secret)}}}
}

func variable(secret string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named(secret), Key: key.KafkaBrokers},
	}}}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}
}

func template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"name": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "none"}}},
	}
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: template(name).Spec}
}

func waiting(reason string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: "one", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
}
