package secret

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

var errBroken = errors.New("broken")

// replace gives a binding a successor.
func replace(b *binding.Binding) *binding.Binding {
	successor := *b
	successor.Username = "next-" + b.Username
	user := *b.User
	user.Name, user.Password = successor.Username, "next-"+b.User.Password
	successor.User, b.Successor = &user, &successor
	return &successor
}

// A set of Kafka and OpenSearch that has its Secret goes through a pass in which something is not as it should be.
func TestPassesThatDoNotEndWell(t *testing.T) {
	type outcome struct {
		Partial   bool   // the steps that follow run
		Unready   string // the reason for which the application is not ready; empty: it is
		Published [2]bool
		Kafka     string // the user in the Secret
		Search    string
		Outgoing  []string
		Written   bool
	}
	all, stays := [2]bool{true, true}, func(o outcome) outcome {
		o.Kafka, o.Search = "kafka-user", "search-user"
		return o
	}
	tests := map[string]struct {
		edit func(s *binding.Set, kafka, search *binding.Binding)
		want outcome
		text string // part of the error
	}{
		"it says nothing where all is well": {
			edit: func(*binding.Set, *binding.Binding, *binding.Binding) {}, want: stays(outcome{Published: all}),
		},
		"it says that a certificate has expired, and publishes it": {
			edit: func(_ *binding.Set, kafka, search *binding.Binding) {
				kafka.User.CertificateExpires, search.User.Password = start, "another"
			},
			want: stays(outcome{Partial: true, Unready: binding.ReasonExpired, Published: all, Written: true}),
			text: "the certificate of user kafka-user of kafka expired at 2030-01-02T03:04:05Z",
		},
		"it does not say so a second earlier": {
			edit: func(_ *binding.Set, kafka, _ *binding.Binding) {
				kafka.User.CertificateExpires = start.Add(time.Second)
			},
			want: stays(outcome{Published: all}),
		},
		"it does not say so of the user who takes over": {
			edit: func(_ *binding.Set, kafka, _ *binding.Binding) {
				kafka.User.CertificateExpires = start
				replace(kafka).User.CertificateExpires = start.AddDate(2, 0, 0)
			},
			want: outcome{Published: all, Kafka: "next-kafka-user", Search: "search-user", Outgoing: []string{"kafka-user"}, Written: true},
		},
		"it says that a certificate has expired whose user cannot be replaced": {
			edit: func(_ *binding.Set, kafka, _ *binding.Binding) {
				kafka.User.CertificateExpires = start
				replace(kafka).Err = errBroken
			},
			want: stays(outcome{Partial: true, Unready: binding.ReasonExpired, Published: all}), text: "rotate: broken",
		},
		"it writes what works beside what fails": {
			edit: func(_ *binding.Set, kafka, search *binding.Binding) {
				kafka.Err, search.User.Password = errBroken, "another"
			},
			want: stays(outcome{Partial: true, Unready: "?", Published: [2]bool{false, true}, Written: true}), text: "broken",
		},
		"it ends where nothing works": {
			edit: func(s *binding.Set, _, _ *binding.Binding) { s.Fail(errBroken) }, want: stays(outcome{Unready: "?"}), text: "broken",
		},
		"it replaces all users in one write": {
			edit: func(_ *binding.Set, kafka, search *binding.Binding) { replace(kafka); replace(search) },
			want: outcome{Published: all, Kafka: "next-kafka-user", Search: "next-search-user", Outgoing: []string{"kafka-user", "search-user"}, Written: true},
		},
		"it replaces none where one of those who take over fails": {
			edit: func(_ *binding.Set, kafka, search *binding.Binding) { replace(kafka); replace(search).Err = errBroken },
			want: stays(outcome{Partial: true, Published: all}), text: "rotate: broken",
		},
		"it replaces none where one of those who take over cannot be published": {
			edit: func(_ *binding.Set, kafka, search *binding.Binding) {
				replace(kafka).User.Key = "garbage"
				replace(search)
			},
			want: stays(outcome{Partial: true, Published: all}), text: "publish the credentials of user next-kafka-user",
		},
		"it replaces the others where a service is off": {
			edit: func(_ *binding.Set, kafka, search *binding.Binding) {
				search.Err = errBroken
				replace(kafka)
				replace(search).Waits = true
			},
			want: outcome{
				Partial: true, Unready: "?", Published: [2]bool{true, false},
				Kafka: "next-kafka-user", Search: "search-user", Outgoing: []string{"kafka-user"}, Written: true,
			},
			text: "broken",
		},
		"it says that an immutable Secret keeps its users": {
			edit: func(s *binding.Set, _, _ *binding.Binding) { s.Due = true },
			want: stays(outcome{Unready: binding.ReasonSecretImmutable, Published: all}), text: "delete it, and it is made again",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{})
			if err := w.EnsureCreated(t.Context(), set(w.kafka(), openSearch())); err != nil {
				t.Fatal(err)
			}
			before := w.read(t)
			s := set(w.kafka(), openSearch())
			s.Current, s.Overlap = before.DeepCopy(), time.Hour
			kafka, search := s.Bindings[0], s.Bindings[1]
			tt.edit(s, kafka, search)
			err := w.EnsureCreated(t.Context(), s)
			after := w.read(t)
			got := outcome{
				Partial: resource.IsPartial(err), Published: [2]bool{s.Bindings[0].Published, s.Bindings[1].Published},
				Kafka: string(after.Data[key.KafkaSchemaRegistryUser]), Search: string(after.Data[key.OpenSearchUsername]),
				Written: after.ResourceVersion != before.ResourceVersion,
			}
			if unready := binding.WithoutAside(err); unready != nil {
				if got.Unready = binding.ReasonOf(unready); got.Unready == "" {
					got.Unready = "?"
				}
			}
			for _, o := range s.Outgoing {
				got.Outgoing = append(got.Outgoing, o.Username)
				if want := start.Add(time.Hour); !o.RetiresAt.Equal(want) {
					t.Errorf("%s retires at %s, want %s", o.Username, o.RetiresAt, want)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
			if (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got the error %v, want %q", err, tt.text)
			}
			if password := string(after.Data[key.KafkaSchemaRegistryPassword]); strings.HasPrefix(password, "next-") != strings.HasPrefix(got.Kafka, "next-") {
				t.Errorf("the Secret holds the password %s of %s", password, got.Kafka)
			}
		})
	}
}
