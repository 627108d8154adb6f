package aiven

import (
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestKafkaACL(t *testing.T) {
	f := newFixture(t)
	f.kafka.AddKafkaACL(aivensim.KafkaACL{Username: "app*", Topic: "t", Permission: "read"})
	f.read(t, kafka)
	want := []KafkaACL{{Username: "app", Topic: "t1", Permission: "read"}, {Username: "app", Topic: "t2", Permission: "write"}}
	for i, acl := range want {
		if err := f.AddKafkaACL(t.Context(), kafka, acl); err != nil {
			t.Fatal(err)
		}
		want[i].ID = f.kafka.KafkaACLs()[2+i].ID
	}
	diff(t, want, f.read(t, kafka).KafkaACLOf("app"))

	if err := f.DeleteKafkaACL(t.Context(), kafka, want[0]); err != nil {
		t.Fatal(err)
	}
	isError(t, f.DeleteKafkaACL(t.Context(), kafka, want[0]), ErrNotFound)
	isError(t, f.DeleteKafkaACL(t.Context(), Ref{"dev", "gone"}, want[0]), ErrNotFound)

	// What a read that lags shows: the deleted entry still, the added one not yet.
	f.kafka.DeleteKafkaACL(want[1].ID)
	f.kafka.AddKafkaACL(aivensim.KafkaACL{ID: want[0].ID, Username: "app", Topic: "t1", Permission: "read"})
	for range 2 {
		diff(t, want[1:], f.read(t, kafka).KafkaACLOf("app"))
		f.pass(30 * time.Second)
		f.Invalidate(kafka)
	}
	f.pass(time.Minute)
	f.Invalidate(kafka)
	diff(t, want[:1], f.read(t, kafka).KafkaACLOf("app"))
	diff(t, 1, len(f.read(t, kafka).KafkaACLOf("app*")))
}

func TestKafkaACLThatIsThere(t *testing.T) {
	f := newFixture(t)
	f.read(t, kafka)
	there := f.kafka.AddKafkaACL(aivensim.KafkaACL{Username: "app", Topic: "t", Permission: "read"})
	f.pass(10 * time.Second)
	if err := f.AddKafkaACL(t.Context(), kafka, KafkaACL{Username: "app", Topic: "t", Permission: "read"}); err != nil {
		t.Fatal(err)
	}
	diff(t, []KafkaACL{{there.ID, "app", "t", "read"}}, f.read(t, kafka).KafkaACLOf("app"))
}

// An entry that exists and that reads do not show yet must not be left behind by who deletes its user.
func TestKafkaACLWhoseIDIsNotKnownIsWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.read(t, kafka)
	f.sim.SetLag(aivensim.Lag{KafkaACL: 5 * time.Second})
	acl := KafkaACL{Username: "app", Topic: "t", Permission: "read"}
	isError(t, f.AddKafkaACL(t.Context(), kafka, acl), ErrOutcomeUnknown) // the answer lacks it
	if err := f.AddKafkaACL(t.Context(), kafka, acl); err != nil {        // 409
		t.Fatal(err)
	}
	for range 2 {
		diff(t, []KafkaACL{{unreadID, "app", "t", "read"}}, f.read(t, kafka).KafkaACLOf("app"))
		if err := f.DeleteKafkaACL(t.Context(), kafka, unread(acl)); resource.OutcomeOf(err) != resource.Waiting {
			t.Fatalf("want to wait, got %v", err)
		}
		f.pass(2 * time.Second)
	}
	f.pass(2 * time.Second)
	acl.ID = f.kafka.KafkaACLs()[1].ID
	diff(t, []KafkaACL{acl}, f.read(t, kafka).KafkaACLOf("app"))
	f.sim.SetLag(aivensim.Lag{})
	if err := f.DeleteKafkaACL(t.Context(), kafka, acl); err != nil {
		t.Fatal(err)
	}
	diff(t, 0, len(f.read(t, kafka).KafkaACLOf("app")))
}

func TestKafkaACLWithoutAnswer(t *testing.T) {
	for name, body := range map[string]string{"an empty object": `{}`, "nothing": ``, "a list without it": `{"acl":[]}`} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.read(t, kafka) // a moment ago, which is no reason to trust it
			f.sim.Inject(aivensim.Rule{
				Operation: aivensim.ServiceKafkaACLAdd, Commit: true, Answer: &aivensim.Answer{Status: 200, Body: body},
			})
			err := f.AddKafkaACL(t.Context(), kafka, KafkaACL{Username: "app", Topic: "t", Permission: "read"})
			isError(t, err, ErrOutcomeUnknown)
			diff(t, 1, len(f.read(t, kafka).KafkaACLOf("app"))) // reads anew
		})
	}
}

func TestKafkaACLLimit(t *testing.T) {
	f := newFixture(t)
	f.project.AddService("small", aivensim.ServiceConfig{Type: aivensim.Kafka, KafkaACLLimit: 1})
	if err := f.AddKafkaACL(t.Context(), Ref{"dev", "small"}, KafkaACL{Username: "app", Topic: "t", Permission: "read"}); !terminal(err) {
		t.Errorf("want a terminal error, got %v", err)
	}
}
