//go:build k8srequired

package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/crash"
	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// calm is how long an operator makes no call when it has most likely nothing more to do.
const calm = 300 * time.Millisecond

// wanted is what an application asks for.
type wanted struct {
	topics []v1.KafkaACL
	uses   []use
}

// use is one service in one Secret.
type use struct {
	kind             binding.Kind
	instance, secret string
	access           v1.Access
}

// service is the short name of the service.
func (u use) service() string {
	if u.kind == binding.Kafka {
		return "kafka"
	}
	return u.instance
}

// spec is that of the application of a round.
func (w *wanted) spec(r *round) v1.AivenApplicationSpec {
	var spec v1.AivenApplicationSpec
	for _, u := range w.uses {
		switch u.kind {
		case binding.Kafka:
			spec.Kafka = &v1.Kafka{Pool: r.named("dev"), SecretName: r.named(u.secret), ACL: w.topics}
		case binding.OpenSearch:
			spec.OpenSearch = &v1.OpenSearch{Instance: r.named(u.instance), SecretName: r.named(u.secret), Access: u.access}
		case binding.Valkey:
			spec.Valkey = append(spec.Valkey, v1.Valkey{Instance: r.named(u.instance), SecretName: r.named(u.secret), Access: u.access})
		}
	}
	return spec
}

// secrets are the names of the Secrets, sorted.
func (w *wanted) secrets(r *round) []string {
	names := map[string]bool{}
	for _, u := range w.uses {
		names[r.named(u.secret)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// stage is a world with an operator that can be stopped at a call. Rounds on it come one after the other.
type stage struct {
	*world.World
	gate   *crash.Gate
	rounds int
	pools  []string // one for each round
}

// newStage makes a stage for some rounds, on which an operator runs.
func newStage(t *testing.T, rounds int) *stage {
	t.Helper()
	s := &stage{World: world.New(t)}
	s.gate = crash.New(t, env.Config(t), s.Sim)
	t.Cleanup(func() { // before the gate goes
		if s.Operator != nil {
			s.Kill()
		}
	})
	for i := range rounds {
		s.pools = append(s.pools, (&round{number: i}).named("dev"))
	}
	s.start()
	return s
}

// start starts an operator behind the gate.
func (s *stage) start() {
	o := s.Options("--kubernetes-address="+s.gate.Kubernetes, "--aiven-url="+s.gate.Aiven, "--projects="+strings.Join(s.pools, ","),
		"--janitor-grace=100ms", "--janitor-period=1s", "--metrics-address=0", "--health-address=0")
	o.Kubeconfig = ""
	s.Run(o)
}

// round is one application on a stage, with services and names of its own, so that the operator knows nothing of them from rounds before.
type round struct {
	*stage
	t        *testing.T
	number   int
	app      string
	services map[string]*aivensim.Service // by their short names
}

func (s *stage) newRound(t *testing.T) *round {
	t.Helper()
	r := &round{stage: s, t: t, number: s.rounds}
	s.rounds++
	r.app = r.named("cart")
	r.services = map[string]*aivensim.Service{
		"kafka": s.Sim.AddProject(r.named("dev")).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka}),
	}
	for _, u := range first.uses[1:] {
		r.services[u.instance] = s.Instance(u.kind, r.named(u.instance), aivensim.ServiceConfig{})
	}
	s.Sim.ResetCounters()
	return r
}

// suffix ends the names of the round.
func (r *round) suffix() string { return fmt.Sprintf("-r%d", r.number) }

func (r *round) named(name string) string { return name + r.suffix() }

// idle tells whether the operator has nothing more to do.
func (r *round) idle() error {
	if idle := r.gate.Idle(); idle < calm {
		return fmt.Errorf("the last call ended %s ago", idle)
	}
	return nil
}

// nothing tells what is left of the application.
func (r *round) nothing(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.services)) {
		errs = append(errs, r.serviceHas(name), r.rightsAre(name, nil, use{}))
	}
	if err := errors.Join(errs...); err != nil {
		return err // the API server need not be asked
	}
	if err := r.Get(ctx, r.Key(r.app), &v1.AivenApplication{}); !apierrors.IsNotFound(err) {
		return errors.Join(err, errors.New("the application is still there"))
	}
	_, err := r.secrets(ctx, nil)
	return err
}

