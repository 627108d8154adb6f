//go:build k8srequired

package drift

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// recheck is the longest time between two looks at an application without a reason, with the settings of production: a quarter of an hour and a fifth.
const recheck = 18 * time.Minute

// offCheck is how often a service that is off is looked at.
const offCheck = 5 * time.Minute

// timed is a scene whose time the test moves, and an operator with the settings of production.
type timed struct {
	*scene
	clock *world.Timed
}

func prepareTimed(t *testing.T) *timed {
	t.Helper()
	t.Parallel()
	w := world.NewTimed(t)
	s := &timed{clock: w, scene: begin(w.World, func() { w.Start() })}
	w.Settle()
	w.Ready("cart")
	w.Advance(2 * recheck) // for two minutes it would believe its own writes more than what it reads
	return s
}

func (s *timed) services() []*aivensim.Service {
	return []*aivensim.Service{s.Kafka, s.search, s.cache}
}

// move gives the services of some kinds other hosts and ports, and returns what their Secret holds then.
func (s *timed) move(kinds ...string) map[string]string {
	out := map[string]string{}
	for _, kind := range kinds {
		switch kind {
		case "kafka":
			s.Kafka.SetAddress("k.example.com", 1000)
		case "opensearch":
			s.search.SetAddress("o.example.com", 2000)
		default:
			s.cache.SetAddress("v.example.com", 3000)
		}
		maps.Copy(out, moved[kind])
	}
	return out
}

// kinds are those of the services of a scene.
var kinds = []string{"kafka", "opensearch", "valkey"}

// resize changes the configuration of all services, but for their types.
func (s *timed) resize(t *testing.T, edit func(*aivensim.ServiceConfig)) {
	t.Helper()
	for _, service := range s.services() {
		c := service.Config()
		edit(&c)
		if err := service.SetConfig(c); err != nil {
			t.Fatal(err)
		}
	}
}

// instances gives the objects of the instances a state.
func (s *timed) instances(state aivensim.State) {
	s.State(binding.OpenSearch, s.search.Name(), string(state))
	s.State(binding.Valkey, s.cache.Name(), string(state))
}

// moved are the data of a Secret whose services have moved, by the kind of service.
var moved = map[string]map[string]string{
	"kafka": {key.KafkaBrokers: "k.example.com:1000", key.KafkaSchemaRegistry: "https://k.example.com:1003"},
	"opensearch": {
		key.OpenSearchURI: "https://o.example.com:2000", key.OpenSearchHost: "o.example.com", key.OpenSearchPort: "2000",
		key.OpenSearchDashboardURI: "https://o.example.com:2001", key.OpenSearchDashboardHost: "o.example.com", key.OpenSearchDashboardPort: "2001",
	},
	"valkey": {
		"VALKEY_URI_CACHE": "valkeys://v.example.com:3000", "VALKEY_HOST_CACHE": "v.example.com", "VALKEY_PORT_CACHE": "3000",
		"REDIS_URI_CACHE": "rediss://v.example.com:3000", "REDIS_HOST_CACHE": "v.example.com", "REDIS_PORT_CACHE": "3000",
		"VALKEY_REPLICA_URI_CACHE": "valkeys://replica.v.example.com:3000", "VALKEY_REPLICA_HOST_CACHE": "replica.v.example.com", "VALKEY_REPLICA_PORT_CACHE": "3000",
	},
}

// smaller are the data of a Secret whose services have lost what they can do without.
var smaller = map[string]string{
	key.KafkaSchemaRegistry: "", key.OpenSearchDashboardURI: "", key.OpenSearchDashboardHost: "", key.OpenSearchDashboardPort: "",
	"VALKEY_REPLICA_URI_CACHE": "", "VALKEY_REPLICA_HOST_CACHE": "", "VALKEY_REPLICA_PORT_CACHE": "",
}

// changed are the data keys that differ, with what they hold now; "": they are gone. The times of change are left out.
func changed(before, after *corev1.Secret) map[string]string {
	out := map[string]string{}
	for _, s := range []*corev1.Secret{before, after} {
		for k := range s.Data {
			if k != key.SecretUpdated && k != key.KafkaSecretUpdated && !bytes.Equal(before.Data[k], after.Data[k]) {
				out[k] = string(after.Data[k])
			}
		}
	}
	return out
}

