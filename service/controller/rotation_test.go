package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestWhenAUserIsReplaced(t *testing.T) {
	tests := map[string]struct {
		schedule
		want time.Duration // from now; zero: never, or unknown
		due  bool
	}{
		"it is never without an interval":               {schedule: schedule{issuedAt: now.Add(-1000 * time.Hour)}},
		"it is an interval after the issue":             {schedule{issuedAt: now.Add(-time.Hour), interval: 24 * time.Hour}, 23 * time.Hour, false},
		"it is in the past after an outage":             {schedule{issuedAt: now.Add(-100 * time.Hour), interval: 24 * time.Hour}, -76 * time.Hour, true},
		"it is at the moment itself":                    {schedule{issuedAt: now.Add(-24 * time.Hour), interval: 24 * time.Hour}, 0, true},
		"it is not known without the issue":             {schedule: schedule{interval: time.Hour}},
		"it is at once on demand":                       {schedule{issuedAt: now, interval: time.Hour, request: "b", answered: "a"}, 0, true},
		"it is at once on demand without an interval":   {schedule{request: "a"}, 0, true},
		"it is not repeated once a request is answered": {schedule: schedule{request: "a", answered: "a"}},
		"it is not asked for by taking a request back":  {schedule: schedule{request: "", answered: "a"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			at := tt.next(now)
			if due := !at.IsZero() && !at.After(now); due != tt.due {
				t.Errorf("due: got %t at %s, want %t", due, at, tt.due)
			}
			if !at.IsZero() && at.Sub(now) != tt.want {
				t.Errorf("got %s from now, want %s", at.Sub(now), tt.want)
			}
		})
	}
}

func TestWhenAReplacedUserGoes(t *testing.T) {
	const ever, half = 1e6 * time.Hour, 30 * time.Minute
	rotating := &binding.Set{Interval: 10 * time.Hour, Overlap: time.Hour}
	still := &binding.Set{Overlap: binding.DefaultOverlap}
	tests := map[string]struct {
		set            *binding.Set
		recorded, want time.Duration // from now
		announced      time.Duration // from now; zero: the Secret does not say
	}{
		"it goes as recorded":                                 {set: rotating, recorded: half, announced: half, want: half},
		"it goes as the status says":                          {set: rotating, recorded: half, want: half},
		"it goes as recorded without rotation":                {set: still, recorded: half, announced: half, want: half},
		"it goes as announced although rotation has ended":    {set: still, recorded: 100 * time.Hour, announced: 100 * time.Hour, want: 100 * time.Hour},
		"it goes as announced whatever the status says":       {set: rotating, recorded: ever, announced: half, want: half},
		"it goes as announced also without rotation":          {set: still, recorded: ever, announced: half, want: half},
		"it goes as the status says whatever the Secret does": {set: still, recorded: half, announced: ever, want: half},
		"it goes earlier where the overlap was shortened":     {set: &binding.Set{Interval: time.Hour, Overlap: time.Minute}, recorded: half, announced: half, want: time.Minute + time.Second - half},
		"it goes as recorded where the overlap was raised":    {set: &binding.Set{Interval: 20 * time.Hour, Overlap: 10 * time.Hour}, recorded: half, announced: half, want: half},
		"it goes an overlap after the issue at the latest":    {set: rotating, recorded: ever, announced: ever, want: half + time.Second},
		"it goes the default after the issue at the latest":   {set: still, recorded: ever, want: 23*time.Hour + half + time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var announced time.Time
			if tt.announced != 0 {
				announced = now.Add(tt.announced)
			}
			if got := end(now.Add(tt.recorded), announced, now.Add(-half), tt.set).Sub(now); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	for overlap, want := range map[time.Duration]time.Duration{
		time.Minute: time.Minute, 10 * time.Minute: time.Minute, 10 * time.Hour: time.Hour, 1000 * time.Hour: 24 * time.Hour,
	} {
		if got := warning(overlap); got != want {
			t.Errorf("a warning comes %s before the end of an overlap of %s, want %s", got, overlap, want)
		}
	}
}

func TestRequestIsShortEnoughToBeRecorded(t *testing.T) {
	of := func(value string) string {
		return request(&v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key.AnnotationRotate: value}}})
	}
	long := strings.Repeat("x", 65)
	if got := of("2026-11-29"); got != "2026-11-29" {
		t.Errorf("got %q", got)
	}
	if a, b := of(long), of(long+"y"); len(a) > 64 || a == b || a != of(long) {
		t.Errorf("got %q and %q", a, b)
	}
}

// The process may end between the write of the Secret and that of the status.
func TestPublicationThatTheStatusHasNotSeen(t *testing.T) {
	old, successor := kafkaBinding("shop_cart_d5334173_old"), kafkaBinding("shop_cart_d5334173_new")
	old.RetiresAt, successor.IssuedAt = now.Add(20*time.Minute), now.Add(-10*time.Minute)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "creds"}}
	s.Annotations = (&binding.Set{Bindings: []*binding.Binding{successor}, Outgoing: []*binding.Binding{old}, Interval: time.Hour}).Records()
	set := &binding.Set{Namespace: "shop", Application: "cart", Secret: "creds", Current: s, Overlap: time.Hour}
	k := &book{records: []v1.Binding{
		{Kind: "kafka", Project: "dev", Service: "kafka", SecretName: "creds", Username: old.Username, State: StateReady},
		{Kind: "kafka", Project: "dev", Service: "kafka", SecretName: "creds", Username: successor.Username, State: StateRotating},
	}}
	k.settle(set, now)
	want := []v1.Binding{
		{Kind: "kafka", Project: "dev", Service: "kafka", SecretName: "creds", Username: old.Username, State: StateRetiring, RetiresAt: stampOf(old.RetiresAt)},
		{Kind: "kafka", Project: "dev", Service: "kafka", SecretName: "creds", Username: successor.Username, State: StateReady, IssuedAt: stampOf(successor.IssuedAt)},
	}
	if diff := cmp.Diff(want, k.records); diff != "" {
		t.Errorf("records (-want +got)\n%s", diff)
	}
}

func kafkaBinding(username string) *binding.Binding {
	return &binding.Binding{Kind: binding.Kafka, Username: username, Ref: aiven.Ref{Project: "dev", Service: "kafka"}}
}
