package janitor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func TestJudge(t *testing.T) {
	past, future := start.Add(-time.Hour), start.Add(time.Hour)
	tests := map[string]struct {
		inUse, protected bool
		expires          *time.Time
		want             Verdict
	}{
		"it keeps what is used":                              {inUse: true, want: InUse},
		"it keeps what is used though its time has passed":   {inUse: true, protected: true, expires: &past, want: InUse},
		"it keeps what is protected":                         {protected: true, want: Protected},
		"it keeps what is protected until later":             {protected: true, expires: &future, want: NotExpired},
		"it lets go what was protected until now":            {protected: true, expires: &start, want: Unused},
		"it lets go what was protected until a while ago":    {protected: true, expires: &past, want: Unused},
		"it lets go what nobody uses":                        {want: Unused},
		"it does not mind the time of what is not protected": {expires: &future, want: Unused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := judge(tt.inUse, tt.protected, tt.expires, start); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// everywhere refers to one Secret by each kind of reference.
func everywhere() corev1.PodSpec {
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	from := func(name string) []corev1.EnvFromSource {
		return []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref(name)}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
	}
	env := func(name string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref(name)}}}}
	}
	return corev1.PodSpec{
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
			{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{}}, {Secret: &corev1.SecretProjection{LocalObjectReference: ref("projected")}}}}}},
		},
		InitContainers:      []corev1.Container{{EnvFrom: from("init-from"), Env: env("init-env")}},
		Containers:          []corev1.Container{{}, {EnvFrom: from("from"), Env: env("env")}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: from("debug-from"), Env: env("debug-env")}}},
		ImagePullSecrets:    []corev1.LocalObjectReference{ref("pull"), ref("env")},
	}
}

var everyReference = []string{"debug-env", "debug-from", "env", "from", "init-env", "init-from", "projected", "pull", "volume"}

// workloads are one of each kind, with a pod template.
func workloads(spec corev1.PodSpec) []client.Object {
	template := corev1.PodTemplateSpec{Spec: spec}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "one", Labels: map[string]string{"big": strings.Repeat("x", 50)}}
	return []client.Object{
		&corev1.Pod{ObjectMeta: meta, Spec: spec},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template}},
		&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}},
		&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}},
		&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}},
	}
}

func TestIndexFindsEveryReferenceInEveryWorkload(t *testing.T) {
	all := workloads(everywhere())
	if len(all) != len(Workloads()) {
		t.Fatalf("this test knows %d kinds of workload, the janitor %d", len(all), len(Workloads()))
	}
	for _, obj := range all {
		if diff := cmp.Diff(everyReference, Index(obj)); diff != "" {
			t.Errorf("%T (-want +got)\n%s", obj, diff)
		}
		slim, err := Strip(obj)
		if err != nil {
			t.Fatal(err)
		}
		stripped := slim.(client.Object)
		if diff := cmp.Diff(everyReference, Index(stripped)); diff != "" {
			t.Errorf("%T, stripped (-want +got)\n%s", obj, diff)
		}
		if stripped.GetName() != "one" || stripped.GetNamespace() != "shop" || len(stripped.GetLabels()) > 0 {
			t.Errorf("%T, stripped: got %s/%s with labels %v", obj, stripped.GetNamespace(), stripped.GetName(), stripped.GetLabels())
		}
	}
}

func TestIndexFindsEveryNameInAnApplication(t *testing.T) {
	app := &v1.AivenApplication{Spec: v1.AivenApplicationSpec{
		SecretName: "legacy",
		Kafka:      &v1.Kafka{SecretName: "kafka"},
		OpenSearch: &v1.OpenSearch{SecretName: "search"},
		Valkey:     []v1.Valkey{{SecretName: "v0"}, {}, {SecretName: "v2"}},
	}}
	if diff := cmp.Diff([]string{"kafka", "legacy", "search", "v0", "v2"}, Index(app)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	now := metav1.Now()
	app.DeletionTimestamp = &now
	if got := Index(app); len(got) > 0 {
		t.Errorf("an application that goes asks for %v", got)
	}
}

// managed is a Secret of ours.
func managed(name string, annotations map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{key.LabelType: key.TypeAivenator},
		Annotations: map[string]string{key.AnnotationOwner: key.Owner("shop", name, "cart")},
	}}
	maps.Copy(s.Annotations, annotations)
	return s
}

// round is a janitor with a cluster.
type round struct {
	*Resource
	client.Client
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
}

func newRound(t *testing.T, grace time.Duration, funcs interceptor.Funcs, objects ...client.Object) *round {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...)
	for _, obj := range append(Workloads(), &v1.AivenApplication{}) {
		b = b.WithIndex(obj, SecretIndex, Index)
	}
	cache := b.Build()
	r := &round{Client: cache, clock: clocktesting.NewFakePassiveClock(start), events: events.NewFakeRecorder(10000)}
	server := interceptor.NewClient(cache, funcs)
	r.Resource = New(cache, server, r.events, r.clock, prometheus.NewRegistry(), Settings{Grace: grace, Finalizer: finalizer, Namespaces: []string{"shop", "gone"}})
	return r
}

