package explain

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/golden"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/resource/janitor"
)

var (
	now  = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	user = key.Identity{Namespace: "shop", Application: "cart", Project: "dev", Service: "kafka"}.Kafka()
)

func before(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// facts are those of a Secret that is in use; edits make another story of it.
func facts(edits ...func(*Facts)) Facts {
	f := Facts{
		At: types.NamespacedName{Namespace: "shop", Name: "cart-kafka"}, Now: now,
		Secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "cart-kafka", UID: "uid", CreationTimestamp: before(72 * time.Hour),
			Finalizers: []string{"operatorkit.giantswarm.io/keysmith-secret"},
			Labels:     map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"},
			Annotations: map[string]string{
				key.AnnotationOwner: "shop/cart-kafka cart", key.AnnotationKafkaUser: user, key.AnnotationKafkaPool: "dev",
			},
		}},
		Apps: []v1.AivenApplication{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
			Spec:       v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: "dev", SecretName: "cart-kafka"}, Valkey: []v1.Valkey{{Instance: "sessions", SecretName: "cart-valkey"}}},
			Status: v1.AivenApplicationStatus{
				Conditions: []v1.Condition{{Type: v1.ConditionReady, Status: "True", Reason: "Synchronized", Message: "Up to date: cart-kafka", LastUpdateTime: before(50 * time.Hour)}},
				Bindings: []v1.Binding{
					{Kind: "kafka", Project: "dev", Service: "kafka", SecretName: "cart-kafka", Username: user, State: "Ready"},
					{Kind: "valkey", Project: "main", Service: "valkey-shop-sessions", SecretName: "cart-valkey", Username: "cart-r-abcdefgh", State: "Ready"},
				},
			},
		}},
		Uses: []Use{
			{"Pod", "cart-7d4b9c-x2x8p", []string{"containers[cart].envFrom"}},
			{"ReplicaSet", "cart-7d4b9c", []string{"containers[cart].envFrom"}},
			{"Deployment", "cart", []string{"containers[cart].envFrom"}},
			{"CronJob", "report", []string{"volumes[kafka].projected", "containers[report].env[KAFKA_BROKERS]"}},
		},
		Events: []corev1.Event{{
			InvolvedObject: corev1.ObjectReference{Kind: "AivenApplication", Name: "cart"}, Type: "Normal", Reason: "SecretUpdated",
			Message: "Secret cart-kafka was brought up to date", EventTime: metav1.NewMicroTime(now.Add(-50 * time.Minute)),
		}},
	}
	for _, edit := range edits {
		edit(&f)
	}
	return f
}

func unasked(f *Facts)       { f.Apps[0].Spec.Kafka = nil; f.Apps[0].Status.Bindings[0].State = "Retained" }
func unused(f *Facts)        { f.Uses, f.Events = nil, nil }
func protected(f *Facts)     { f.Secret.Annotations[key.Protected] = "true" }
func noApplication(f *Facts) { f.Apps = nil }
func absent(f *Facts)        { f.Secret, f.Uses = nil, nil }
func limited(limit string) func(*Facts) {
	return func(f *Facts) {
		protected(f)
		f.Secret.Annotations[key.AnnotationTimeLimit], f.Secret.Annotations[key.AnnotationExpiresAt] = "true", limit
	}
}
func leaving(f *Facts) {
	t := before(90 * time.Second)
	f.Secret.DeletionTimestamp = &t
	f.Secret.Finalizers = append(f.Secret.Finalizers, "example.com/backup")
	f.Events = append(f.Events, corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Secret", Name: "cart-kafka"}, Type: "Warning", Reason: "CleanupFailed",
		Message: "credentials cannot be taken back yet: delete user " + user + " on dev/kafka: 503 Service Unavailable", LastTimestamp: before(time.Minute),
	})
}
func notReady(f *Facts) {
	f.Apps[0].Status.Conditions[0] = v1.Condition{
		Type: v1.ConditionReady, Status: "False", Reason: "InstanceNotFound", LastUpdateTime: before(2 * time.Minute),
		Message: "namespace shop has no Valkey named valkey-shop-sessions or sessions",
	}
	f.Apps[0].Status.Bindings = f.Apps[0].Status.Bindings[:1]
	f.Apps[0].Status.Bindings[0].State = "Pending"
	f.Events = nil
}
func foundUnused(f *Facts) {
	unused(f)
	f.Events = []corev1.Event{unusedEvent("uid", 40*time.Second)}
}