func TestServicesThatMoveOrAreResizedReachTheSecret(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, s *timed) (want map[string]string) // the data keys that change, "" where they go
		back   func(t *testing.T, s *timed)                          // afterwards; nil: they stay so
	}{
		"they move": {change: func(_ *testing.T, s *timed) map[string]string { return s.move(kinds...) }},
		"they move while they rebalance": {change: func(_ *testing.T, s *timed) map[string]string {
			for _, service := range s.services() {
				service.SetState(aivensim.Rebalancing)
			}
			s.instances(aivensim.Rebalancing)
			return s.move(kinds...)
		}},
		"they lose components, and get them back": {
			change: func(t *testing.T, s *timed) map[string]string {
				s.resize(t, func(c *aivensim.ServiceConfig) { c.SchemaRegistry, c.NoDashboards, c.Replica = false, true, false })
				return smaller
			},
			back: func(t *testing.T, s *timed) {
				s.resize(t, func(c *aivensim.ServiceConfig) { c.SchemaRegistry, c.NoDashboards, c.Replica = true, false, true })
			},
		},
		"they get more addresses, in another order": {change: func(t *testing.T, s *timed) map[string]string {
			s.resize(t, func(c *aivensim.ServiceConfig) {
				c.Routes, c.KafkaREST, c.SASL = []string{"public", "privatelink"}, true, true
			})
			for _, service := range s.services() {
				service.ShuffleComponents()
			}
			return map[string]string{}
		}},
		"they get more nodes, each with an address": {change: func(_ *testing.T, s *timed) map[string]string {
			for _, service := range s.services() {
				list := service.Components()
				for i, c := range slices.Clone(list) {
					c.Host, c.Usage = "node"+strconv.Itoa(i)+"."+c.Host, "disaster_recovery"
					list = append([]aivensim.Component{c}, list...)
				}
				service.SetComponents(list)
			}
			return map[string]string{}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := prepareTimed(t)
			before, users := s.Secret("creds"), s.users()
			history := s.History("cart")
			want := tc.change(t, s)
			s.clock.Settle()
			s.clock.Advance(recheck)
			after := s.Secret("creds")
			if diff := cmp.Diff(want, changed(before, after)); diff != "" {
				t.Errorf("data that changed (-want +got):\n%s", diff)
			}
			if len(want) == 0 && after.ResourceVersion != before.ResourceVersion {
				t.Error("the Secret was written though nothing in it changes")
			}
			s.clock.Advance(2 * recheck)
			if s.Secret("creds").ResourceVersion != after.ResourceVersion {
				t.Error("the Secret was written more than once")
			}
			if tc.back != nil {
				tc.back(t, s)
				s.clock.Advance(recheck)
				if diff := changed(before, s.Secret("creds")); len(diff) > 0 {
					t.Errorf("not as it was: %v", diff)
				}
			}
			for _, app := range history() {
				for _, c := range app.Status.Conditions {
					if c.Type == v1.ConditionReady && c.Status != corev1.ConditionTrue {
						t.Errorf("the application was not ready: %s %s", c.Reason, c.Message)
					}
				}
			}
			if err := errors.Join(s.works(), diff(users, s.users())); err != nil {
				t.Error(err)
			}
			s.NoErrorLogged()
		})
	}
}

// While a service is rebuilt, or has no addresses, the Secret keeps those that it had. The others go on.
func TestAServiceThatMovesWhileItIsNotThere(t *testing.T) {
	set := func(s *timed, state aivensim.State, of ...string) {
		for i, service := range s.services() {
			if slices.Contains(of, kinds[i]) {
				service.SetState(state)
			}
		}
	}
	instances := kinds[1:]
	for name, tc := range map[string]struct {
		waits       []string // the kinds of those that move
		reason      string   // why they cannot be used
		leave, back func(s *timed)
		within      time.Duration // after they are back
	}{
		"Kafka is rebuilt": {
			kinds[:1], binding.ReasonWaiting,
			func(s *timed) { set(s, aivensim.Rebuilding, "kafka") }, func(s *timed) { set(s, aivensim.Running, "kafka") }, 30 * time.Second,
		},
		"Kafka has no addresses": {
			kinds[:1], binding.ReasonWaiting, func(s *timed) { s.Kafka.SetComponents(nil) }, func(*timed) {}, 30 * time.Second,
		},
		"instances are rebuilt, and their objects say so": {
			instances, binding.ReasonWaiting,
			func(s *timed) { set(s, aivensim.Rebuilding, instances...); s.instances(aivensim.Rebuilding) },
			func(s *timed) { set(s, aivensim.Running, instances...); s.instances(aivensim.Running) }, time.Second,
		},
		"instances are rebuilt, and their objects do not say so": {
			instances, binding.ReasonWaiting,
			func(s *timed) { set(s, aivensim.Rebuilding, instances...) }, func(s *timed) { set(s, aivensim.Running, instances...) }, 30 * time.Second,
		},
		"all are off, and the objects of instances say so": {
			kinds, binding.ReasonPoweredOff,
			func(s *timed) { set(s, aivensim.PowerOff, kinds...); s.instances(aivensim.PowerOff) },
			func(s *timed) { set(s, aivensim.Running, kinds...); s.instances(aivensim.Running) }, offCheck,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := prepareTimed(t)
			before := s.Secret("creds")
			tc.leave(s)
			s.clock.Settle()
			s.clock.Advance(recheck)
			app := s.NotReady("cart", tc.reason)
			for _, b := range app.Status.Bindings {
				state := "Ready"
				if slices.Contains(tc.waits, b.Kind) {
					state = "Waiting"
				}
				if b.State != state || (b.Reason == tc.reason) != (state == "Waiting") {
					t.Errorf("binding of %s: %s %s, want %s", b.Kind, b.State, b.Reason, state)
				}
			}
			if s.Secret("creds").ResourceVersion != before.ResourceVersion {
				t.Error("the Secret was written while the service is not there")
			}
			want := s.move(tc.waits...)
			tc.back(s)
			s.clock.Settle()
			s.clock.Advance(tc.within)
			s.Ready("cart")
			if diff := cmp.Diff(want, changed(before, s.Secret("creds"))); diff != "" {
				t.Errorf("data that changed (-want +got):\n%s", diff)
			}
			if err := s.works(); err != nil {
				t.Error(err)
			}
			s.NoErrorLogged()
		})
	}
}

