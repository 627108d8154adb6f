package binding

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestWithoutAside(t *testing.T) {
	broken, full := errors.New("broken"), Aside(errors.New("full"))
	tests := map[string]struct {
		err  error
		want string
	}{
		"it leaves nothing of nothing":                {nil, ""},
		"it leaves what has nothing to do with it":    {fmt.Errorf("try: %w", errors.Join(broken, broken)), "try: broken\nbroken"},
		"it leaves nothing of a rotation that failed": {full, ""},
		"it looks into what is wrapped and joined":    {resource.Partial(fmt.Errorf("try: %w", errors.Join(full, broken, nil))), "broken"},
		"it leaves nothing where nothing else failed": {resource.Partial(errors.Join(full, fmt.Errorf("try: %w", full))), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := WithoutAside(tt.err); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFailedSuccessorLeavesTheSetAlive(t *testing.T) {
	set := &Set{Bindings: []*Binding{{Kind: Kafka, Username: "old"}}}
	set.Bindings[0].Successor = &Binding{Kind: Kafka, Username: "new"}
	err := set.Each(t.Context(), "step", func(_ context.Context, b *Binding) error {
		if b.Username == "new" {
			return errors.New("no room")
		}
		return nil
	}, Kafka)
	if !resource.IsPartial(err) || WithoutAside(err) != nil || len(set.Alive()) != 1 {
		t.Errorf("got %v, want a partial error of the rotation alone", err)
	}
}

func TestRotatedSetHoldsTheSuccessors(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 1, time.UTC)
	a, b, c := &Binding{Kind: Kafka, Username: "a"}, &Binding{Kind: Valkey, Username: "b"}, &Binding{Kind: OpenSearch, Username: "c"}
	a.Successor, b.Successor = &Binding{Kind: Kafka, Username: "a2"}, &Binding{Kind: Valkey, Username: "b2", Waits: true}
	set := &Set{Bindings: []*Binding{a, b, c}, Outgoing: []*Binding{{Kind: OpenSearch, Username: "c0", RetiresAt: now}}, Overlap: time.Hour}
	next := set.Rotated(now)
	got := map[string]string{}
	for _, o := range next.Bindings {
		got[o.Username] = o.IssuedAt.Format(time.TimeOnly)
	}
	for _, o := range next.Outgoing {
		got[o.Username] = "until " + o.RetiresAt.Format(time.TimeOnly)
	}
	want := map[string]string{"a2": "12:00:00", "a": "until 13:00:01", "b": "00:00:00", "c": "00:00:00", "c0": "until 12:00:00"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(set.Outgoing) != 1 || set.Bindings[0] != a || a.IsOutgoing() {
		t.Error("the set itself is another one now")
	}
}

// A Secret whose users are never replaced has no trace of rotation.
func TestWhatIsNotRotatedHasNoRecordOfIt(t *testing.T) {
	tests := map[string]struct {
		rotation *v1.Rotation
		interval time.Duration
		overlap  time.Duration
		marked   bool
	}{
		"it has none without rotation":                     {nil, 0, DefaultOverlap, false},
		"it has none where the interval cannot be read":    {&v1.Rotation{Interval: "soon"}, 0, DefaultOverlap, false},
		"it takes half of the interval for the overlap":    {&v1.Rotation{Interval: "24h"}, 24 * time.Hour, 12 * time.Hour, true},
		"it takes the overlap that the application names":  {&v1.Rotation{Interval: "24h", Overlap: "1h"}, 24 * time.Hour, time.Hour, true},
		"it has none where the overlap is no shorter":      {&v1.Rotation{Interval: "1h", Overlap: "1h"}, 0, DefaultOverlap, false},
		"it has none where the interval is a second short": {&v1.Rotation{Interval: "59s"}, 0, DefaultOverlap, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			set := FromApplication(app(v1.AivenApplicationSpec{Rotation: tt.rotation, Kafka: &v1.Kafka{Pool: "dev", SecretName: "creds"}}), settings)[0]
			set.Bindings[0].Username = "user"
			if tt.marked {
				set.Bindings[0].IssuedAt = time.Unix(1, 0)
			}
			_, recorded := set.Records()[key.AnnotationRotation]
			_, marked := set.Annotations[key.AnnotationReloader]
			if set.Interval != tt.interval || set.Overlap != tt.overlap || recorded != tt.marked || marked != tt.marked {
				t.Errorf("got interval %s, overlap %s, recorded %t, marked %t", set.Interval, set.Overlap, recorded, marked)
			}
		})
	}
}
