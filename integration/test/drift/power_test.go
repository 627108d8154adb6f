//go:build k8srequired

package drift

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// A service that was switched off for long may come back without anything that was made on it. While it is off, nothing is tried; then everything
// is made again under the same names, and reaches the Secrets, once.
func TestPowerCycle(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	s := &scene{
		World: w, search: w.Instance(binding.OpenSearch, "logs", aivensim.ServiceConfig{}),
		cache: w.Instance(binding.Valkey, "cache", aivensim.ServiceConfig{}),
	}
	services := map[string]*aivensim.Service{"kafka": s.Kafka, "search": s.search, "cache": s.cache}
	w.Start()
	w.Apply("kafka", v1.AivenApplicationSpec{Kafka: &v1.Kafka{
		Pool: world.Pool, SecretName: "kafka", ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}},
	}})
	w.Apply("search", v1.AivenApplicationSpec{OpenSearch: &v1.OpenSearch{Instance: "logs", SecretName: "search"}})
	w.Apply("cache", v1.AivenApplicationSpec{Valkey: []v1.Valkey{{Instance: "cache", SecretName: "cache"}}})
	records, secrets := map[string][]v1.Binding{}, map[string]*corev1.Secret{}
	for name := range services {
		records[name] = w.Ready(name).Status.Bindings
		secrets[name] = w.Secret(name)
	}
	rights := func() (*aivensim.OpenSearchACLConfig, []aivensim.KafkaACL, aivensim.AccessControl) {
		document, entries := s.search.OpenSearchACLs(), s.Kafka.KafkaACLs()
		for i := range entries {
			entries[i].ID = ""
		}
		user, _ := s.cache.User(records["cache"][0].Username)
		return &document, entries, user.AccessControl
	}
	document, entries, access := rights()
	w.Restart(quick...) // for two minutes it would believe its own writes more than what it reads

	for _, service := range services {
		service.SetState(aivensim.PowerOff)
	}
	for name := range services {
		w.NotReady(name, binding.ReasonPoweredOff)
	}
	w.Sim.ResetCounters()
	w.Passes(6)
	if n := w.Sim.Counters(); n.Writes != 0 || n.PoweredOff != 0 {
		t.Errorf("%d writes and %d attempts in all on services that are off: %v", n.Writes, n.PoweredOff, n.Requests)
	}
	for name, before := range secrets {
		if now := w.Secret(name); now.ResourceVersion != before.ResourceVersion {
			t.Errorf("Secret %s was written while its service is off:\n%s", name, cmp.Diff(before.ObjectMeta, now.ObjectMeta))
		}
	}
	const failures = "operatorkit_controller_errors_total"
	if n := w.Metric(failures); n != 0 {
		t.Errorf("%v failures were counted, want none", n)
	}

	written := fmt.Sprintf(`aivenator_kubernetes_resources_written{namespace=%q,resource_type="Secret"}`, w.Namespace)
	before := w.Metric(written)
	for name, service := range services {
		service.DeleteUser(records[name][0].Username)
	}
	for _, e := range s.Kafka.KafkaACLs() {
		if e.Username == records["kafka"][0].Username {
			s.Kafka.DeleteKafkaACL(e.ID)
		}
	}
	s.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{})
	for _, service := range services {
		service.SetState(aivensim.Running)
	}
	works := func() error {
		var errs []error
		for name, service := range services {
			user, password := credentials(w.Secret(name))
			if user != records[name][0].Username || !service.Accepts(user, password) {
				errs = append(errs, fmt.Errorf("the credentials of %q in Secret %s do not work", user, name))
			}
		}
		return errors.Join(errs...)
	}
	w.Eventually(func(context.Context) error {
		nowDocument, nowEntries, nowAccess := rights()
		return errors.Join(works(), diff(document, nowDocument), diff(entries, nowEntries), diff(access, nowAccess))
	})
	for name, service := range services {
		if err := diff(records[name], w.Ready(name).Status.Bindings); err != nil {
			t.Errorf("records of %s: %v", name, err)
		}
		w.UsersAre(service, records[name][0].Username)
		w.Event(name, "Normal SecretUpdated")
	}
	w.Passes(3)
	if n := w.Metric(written) - before; int(n) != len(services) {
		t.Errorf("Secrets were written %v times, want once each", n)
	}
	if n := w.Sim.Counters().Requests[aivensim.ServiceUserCreate]; n != len(services) {
		t.Errorf("%d users were made, want one on each service", n)
	}
	if n := w.Metric(failures); n != 0 {
		t.Errorf("%v failures were counted, want none", n)
	}
	w.NoErrorLogged()
}

// credentials are the user and the password in a Secret of one service.
func credentials(s *corev1.Secret) (user, password string) {
	for user, password := range map[string]string{
		key.KafkaSchemaRegistryUser: key.KafkaSchemaRegistryPassword, key.OpenSearchUsername: key.OpenSearchPassword,
		key.Valkey(key.Username, "cache"): key.Valkey(key.Password, "cache"),
	} {
		if u, ok := s.Data[user]; ok {
			return string(u), string(s.Data[password])
		}
	}
	return "", ""
}