// Services that were off for an hour come back with all that was made on them, or without.
func TestServicesThatWereOffForAnHour(t *testing.T) {
	for name, lost := range map[string]bool{"with their users": false, "without their users": true} {
		t.Run(name, func(t *testing.T) {
			s := prepareTimed(t)
			before, users := s.Secret("creds"), s.users()
			entries, document := len(s.Kafka.KafkaACLs()), s.search.OpenSearchACLs()
			for _, service := range s.services() {
				service.SetState(aivensim.PowerOff)
			}
			s.clock.Advance(recheck)
			app := s.NotReady("cart", binding.ReasonPoweredOff)
			for _, b := range app.Status.Bindings {
				if b.State != "Waiting" || b.Reason != binding.ReasonPoweredOff || !strings.Contains(b.Message, b.Service+" is powered off") {
					t.Errorf("the binding does not say that its service is off: %+v", b)
				}
			}
			for _, c := range app.Status.Conditions {
				if c.Type == v1.ConditionAivenFailure || c.Type == v1.ConditionLocalFailure {
					t.Errorf("a service that is off shows as a failure: %+v", c)
				}
			}
			s.Sim.ResetCounters()
			s.clock.Advance(time.Hour)
			calls := s.Sim.Counters()
			if most := int(time.Hour/offCheck) + 1; calls.Writes > 0 || calls.PoweredOff > 0 || calls.Requests[aivensim.ServiceGet] > len(s.services())*most {
				t.Errorf("calls in an hour in which all is off: %+v, want no write, and %d reads of each service at most", calls.Requests, most)
			}
			if n := s.NotReady("cart", binding.ReasonPoweredOff).ResourceVersion; n != app.ResourceVersion {
				t.Error("the application was written again and again")
			}
			if s.Secret("creds").ResourceVersion != before.ResourceVersion {
				t.Error("the Secret was written while its services are off")
			}

			if lost {
				for _, service := range s.services() {
					for _, u := range world.Users(service) {
						service.DeleteUser(u)
					}
				}
				for _, e := range s.Kafka.KafkaACLs() {
					if e.ID != "default" {
						s.Kafka.DeleteKafkaACL(e.ID)
					}
				}
				s.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{})
			}
			for _, service := range s.services() {
				service.SetState(aivensim.Running)
			}
			s.clock.Advance(offCheck)
			s.Ready("cart")
			if err := errors.Join(s.works(), diff(users, s.users()), diff(document, s.search.OpenSearchACLs()), diff(entries, len(s.Kafka.KafkaACLs()))); err != nil {
				t.Error(err)
			}
			after := s.Secret("creds")
			var want []string
			if lost {
				want = []string{
					key.KafkaCertificate, key.KafkaPrivateKey, key.KafkaSchemaRegistryPassword, key.OpenSearchPassword, "REDIS_PASSWORD_CACHE", "VALKEY_PASSWORD_CACHE",
					key.KafkaKeyStore,
				}
			}
			if got := slices.Sorted(maps.Keys(changed(before, after))); !slices.Equal(want, got) {
				t.Errorf("data that changed: %q, want %q", got, want)
			}
			s.Stores(after)
			for _, state := range []struct {
				secret *corev1.Secret
				opens  bool
			}{{before, !lost}, {after, true}} {
				data := state.secret.Data
				if opens := s.Kafka.AcceptsCertificate(users[key.KafkaSchemaRegistryUser], string(data[key.KafkaCertificate]), string(data[key.KafkaPrivateKey])); opens != state.opens {
					t.Errorf("a pair opens Kafka: %t, want %t", opens, state.opens)
				}
			}
			s.clock.Advance(3 * recheck)
			if s.Secret("creds").ResourceVersion != after.ResourceVersion {
				t.Error("the Secret was written once more")
			}
			made := 0
			if lost {
				made = 1
			}
			for _, service := range s.services() {
				if n := s.Sim.Counters().Requests[aivensim.ServiceUserCreate]; n != made*len(s.services()) || len(world.Users(service)) != 1 {
					t.Errorf("%d users were made in all, of %s there are %q", n, service.Name(), world.Users(service))
				}
			}
			events, err := s.Events(t.Context(), "cart")
			if err != nil {
				t.Fatal(err)
			}
			if n := len(slices.DeleteFunc(events, func(e string) bool { return !strings.Contains(e, "SecretUpdated") })); n != made {
				t.Errorf("the owner was told %d times that the Secret changed, want %d: %s", n, made, fmt.Sprint(events))
			}
			if n := s.Metric("operatorkit_controller_errors_total"); n != 0 {
				t.Errorf("%v failures were counted, want none", n)
			}
			s.NoErrorLogged()
		})
	}
}