// holds tells what is missing from, or too much in, what an application asks for, where some credentials of before work on. It returns user name and
// password by the service, as old has them.
func (r *round) holds(ctx context.Context, w *wanted, old map[string]string) (map[string]string, error) {
	is := &v1.AivenApplication{}
	if err := r.Get(ctx, r.Key(r.app), is); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(is.Status.Conditions, func(c v1.Condition) bool { return c.Type == v1.ConditionReady })
	if i < 0 || is.Status.Conditions[i].Status != corev1.ConditionTrue || is.Status.ObservedGeneration != is.Generation {
		return nil, fmt.Errorf("application (generation %d): want it ready, got %+v", is.Generation, is.Status)
	}
	secrets, err := r.secrets(ctx, w.secrets(r))
	if err != nil {
		return nil, err
	}
	var errs []error
	credentials := map[string]string{}
	var records []v1.Binding
	for _, u := range w.uses {
		secret := secrets[r.named(u.secret)]
		if !secret.DeletionTimestamp.IsZero() {
			errs = append(errs, fmt.Errorf("Secret %s is being deleted", u.secret))
		}
		username, password := r.login(u, secret)
		service := r.services[u.service()]
		credentials[u.service()] = username + " " + password
		if !service.Accepts(username, password) {
			errs = append(errs, fmt.Errorf("%s refuses user %q of Secret %s", u.service(), username, u.secret))
		}
		if u.kind == binding.Kafka && !service.AcceptsCertificate(username, string(secret.Data[key.KafkaCertificate]), string(secret.Data[key.KafkaPrivateKey])) {
			errs = append(errs, fmt.Errorf("kafka refuses the certificate of user %q", username))
		}
		users := []string{username}
		if name, word, ok := strings.Cut(old[u.service()], " "); ok {
			users = append(users, name)
			if !service.Accepts(name, word) {
				errs = append(errs, fmt.Errorf("%s refuses user %q, which was replaced", u.service(), name))
			}
		}
		slices.Sort(users)
		errs = append(errs, r.serviceHas(u.service(), users...), r.rightsAre(u.service(), w.topics, u, users...))
		project, instance := world.Main, r.named(u.instance)
		if u.kind == binding.Kafka {
			project, instance = r.named("dev"), ""
		}
		records = append(records, v1.Binding{
			Kind: string(u.kind), Instance: instance, Project: project, Service: service.Name(), SecretName: r.named(u.secret), Username: username, State: "Ready",
		})
		for _, name := range users {
			if name != username {
				record := records[len(records)-1]
				record.Username, record.State = name, "Retiring"
				records = append(records, record)
			}
		}
	}
	for name := range r.services {
		if _, ok := credentials[name]; !ok {
			errs = append(errs, r.serviceHas(name), r.rightsAre(name, nil, use{}))
		}
	}
	// The order is that of the Secrets, and at which attempt a name was found is nobody's business.
	order := cmpopts.SortSlices(func(a, b v1.Binding) bool { return a.Service+a.Username < b.Service+b.Username })
	if diff := cmp.Diff(records, is.Status.Bindings, order,
		cmpopts.IgnoreFields(v1.Binding{}, "Attempt", "IssuedAt", "RetiresAt", "RotationRequest")); diff != "" {
		errs = append(errs, fmt.Errorf("status.bindings (-want +got):\n%s", diff))
	}
	return credentials, errors.Join(errs...)
}

func (r *round) login(u use, secret *corev1.Secret) (username, password string) {
	name, word := key.KafkaSchemaRegistryUser, key.KafkaSchemaRegistryPassword
	switch u.kind {
	case binding.OpenSearch:
		name, word = "OPEN_SEARCH_USERNAME", "OPEN_SEARCH_PASSWORD"
	case binding.Valkey:
		name, word = "VALKEY_USERNAME_"+key.Variable(r.named(u.instance)), "VALKEY_PASSWORD_"+key.Variable(r.named(u.instance))
	}
	return string(secret.Data[name]), string(secret.Data[word])
}

// secrets reads all Secrets of the namespace, and compares their names.
func (r *round) secrets(ctx context.Context, want []string) (map[string]*corev1.Secret, error) {
	var list corev1.SecretList
	if err := r.List(ctx, &list, client.InNamespace(r.Namespace)); err != nil {
		return nil, err
	}
	secrets := map[string]*corev1.Secret{}
	for i := range list.Items {
		secrets[list.Items[i].Name] = &list.Items[i]
	}
	return secrets, differ("Secrets", want, slices.Sorted(maps.Keys(secrets)))
}

// serviceHas compares the users of a service.
func (r *round) serviceHas(name string, want ...string) error {
	return differ("users of "+name, want, world.Users(r.services[name]))
}

// rightsAre compares all that anybody may do on a service: these users the same, and nobody else anything.
func (r *round) rightsAre(name string, topics []v1.KafkaACL, u use, usernames ...string) error {
	service := r.services[name]
	var want, got []string
	switch service.Type() {
	case aivensim.Kafka:
		for _, username := range usernames {
			for _, a := range topics {
				want = append(want, username+" "+a.Topic+" "+string(a.Access))
			}
		}
		for _, e := range service.KafkaACLs()[1:] { // the first entry of a service is its own
			got = append(got, e.Username+" "+e.Topic+" "+e.Permission)
		}
	case aivensim.OpenSearch:
		for _, username := range usernames {
			want = append(want, username+" * "+string(u.access), username+" _* "+string(u.access))
		}
		for _, e := range service.OpenSearchACLs().ACLs {
			for _, rule := range e.Rules {
				got = append(got, e.Username+" "+rule.Index+" "+rule.Permission)
			}
		}
	case aivensim.Valkey:
		for _, username := range usernames {
			for _, c := range append([]string{"-@all", "+@connection", "+@scripting", "+@pubsub", "+@transaction"}, map[v1.Access][]string{
				v1.AccessRead: {"+@read"}, v1.AccessWrite: {"+@write"}, v1.AccessReadWrite: {"+@write", "+@read"},
				v1.AccessAdmin: {"+@admin", "+@write", "+@read"},
			}[u.access]...) {
				want = append(want, username+" "+c)
			}
			user, _ := service.User(username)
			for _, c := range user.AccessControl.Categories {
				got = append(got, username+" "+c)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	return differ("rights on "+name, want, got)
}

func differ(what string, want, got []string) error {
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return nil
}

// innocent fails the test if operators did something that none must ever do.
func (r *round) innocent(again bool) {
	r.t.Helper()
	c := r.Sim.Counters()
	if c.BlindRepeats > 0 && !again {
		r.t.Errorf("%d POSTs were repeated blindly", c.BlindRepeats)
	}
	for what, n := range map[string]int{
		"rules of other writers were lost": c.LostUpdates, "rules came back": c.RevivedACLs,
		"built-in users were to be deleted": c.BuiltInDeletes, "users or entries were to be made that were there": c.DuplicateCreates,
	} {
		if n > 0 {
			r.t.Errorf("%d %s", n, what)
		}
	}
}
