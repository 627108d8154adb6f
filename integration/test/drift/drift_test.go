//go:build k8srequired

// Package drift shows that what changes at Aiven behind the operator's back is repaired by the next pass, or reaches the Secret.
package drift

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestMain(m *testing.M) { world.Run(m) }

// quick makes the operator read services and look at applications often.
var quick = []string{"--snapshot-age=1s", "--resync=2s"}

// scene is an application with credentials on one service of each kind, in the Secret "creds". The operator has been started anew since it made
// them: for two minutes it would believe its own writes more than what it reads.
type scene struct {
	*world.World
	search, cache *aivensim.Service
}

func prepare(t *testing.T) *scene {
	w := world.New(t)
	s := begin(w, func() { w.Start() })
	w.Ready("cart")
	w.Restart(quick...)
	return s
}

// begin makes the scene, and the application in it once the operator runs.
func begin(w *world.World, start func()) *scene {
	s := &scene{
		World: w, search: w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{}),
		cache: w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{Replica: true}),
	}
	start()
	w.Apply("cart", v1.AivenApplicationSpec{
		SecretName: "creds",
		Kafka:      &v1.Kafka{Pool: world.Pool, ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}},
		OpenSearch: &v1.OpenSearch{Instance: "logs"},
		Valkey:     []v1.Valkey{{Instance: "cache"}},
	})
	return s
}

// users are the user names by the data key that holds them.
func (s *scene) users() map[string]string {
	secret := s.Secret("creds")
	out := map[string]string{}
	for _, k := range []string{key.KafkaSchemaRegistryUser, key.OpenSearchUsername, key.Valkey(key.Username, "cache")} {
		out[k] = string(secret.Data[k])
	}
	return out
}

// works tells why credentials of the Secret do not work.
func (s *scene) works() error {
	secret := s.Secret("creds")
	for _, l := range []struct {
		project, service, user, password string
	}{
		{world.Pool, s.Kafka.Name(), key.KafkaSchemaRegistryUser, key.KafkaSchemaRegistryPassword},
		{world.Main, s.search.Name(), key.OpenSearchUsername, key.OpenSearchPassword},
		{world.Main, s.cache.Name(), key.Valkey(key.Username, "cache"), key.Valkey(key.Password, "cache")},
		{world.Main, s.cache.Name(), key.Redis(key.Username, "cache"), key.Redis(key.Password, "cache")},
	} {
		if !s.Sim.Authenticate(l.project, l.service, string(secret.Data[l.user]), string(secret.Data[l.password])) {
			return fmt.Errorf("%s and %s do not work", l.user, l.password)
		}
	}
	return nil
}