// left are the names of the Secrets that exist.
func (r *round) left(t *testing.T) []string {
	t.Helper()
	var list corev1.SecretList
	if err := r.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	return names
}

func TestRound(t *testing.T) {
	protected := map[string]string{key.Protected: "true"}
	until := func(when string) map[string]string {
		return map[string]string{key.Protected: "true", key.AnnotationTimeLimit: "true", key.AnnotationExpiresAt: when}
	}
	copied := managed("copy", map[string]string{key.AnnotationOwner: key.Owner("shop", "original", "cart")})
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foreign"}}
	app := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Spec: v1.AivenApplicationSpec{SecretName: "requested"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod"}, Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mounted"}}}}
	elsewhere := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "pod"}, Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "unused"}}}}
	rival := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "rival"}, Spec: v1.AivenApplicationSpec{SecretName: "unused"}}
	r := newRound(t, 0, interceptor.Funcs{}, app, rival, pod, elsewhere, foreign, copied,
		managed("requested", nil), managed("mounted", nil), managed("unused", nil),
		managed("protected", protected), managed("expired", until("2030-01-02T04:04:04+01:00")), managed("not-expired", until("2030-01-02T03:04:06Z")),
		managed("unreadable", until("tomorrow")))
	for range 2 {
		if err := r.EnsureCreated(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"copy", "foreign", "mounted", "not-expired", "protected", "requested", "unreadable"}
	if diff := cmp.Diff(want, r.left(t)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for verdict, want := range map[Verdict]float64{InUse: 2, Protected: 2, NotExpired: 1, Unused: 0, NotOwned: 1, Leaving: 0} {
		if got := testutil.ToFloat64(r.managed.WithLabelValues(string(verdict))); got != want {
			t.Errorf("%s: got %v, want %v", verdict, got, want)
		}
	}
	close(r.events.Events)
	var warnings []string
	for e := range r.events.Events {
		if strings.HasPrefix(e, corev1.EventTypeWarning) {
			warnings = append(warnings, e)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "tomorrow") {
		t.Errorf("got warnings %q, want one about the time limit that cannot be read", warnings)
	}
}

func TestGrace(t *testing.T) {
	r := newRound(t, time.Minute, interceptor.Funcs{}, managed("unused", nil))
	err := r.EnsureCreated(t.Context(), nil)
	if d, ok := resource.After(err); resource.OutcomeOf(err) != resource.Waiting || !ok || d != time.Minute {
		t.Errorf("got %v after %s, want to wait a minute", err, d)
	}
	if said := <-r.events.Events; !strings.Contains(said, "it goes in 1m0s") {
		t.Errorf("the event says %q, want how long it stays", said)
	}
	r.clock.SetTime(start.Add(59 * time.Second))
	if err := r.EnsureCreated(t.Context(), nil); resource.OutcomeOf(err) != resource.Waiting || len(r.left(t)) != 1 {
		t.Errorf("got %v with %d Secrets left, want to wait", err, len(r.left(t)))
	}
	if n := len(r.events.Events); n > 0 {
		t.Errorf("there are %d more events, want it to be said once", n)
	}
	r.clock.SetTime(start.Add(time.Minute))
	if err := r.EnsureCreated(t.Context(), nil); err != nil || len(r.left(t)) != 0 {
		t.Errorf("got %v with %d Secrets left, want none", err, len(r.left(t)))
	}
}

func TestUseEndsTheGrace(t *testing.T) {
	r := newRound(t, time.Minute, interceptor.Funcs{}, managed("creds", nil))
	_ = r.EnsureCreated(t.Context(), nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod"}, Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "creds"}}}}
	if err := r.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	r.clock.SetTime(start.Add(time.Hour))
	if err := r.EnsureCreated(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := r.EnsureCreated(t.Context(), nil); resource.OutcomeOf(err) != resource.Waiting || len(r.left(t)) != 1 {
		t.Errorf("got %v with %d Secrets left, want the grace to begin anew", err, len(r.left(t)))
	}
}

func TestTheServerHasTheLastWord(t *testing.T) {
	inUse := func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		if l, ok := list.(*batchv1.CronJobList); ok { // not in the cache yet
			cron := workloads(corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "creds"}}})[6].(*batchv1.CronJob)
			l.Items = append(l.Items, *cron)
		}
		return nil
	}
	r := newRound(t, 0, interceptor.Funcs{List: inUse}, managed("creds", nil), managed("unused", nil))
	if err := r.EnsureCreated(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := r.left(t); !slices.Equal(got, []string{"creds"}) {
		t.Errorf("got %v left, want creds", got)
	}
}

func TestANamespaceThatCannotBeReadHoldsBackNobody(t *testing.T) {
	other := managed("unused", nil)
	other.Namespace, other.UID, other.Annotations[key.AnnotationOwner] = "broken", "other", key.Owner("broken", "unused", "cart")
	fails := func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var o client.ListOptions
		o.ApplyOptions(opts)
		if o.Namespace == "broken" {
			return errors.New("forbidden")
		}
		return c.List(ctx, list, opts...)
	}
	r := newRound(t, 0, interceptor.Funcs{List: fails}, other, managed("unused", nil))
	if err := r.EnsureCreated(t.Context(), nil); resource.OutcomeOf(err) != resource.Failed {
		t.Errorf("got %v, want a failure", err)
	}
	var list corev1.SecretList
	if err := r.List(t.Context(), &list); err != nil || len(list.Items) != 1 || list.Items[0].Namespace != "broken" {
		t.Errorf("got %d Secrets left (%v), want the one whose users are not known", len(list.Items), err)
	}
}