func unusedEvent(uid types.UID, at time.Duration) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Secret", Name: "cart-kafka", UID: uid}, Type: "Normal", Reason: janitor.ReasonUnused,
		Action: janitor.ActionJudge, EventTime: metav1.NewMicroTime(now.Add(-at)),
		Message: "No application asks for this Secret and no workload refers to it: it goes in 1m0s unless that changes",
	}
}

func copied(f *Facts) { f.Secret.Annotations[key.AnnotationOwner] = "shop/original cart" }

func TestText(t *testing.T) {
	tests := map[string]Facts{
		"it tells of a Secret that is used":                      facts(),
		"it tells of one that nobody asks for but a workload":    facts(unasked),
		"it tells since when a Secret is unused":                 facts(unasked, foundUnused),
		"it tells until when a Secret is kept":                   facts(noApplication, unused, limited("2030-02-28T00:00:00Z")),
		"it tells what holds a deletion":                         facts(leaving),
		"it tells what a Secret waits for that is not there yet": facts(notReady, absent),
		"it tells of a copy":                                     facts(copied, unused),
		"it tells what it may not see": facts(unasked, unused, func(f *Facts) {
			f.UsesMissing = true
			f.Missing = []string{"you (jane) lack the right to list pods in namespace shop", "you (jane) lack the right to list events in namespace shop"}
		}),
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			got := Explain(f).Text(now)
			golden.Compare(t, filepath.Join("testdata", strings.ReplaceAll(strings.TrimPrefix(name, "it tells "), " ", "-")+".golden"), got)
		})
	}
}

func TestVerdicts(t *testing.T) {
	tests := map[string]struct {
		facts   Facts
		state   State
		verdict janitor.Verdict
		outlook string
	}{
		"it stays while it is asked for":              {facts(unused), Present, janitor.InUse, "application cart asks for it"},
		"it stays while a workload refers to it":      {facts(noApplication), Present, janitor.InUse, "as long as a workload refers to it"},
		"it stays where it is protected":              {facts(noApplication, unused, protected), Present, janitor.Protected, "because it is protected: delete it by hand"},
		"it stays where its time limit is unreadable": {facts(noApplication, unused, limited("tomorrow")), Present, janitor.Protected, "not an RFC 3339 time"},
		"it stays until its time limit":               {facts(noApplication, unused, limited("2030-02-01T00:00:00Z")), Present, janitor.NotExpired, "until 2030-02-01T00:00:00Z"},
		"it goes after its time limit":                {facts(noApplication, unused, limited("2030-01-01T00:00:00Z")), Present, janitor.Unused, "it goes"},
		"it goes where its application does":          {facts(unused, func(f *Facts) { t := before(0); f.Apps[0].DeletionTimestamp = &t }), Present, janitor.Unused, "it goes"},
		"it is not judged where applications are hidden": {
			facts(noApplication, unused, func(f *Facts) { f.AppsMissing = true }), Present, "", "cannot be told",
		},
		"it stays where what is seen uses it": {
			facts(noApplication, func(f *Facts) { f.AppsMissing = true }), Present, janitor.InUse, "as long as a workload refers to it",
		},
		"it goes and is made again":               {facts(leaving), Leaving, janitor.Leaving, "another one follows"},
		"it is left alone as a copy":              {facts(copied), Present, janitor.NotOwned, "leaves it alone"},
		"it is left alone without the type label": {facts(func(f *Facts) { delete(f.Secret.Labels, key.LabelType) }), Present, "", "leaves it alone"},
		"it will be made":                         {facts(absent), Absent, "", "it will be made"},
		"it will not be made":                     {facts(absent, noApplication), Absent, "", "no application of the namespace asks for one"},
		"it cannot be seen":                       {facts(absent, func(f *Facts) { f.Unseen = true }), Unknown, "", "without seeing it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := Explain(tt.facts)
			if e.State != tt.state || e.Verdict != tt.verdict || !strings.Contains(e.Outlook, tt.outlook) {
				t.Errorf("got %s, %q, %q", e.State, e.Verdict, e.Outlook)
			}
		})
	}
}

