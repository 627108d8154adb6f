package renewal

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aiven/aiventest"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const user = "shop_cart_01234567_abc"

// renewed is a set with a user whose certificate Aiven has renewed.
func renewed(t *testing.T, a *aiventest.Aiven, published bool) *binding.Set {
	t.Helper()
	a.At(aiventest.Kafka).AddUser(aivensim.User{Username: user})
	a.At(aiventest.Kafka).RenewCertificate(user)
	return &binding.Set{Bindings: []*binding.Binding{read(t, a, published)}}
}

func read(t *testing.T, a *aiventest.Aiven, published bool) *binding.Binding {
	t.Helper()
	service, err := a.Service(t.Context(), aiventest.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := service.User(user)
	return &binding.Binding{Kind: binding.Kafka, Ref: aiventest.Kafka, Username: user, User: &u, Published: published}
}

// calls are the answers to acknowledgements.
func calls(a *aiventest.Aiven) []int {
	var out []int
	for _, e := range a.Sim.Journal() {
		if e.Operation == aivensim.ServiceUserCredentialsModify {
			out = append(out, e.Status)
		}
	}
	return out
}

func TestEnsureCreated(t *testing.T) {
	tests := map[string]struct {
		published, broken bool
		want              []int
	}{
		"it acknowledges once what the Secret holds":                 {published: true, want: []int{200}},
		"it acknowledges nothing that the Secret does not hold":      {},
		"it goes on being tried, and the application stays as it is": {published: true, broken: true, want: []int{503, 503}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := aiventest.New(t)
			set := renewed(t, a, tt.published)
			if tt.broken {
				a.Break(aivensim.ServiceUserCredentialsModify)
			}
			for range 2 {
				err := New(a).EnsureCreated(t.Context(), set)
				if (err != nil) != tt.broken || binding.WithoutAside(err) != nil || err != nil && !resource.IsPartial(err) {
					t.Errorf("got %v", err)
				}
				set.Bindings[0] = read(t, a, tt.published)
			}
			if diff := cmp.Diff(tt.want, calls(a)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What a set failed at before is not forgotten over a failure here.
func TestFailureKeepsThoseOfOtherBindings(t *testing.T) {
	a := aiventest.New(t)
	set := renewed(t, a, true)
	broken := binding.Waiting(binding.ReasonWaiting, 0, "it is being built")
	set.Bindings = append(set.Bindings, &binding.Binding{Kind: binding.Valkey, Err: broken})
	a.Break(aivensim.ServiceUserCredentialsModify)
	err := binding.WithoutAside(New(a).EnsureCreated(t.Context(), set))
	if binding.ReasonOf(err) != binding.ReasonWaiting {
		t.Errorf("got %v, want what failed before", err)
	}
}
