package serviceuser

import (
	"context"
	"errors"
	"testing"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/aiven/aiventest"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const user = "shop_cart_01234567_abc"

func kafka(resumed bool) *binding.Set {
	return &binding.Set{Bindings: []*binding.Binding{{Kind: binding.Kafka, Ref: aiventest.Kafka, Username: user, Resumed: resumed}}}
}

func TestEnsureCreated(t *testing.T) {
	tests := map[string]struct {
		before  func(t *testing.T, a *aiventest.Aiven)
		set     *binding.Set
		want    resource.Outcome
		posts   int
		is      error
		unknown bool // the credentials are not known
	}{
		"it creates a user": {set: kafka(false), want: resource.Done, posts: 1},
		"it leaves alone a user of ours that is there": {
			before: func(_ *testing.T, a *aiventest.Aiven) {
				a.At(aiventest.Kafka).AddUser(aivensim.User{Username: user})
			},
			set: kafka(true), want: resource.Done,
		},
		"it creates a user of ours again that was lost": {set: kafka(true), want: resource.Done, posts: 1},
		"it leaves a stranger's user to him": {
			before: func(_ *testing.T, a *aiventest.Aiven) {
				a.At(aiventest.Kafka).AddUser(aivensim.User{Username: user})
			},
			set: kafka(false), want: resource.Waiting, is: ErrTaken, unknown: true,
		},
		"it notices a stranger who was faster": {
			before: func(t *testing.T, a *aiventest.Aiven) {
				if _, err := a.Service(t.Context(), aiventest.Kafka); err != nil { // the snapshot is older than the stranger
					t.Fatal(err)
				}
				a.At(aiventest.Kafka).AddUser(aivensim.User{Username: user})
			},
			set: kafka(false), want: resource.Waiting, is: ErrTaken, posts: 1, unknown: true,
		},
		"it waits for credentials that are not there yet": {
			before: func(_ *testing.T, a *aiventest.Aiven) {
				a.At(aiventest.Kafka).AddUser(aivensim.User{Username: user})
				a.At(aiventest.Kafka).OverridePassword(user, "somebody's own")
			},
			set: kafka(true), want: resource.Waiting, unknown: true,
		},
		"it waits for a certificate that is not there yet": {
			before: func(t *testing.T, a *aiventest.Aiven) {
				if err := a.At(aiventest.Kafka).SetConfig(aivensim.ServiceConfig{Type: aivensim.Kafka, NoCertificate: true}); err != nil {
					t.Fatal(err)
				}
			},
			set: kafka(false), want: resource.Waiting, posts: 1, unknown: true,
		},
		"it says that the API is down": {
			before: func(_ *testing.T, a *aiventest.Aiven) { a.Break(aivensim.ServiceUserCreate) },
			set:    kafka(false), want: resource.Failed, posts: 1, unknown: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			if tt.before != nil {
				tt.before(t, a)
			}
			err := New(a).EnsureCreated(t.Context(), tt.set)
			if got := resource.OutcomeOf(err); got != tt.want || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %s (%v), want %s (%v)", got, err, tt.want, tt.is)
			}
			if got := a.Sim.Counters().Requests[aivensim.ServiceUserCreate]; got != tt.posts {
				t.Errorf("got %d creations, want %d", got, tt.posts)
			}
			b := tt.set.Bindings[0]
			if tt.unknown {
				if b.User != nil {
					t.Error("credentials were handed on")
				}
				return
			}
			if !a.Sim.Authenticate(aiventest.Project, aiventest.Kafka.Service, user, b.User.Password) || b.User.Certificate == "" || b.User.Key == "" {
				t.Error("the credentials that were handed on do not work")
			}
		})
	}
}

func TestACreationWithoutAnswerIsResumed(t *testing.T) {
	a := aiventest.New(t)
	a.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Reset: true, Commit: true, Count: 1})
	set := kafka(false)
	r := New(a)
	if err := r.EnsureCreated(t.Context(), set); !errors.Is(err, aiven.ErrOutcomeUnknown) {
		t.Fatalf("got %v, want an open outcome", err)
	}
	if err := r.EnsureCreated(t.Context(), set); err != nil {
		t.Fatalf("the second try: %v", err)
	}
	if got := a.Sim.Counters().Requests[aivensim.ServiceUserCreate]; got != 1 {
		t.Errorf("got %d creations, want 1", got)
	}
	if !a.Sim.Authenticate(aiventest.Project, aiventest.Kafka.Service, user, set.Bindings[0].User.Password) {
		t.Error("the password does not work")
	}
}

func TestEnsureDeleted(t *testing.T) {
	tests := map[string]struct {
		before func(a *aiventest.Aiven)
		ref    aiven.Ref
		want   resource.Outcome
		left   bool
	}{
		"it deletes the user":                 {ref: aiventest.Kafka, want: resource.Done},
		"it is content with one that is gone": {before: func(a *aiventest.Aiven) { a.At(aiventest.Kafka).DeleteUser(user) }, ref: aiventest.Kafka, want: resource.Done},
		"it is content with a service that is gone": {
			before: func(a *aiventest.Aiven) { a.Sim.Project(aiventest.Project).RemoveService(aiventest.Kafka.Service) },
			ref:    aiventest.Kafka, want: resource.Done,
		},
		"it is content where there never was a service": {ref: aiven.Ref{Project: aiventest.Project}, want: resource.Done, left: true},
		"it says that the API is down": {
			before: func(a *aiventest.Aiven) { a.Break(aivensim.ServiceUserDelete) },
			ref:    aiventest.Kafka, want: resource.Failed, left: true,
		},
		"it does not take a refusal for success": {
			before: func(a *aiventest.Aiven) {
				a.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserDelete, Answer: aivensim.Error(403, "", "Not a project member")})
			},
			ref: aiventest.Kafka, want: resource.Waiting, left: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			service := a.At(aiventest.Kafka)
			service.AddUser(aivensim.User{Username: user})
			if tt.before != nil {
				tt.before(a)
			}
			set := kafka(true)
			set.Bindings[0].Ref = tt.ref
			err := New(a).EnsureDeleted(context.Background(), set)
			if got := resource.OutcomeOf(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
			if a.At(aiventest.Kafka) == nil {
				return
			}
			if _, left := service.User(user); left != tt.left {
				t.Errorf("the user is left: %t, want %t", left, tt.left)
			}
		})
	}
}