func TestWaits(t *testing.T) {
	pause := map[string]string{"operatorkit.giantswarm.io/paused": "true"}
	tests := map[string]struct {
		facts Facts
		want  []string
	}{
		"it waits for nothing":                   {facts(), []string{}},
		"it waits for the application's trouble": {facts(notReady, absent), []string{"application cart, which is not ready: InstanceNotFound: namespace shop has no Valkey named valkey-shop-sessions or sessions"}},
		"it waits for the first look":            {facts(absent, func(f *Facts) { f.Apps[0].Status = v1.AivenApplicationStatus{} }), []string{"application cart, which keysmith has not looked at yet"}},
		"it waits for the end of a pause": {
			facts(func(f *Facts) { f.Apps[0].Annotations = pause }),
			[]string{"application cart, whose annotation operatorkit.giantswarm.io/paused stops all work on it"},
		},
		"it waits for the end of the Secret's pause": {
			facts(leaving, noApplication, func(f *Facts) {
				f.Secret.Annotations["operatorkit.giantswarm.io/paused"] = "true"
				f.Secret.Finalizers = nil
			}),
			[]string{"the end of the pause: its annotation operatorkit.giantswarm.io/paused holds the deletion"},
		},
		"it is in the way of another application": {
			facts(func(f *Facts) {
				other := f.Apps[0].DeepCopy()
				other.Name, other.Status = "basket", v1.AivenApplicationStatus{}
				f.Apps = append(f.Apps, *other)
			}),
			[]string{"application basket waits in vain: the Secret belongs to application cart"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Explain(tt.facts).WaitsFor); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestUsersAreToldOnce(t *testing.T) {
	f := facts(func(f *Facts) { f.Secret.Annotations[key.ValkeyUser("old")] = "cart-r-zzzzzzzz" })
	want := []User{
		{Kind: "kafka", Project: "dev", Service: "kafka", Username: user, State: "Ready", RecordedIn: []string{"application cart", "Secret"}},
		{Kind: "valkey", Username: "cart-r-zzzzzzzz", RecordedIn: []string{"Secret"}},
	}
	if diff := cmp.Diff(want, Explain(f).Users); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestUnusedSince(t *testing.T) {
	repeated := unusedEvent("uid", time.Hour)
	repeated.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(now.Add(-time.Minute))}
	deleted := unusedEvent("uid", time.Second)
	deleted.Action = "Delete"
	tests := map[string]struct {
		events []corev1.Event
		want   time.Duration // zero: not told
	}{
		"it is not told without an event":        {nil, 0},
		"it is the last time that it began":      {[]corev1.Event{unusedEvent("uid", 40*time.Second), unusedEvent("uid", time.Hour)}, 40 * time.Second},
		"it is the last time of a series":        {[]corev1.Event{repeated}, time.Minute},
		"it is not that of another of this name": {[]corev1.Event{unusedEvent("another", time.Second)}, 0},
		"it is not the deletion":                 {[]corev1.Event{deleted}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := Explain(facts(unasked, unused, func(f *Facts) { f.Events = tt.events }))
			var got time.Duration
			if e.UnusedSince != nil {
				got = now.Sub(*e.UnusedSince)
			}
			if got != tt.want {
				t.Errorf("got %s ago, want %s", got, tt.want)
			}
		})
	}
	if e := Explain(facts(func(f *Facts) { f.Events = []corev1.Event{unusedEvent("uid", time.Second)} })); e.UnusedSince != nil {
		t.Errorf("a Secret that is used is called unused since %s", e.UnusedSince)
	}
}