func TestReferencesTellTheField(t *testing.T) {
	ref := corev1.LocalObjectReference{Name: "creds"}
	from := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}}}
	env := []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref}}}, {Name: "X"}}
	spec := corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "plain", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "creds"}}},
			{Name: "joined", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: ref}}}}}},
		},
		InitContainers:      []corev1.Container{{Name: "init", EnvFrom: from}},
		Containers:          []corev1.Container{{Name: "app", Env: env}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", EnvFrom: from}}},
		ImagePullSecrets:    []corev1.LocalObjectReference{ref},
	}
	want := []string{
		"volumes[plain].secret", "volumes[joined].projected", "initContainers[init].envFrom", "containers[app].env[PASSWORD]",
		"ephemeralContainers[debug].envFrom", "imagePullSecrets",
	}
	for _, obj := range workloads(spec) {
		var got []string
		for _, r := range References(obj) {
			if r.Secret != "creds" {
				t.Errorf("%T: %s refers to %s", obj, r.Field, r.Secret)
			}
			got = append(got, r.Field)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T (-want +got)\n%s", obj, diff)
		}
	}
}

func TestHoldersAreRunningPodsThatWereStartedBefore(t *testing.T) {
	type edit func(p *corev1.Pod)
	phase := func(phase corev1.PodPhase) edit { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	started := func(at time.Time) edit { return func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: at} } }
	tests := map[string]struct {
		edit edit
		want bool
	}{
		"it names one that was started before":          {func(*corev1.Pod) {}, true},
		"it names one that was started at that moment":  {started(start), true},
		"it names one whose phase is not known":         {phase(corev1.PodUnknown), true},
		"it names one whose containers do not run yet":  {phase(corev1.PodPending), true},
		"it leaves out one that was started afterwards": {started(start.Add(time.Second)), false},
		"it leaves out one that no node has taken":      {func(p *corev1.Pod) { p.Status.StartTime = nil }, false},
		"it leaves out one that has succeeded":          {phase(corev1.PodSucceeded), false},
		"it leaves out one that has failed":             {phase(corev1.PodFailed), false},
		"it leaves out one that is being deleted": {func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: start}, []string{"test/finalizer"}
		}, false},
		"it leaves out one that does not refer to the Secret": {func(p *corev1.Pod) { p.Spec.ImagePullSecrets[0].Name = "another" }, false},
		"it leaves out one of another namespace":              {func(p *corev1.Pod) { p.Namespace = "other" }, false},
	}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "creds"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: start.Add(-time.Hour)}},
		}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := pod("one")
			tt.edit(p)
			r := newRound(t, 0, interceptor.Funcs{}, p)
			got, err := Holders(t.Context(), r.Client, "shop", "creds", start, 5)
			if err != nil {
				t.Fatal(err)
			}
			if is := slices.Equal(got, []string{"Pod/one"}); is != tt.want || !is && len(got) > 0 {
				t.Errorf("got %q, want Pod/one among them: %t", got, tt.want)
			}
		})
	}
	t.Run("it names so many, in their order", func(t *testing.T) {
		// A Deployment that refers to the Secret holds nothing; its Pods do.
		deployment := workloads(pod("").Spec)[2]
		r := newRound(t, 0, interceptor.Funcs{}, pod("d"), pod("b"), deployment, pod("c"), pod("a"))
		for limit, want := range map[int][]string{0: {}, 3: {"Pod/a", "Pod/b", "Pod/c"}, 4: {"Pod/a", "Pod/b", "Pod/c", "Pod/d"}, 5: {"Pod/a", "Pod/b", "Pod/c", "Pod/d"}} {
			got, err := Holders(t.Context(), r.Client, "shop", "creds", start, limit)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("at most %d: %v (-want +got)\n%s", limit, err, diff)
			}
		}
	})
	t.Run("it says that the cache cannot be read", func(t *testing.T) {
		broken := interceptor.NewClient(newRound(t, 0, interceptor.Funcs{}).Client.(client.WithWatch), interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errors.New("boom")
			},
		})
		if _, err := Holders(t.Context(), broken, "shop", "creds", start, 5); err == nil || !strings.Contains(err.Error(), "list the Pods that refer to Secret creds: boom") {
			t.Errorf("got %v, want what was tried and what failed", err)
		}
	})
}