func TestDriftIsRepaired(t *testing.T) {
	// Each changes something, and returns what is so once it is repaired.
	tests := map[string]func(s *scene, users map[string]string) (repaired func() error){
		"a deleted Kafka user": func(s *scene, users map[string]string) func() error {
			s.Kafka.DeleteUser(users[key.KafkaSchemaRegistryUser])
			return func() error { return nil }
		},
		"a deleted OpenSearch user": func(s *scene, users map[string]string) func() error {
			s.search.DeleteUser(users[key.OpenSearchUsername])
			return func() error { return nil }
		},
		"a deleted Valkey user": func(s *scene, users map[string]string) func() error {
			name := users[key.Valkey(key.Username, "cache")]
			before, _ := s.cache.User(name)
			s.cache.DeleteUser(name)
			return func() error {
				after, _ := s.cache.User(name)
				return diff(before.AccessControl, after.AccessControl)
			}
		},
		"all users, as after a power cycle": func(s *scene, users map[string]string) func() error {
			s.Kafka.DeleteUser(users[key.KafkaSchemaRegistryUser])
			s.search.DeleteUser(users[key.OpenSearchUsername])
			s.cache.DeleteUser(users[key.Valkey(key.Username, "cache")])
			return func() error { return nil }
		},
		"a changed Kafka password": func(s *scene, users map[string]string) func() error {
			s.Kafka.SetPassword(users[key.KafkaSchemaRegistryUser], "another-password")
			return func() error { return nil }
		},
		"a changed OpenSearch password": func(s *scene, users map[string]string) func() error {
			s.search.SetPassword(users[key.OpenSearchUsername], "another-password")
			return func() error { return nil }
		},
		"a changed Valkey password": func(s *scene, users map[string]string) func() error {
			s.cache.SetPassword(users[key.Valkey(key.Username, "cache")], "another-password")
			return func() error { return nil }
		},
		"Valkey rights that were raised": func(s *scene, users map[string]string) func() error {
			name := users[key.Valkey(key.Username, "cache")]
			before, _ := s.cache.User(name)
			s.cache.SetAccessControl(name, aivensim.AccessControl{Categories: []string{"+@all"}, Keys: []string{"*"}, Channels: []string{"*"}})
			return func() error {
				after, _ := s.cache.User(name)
				return diff(before, after)
			}
		},
		"an OpenSearch rule that was removed": func(s *scene, _ map[string]string) func() error {
			before := s.search.OpenSearchACLs()
			changed := s.search.OpenSearchACLs()
			changed.ACLs[0].Rules = changed.ACLs[0].Rules[:1]
			s.search.SetOpenSearchACLs(changed)
			return func() error { return diff(before, s.search.OpenSearchACLs()) }
		},
		"OpenSearch rules switched off": func(s *scene, _ map[string]string) func() error {
			before := s.search.OpenSearchACLs()
			changed := s.search.OpenSearchACLs()
			changed.Enabled = false
			s.search.SetOpenSearchACLs(changed)
			return func() error { return diff(before, s.search.OpenSearchACLs()) }
		},
		"a Kafka ACL entry that was removed": func(s *scene, _ map[string]string) func() error {
			before := s.Kafka.KafkaACLs()
			for _, e := range before {
				if e.Topic == "orders" {
					s.Kafka.DeleteKafkaACL(e.ID)
				}
			}
			return func() error {
				after := s.Kafka.KafkaACLs()
				for _, list := range [][]aivensim.KafkaACL{before, after} {
					for i := range list {
						list[i].ID = ""
					}
				}
				return diff(before, after)
			}
		},
		"services that moved": func(s *scene, _ map[string]string) func() error {
			s.Kafka.SetAddress("k.example.com", 1000)
			s.search.SetAddress("o.example.com", 2000)
			s.cache.SetAddress("v.example.com", 3000)
			return func() error {
				data := s.Secret("creds").Data
				for k, want := range map[string]string{
					key.KafkaBrokers: "k.example.com:1", key.KafkaSchemaRegistry: "https://k.example.com:1", key.OpenSearchURI: "https://o.example.com:2",
					key.OpenSearchHost: "o.example.com", key.Valkey(key.URI, "cache"): "valkeys://v.example.com:3",
					key.Valkey(key.ReplicaURI, "cache"): "valkeys://replica.v.example.com:3", key.Redis(key.URI, "cache"): "rediss://v.example.com:3",
				} {
					if got := string(data[k]); !strings.HasPrefix(got, want) {
						return fmt.Errorf("%s is %q, want it to begin with %s", k, got, want)
					}
				}
				return nil
			}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t)
			s.Touch("cart", 1)
			users := s.users()
			repaired := change(s, users)
			s.Eventually(func(context.Context) error { return errors.Join(s.works(), repaired()) })
			s.Ready("cart")
			if err := diff(users, s.users()); err != nil {
				t.Errorf("user names changed: %v", err)
			}
			for _, service := range []*aivensim.Service{s.Kafka, s.search, s.cache} {
				if all := world.Users(service); len(all) != 1 {
					t.Errorf("users of %s: %v, want one", service.Name(), all)
				}
			}
		})
	}
}

func TestRenewedCertificateReachesTheSecret(t *testing.T) {
	t.Parallel()
	s := prepare(t)
	before, name := s.Secret("creds"), s.users()[key.KafkaSchemaRegistryUser]
	s.Kafka.RenewCertificate(name)
	var after *corev1.Secret
	s.Eventually(func(context.Context) error {
		after = s.Secret("creds")
		user, _ := s.Kafka.User(name)
		return diff(strings.TrimSpace(user.AccessCert), strings.TrimSpace(string(after.Data[key.KafkaCertificate])))
	})
	s.Stores(after)
	if err := diff(before.Data[key.KafkaSchemaRegistryPassword], after.Data[key.KafkaSchemaRegistryPassword]); err != nil {
		t.Errorf("the password changed with the certificate")
	}
	if err := s.works(); err != nil {
		t.Error(err)
	}
}

func TestRotatedCAReachesTheSecret(t *testing.T) {
	t.Parallel()
	s := prepare(t)
	before := s.Secret("creds")
	pool, main := s.Sim.Project(world.Pool), s.Sim.Project(world.Main)
	pool.RotateCA()
	main.RotateCA()
	var after *corev1.Secret
	published := func(context.Context) error {
		after = s.Secret("creds")
		return errors.Join(
			diff(pool.CA(), string(after.Data[key.KafkaCA])),
			diff(main.CA(), string(after.Data[key.AivenCA])))
	}
	s.Eventually(published)
	s.Stores(after)
	if n := strings.Count(string(after.Data[key.KafkaCA]), "BEGIN CERTIFICATE"); n != 2 {
		t.Errorf("%d CAs are published, want the old one and the new one", n)
	}
	if err := diff(before.Data[key.KafkaCertificate], after.Data[key.KafkaCertificate]); err != nil {
		t.Errorf("the certificate changed with the CA")
	}
	if slices.Equal(before.Data[key.KafkaTrustStore], after.Data[key.KafkaTrustStore]) {
		t.Errorf("the trust store did not change with the CA")
	}

	pool.RetireCAs()
	main.RetireCAs()
	s.Eventually(published)
	s.Stores(after)
}

func diff(want, got any) error {
	if d := cmp.Diff(want, got); d != "" {
		return errors.New("(-want +got):\n" + d)
	}
	return nil
}
