package chaos

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

const shop = "shop"

// right is a state in which everything holds: an application with three services and two Secrets, its users, a foreign user on each service and a foreign
// Secret.
func right() *state {
	sim := aivensim.New(aivensim.Options{KeySize: 2048, ECDSA: true, UserLimit: -1})
	kafka := sim.AddProject(Pools[0]).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
	main := sim.AddProject(Main)
	search := main.AddService("opensearch-shop-search", aivensim.ServiceConfig{Type: aivensim.OpenSearch})
	cache := main.AddService("valkey-shop-cache", aivensim.ServiceConfig{Type: aivensim.Valkey})
	r := &run{sim: sim}
	for _, s := range []*aivensim.Service{kafka, search, cache} {
		r.foreigner(s, jane)
	}
	spec := v1.AivenApplicationSpec{
		Kafka:      &v1.Kafka{Pool: Pools[0], SecretName: "one", ACL: []v1.KafkaACL{{Topic: "t", Access: v1.AccessWrite}}},
		OpenSearch: &v1.OpenSearch{Instance: "search", Access: v1.AccessRead, SecretName: "two"},
		Valkey:     []v1.Valkey{{Instance: "cache", Access: v1.AccessAdmin, SecretName: "two"}},
	}
	model := NewModel(1, 1, 4)
	model.Applications["cart"] = spec
	one, two := managed("one"), managed("two")
	app := v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "cart", Generation: 3}, Spec: spec}
	app.Status.ObservedGeneration = 3
	app.Status.Conditions = []v1.Condition{{Type: v1.ConditionReady, Status: corev1.ConditionTrue, Reason: "Synchronized"}}
	for _, b := range bindings(shop, spec) {
		s, secret := sim.Service(b.Project, b.Service), one
		if b.Secret == "two" {
			secret = two
		}
		u := s.AddUser(aivensim.User{Username: "cart-" + string(b.Kind)})
		name, password, all := b.Keys()
		for _, k := range all {
			secret.Data[k] = []byte("something")
		}
		secret.Data[name], secret.Data[password] = []byte(u.Username), []byte(u.Password)
		if b.Kind == aivensim.Kafka {
			secret.Data["KAFKA_CERTIFICATE"], secret.Data["KAFKA_PRIVATE_KEY"] = []byte(u.AccessCert), []byte(u.AccessKey)
		}
	}
	kafka.AddKafkaACL(aivensim.KafkaACL{Username: "cart-kafka", Topic: "t", Permission: "write"})
	e := entry("cart-opensearch", "_*", "read")
	e.Rules = append(e.Rules, aivensim.OpenSearchRule{Index: "*", Permission: "read"})
	search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{ACLs: append(search.OpenSearchACLs().ACLs, e), Enabled: true})
	cache.SetAccessControl("cart-valkey", aivensim.AccessControl{
		Categories: demand.Categories(v1.AccessAdmin), Commands: []string{"+info", "+cluster|slots"}, Keys: []string{"*"}, Channels: []string{"*"},
	})
	foreign := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "stranger-0", UID: "foreign", ResourceVersion: "7"}}
	return &state{
		now: noon, sim: sim, models: map[string]*Model{shop: model}, foreigners: r.foreigners, excused: map[string]bool{},
		strangers: map[string]stamp{shop + "/stranger-0": stampOf(&foreign)},
		seen: map[string]seen{shop: {
			exists: true, applications: []v1.AivenApplication{app}, secrets: []corev1.Secret{*one, *two, foreign}, uses: map[string][]string{},
		}},
	}
}

// managed is a Secret of cart without data of services.
func managed(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shop, Name: name,
			Labels:      map[string]string{"type": "aivenator.aiven.nais.io", "app": "cart"},
			Annotations: map[string]string{"keysmith.io/owner": "shop/" + name + " cart"},
		},
		Data: map[string][]byte{"AIVEN_CA": []byte("ca"), "AIVEN_SECRET_UPDATED": []byte("now")},
	}
}

// edit changes what is seen of the namespace.
func (s *state) edit(f func(*seen)) {
	is := s.seen[shop]
	f(&is)
	s.seen[shop] = is
}

// replace makes a user of Valkey, with the rights of another one, that was replaced and works until then.
func (s *state) replace(by, name string, until time.Time) {
	cache := s.service("valkey-shop-cache")
	u, _ := cache.User(by)
	cache.AddUser(aivensim.User{Username: name, AccessControl: u.AccessControl})
	s.edit(func(is *seen) {
		secretOf(is, "two").Annotations["keysmith.io/rotation"] = strings.NewReplacer(`"old"`, `"`+name+`"`, "2030-01-01T12:00:00Z", until.Format(time.RFC3339)).Replace(replacedUser)
	})
}

func (s *state) service(name string) *aivensim.Service {
	for _, o := range s.services() {
		if o.Name() == name {
			return o
		}
	}
	panic("no service " + name)
}

// drop deletes the Kafka entries of a user.
func drop(s *aivensim.Service, username string) {
	for _, e := range s.KafkaACLs() {
		if e.Username == username {
			s.DeleteKafkaACL(e.ID)
		}
	}
}

func secretOf(is *seen, name string) *corev1.Secret {
	return &is.secrets[slices.IndexFunc(is.secrets, func(s corev1.Secret) bool { return s.Name == name })]
}

func remove(is *seen, name string) {
	is.secrets = slices.DeleteFunc(is.secrets, func(s corev1.Secret) bool { return s.Name == name })
}

func setReady(is *seen, status corev1.ConditionStatus, reason string) {
	is.applications[0].Status.Conditions = []v1.Condition{{Type: v1.ConditionReady, Status: status, Reason: reason}}
}

func TestCheckComplains(t *testing.T) {
	const kafka, search, cache = "kafka", "opensearch-shop-search", "valkey-shop-cache"
	now := metav1.NewTime(time.Unix(1, 0))
	tests := map[string]struct {
		wrong func(s *state)
		want  []Invariant // none: it does not complain
	}{
		"it does not complain of what is right": {wrong: func(*state) {}},

		"of an application that is gone": {
			wrong: func(s *state) { s.edit(func(is *seen) { is.applications = nil }) }, want: []Invariant{Ready},
		},
		"of an application that is not Ready without a reason": {
			wrong: func(s *state) {
				s.edit(func(is *seen) { setReady(is, corev1.ConditionFalse, "AivenFailure") })
			}, want: []Invariant{Ready},
		},
		"of an application that speaks of an earlier generation": {
			wrong: func(s *state) { s.edit(func(is *seen) { is.applications[0].Generation = 4 }) }, want: []Invariant{Ready},
		},
		"of an application that is Ready although its Secret is another's": {
			wrong: func(s *state) {
				s.edit(func(is *seen) { secretOf(is, "one").Annotations["keysmith.io/owner"] = "shop/one other" })
				s.service(kafka).DeleteUser("cart-kafka")
				drop(s.service(kafka), "cart-kafka")
				s.models[shop].Applications["other"] = v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: ForbiddenPool, SecretName: "one"}}
				s.edit(func(is *seen) {
					other := v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "other"}}
					other.Status.Conditions = []v1.Condition{{Type: v1.ConditionReady, Status: corev1.ConditionFalse, Reason: "PoolNotAllowed"}}
					is.applications = append(is.applications, other)
				})
			}, want: []Invariant{Ready},
		},
		"not of an application that rightly says that its Secret is foreign": {
			wrong: func(s *state) {
				s.models[shop].Applications["cart"].Kafka.SecretName = "stranger-0"
				s.service(kafka).DeleteUser("cart-kafka")
				drop(s.service(kafka), "cart-kafka")
				s.edit(func(is *seen) {
					remove(is, "one")
					setReady(is, corev1.ConditionFalse, "SecretNotOwned")
				})
			},
		},
		"of an application that hangs": {
			wrong: func(s *state) { delete(s.models[shop].Applications, "cart") }, want: []Invariant{NothingHung, Tidy, Tidy},
		},
		"of a namespace that hangs": {
			wrong: func(s *state) {
				s.models[shop].Exists = false
				s.strangers = nil
			}, want: []Invariant{NothingHung},
		},
		"of a Secret that hangs": {
			wrong: func(s *state) {
				s.edit(func(is *seen) { secretOf(is, "one").DeletionTimestamp = &now })
			}, want: []Invariant{NothingHung},
		},
		"of a Secret that is missing": {
			wrong: func(s *state) { s.edit(func(is *seen) { remove(is, "one") }) }, want: []Invariant{Complete, OneSecret},
		},
		"of a key that is missing": {
			wrong: func(s *state) { s.edit(func(is *seen) { delete(secretOf(is, "one").Data, "KAFKA_CA") }) }, want: []Invariant{Complete},
		},
		"of a Secret that nobody uses": {
			wrong: func(s *state) { s.edit(func(is *seen) { is.secrets = append(is.secrets, *managed("three")) }) }, want: []Invariant{Tidy},
		},
		"not of a Secret that a workload uses": {
			wrong: func(s *state) {
				s.edit(func(is *seen) {
					is.secrets = append(is.secrets, *managed("three"))
					is.uses["three"] = []string{"Pod/x"}
				})
			},
		},
		"of a user that is gone": {
			wrong: func(s *state) { s.service(cache).DeleteUser("cart-valkey") }, want: []Invariant{Accepted},
		},
		"of a password that is refused": {
			wrong: func(s *state) { s.service(search).SetPassword("cart-opensearch", "AVNS_another") }, want: []Invariant{Accepted},
		},
		"of a certificate that is refused": {
			wrong: func(s *state) {
				s.edit(func(is *seen) { secretOf(is, "one").Data["KAFKA_PRIVATE_KEY"] = []byte("key") })
			}, want: []Invariant{Accepted},
		},
		"of a topic too many": {
			wrong: func(s *state) {
				s.service(kafka).AddKafkaACL(aivensim.KafkaACL{Username: "cart-kafka", Topic: "u", Permission: "read"})
			}, want: []Invariant{Granted},
		},
		"of a topic that is missing": {
			wrong: func(s *state) { drop(s.service(kafka), "cart-kafka") }, want: []Invariant{Granted},
		},
		"of rules of another level": {
			wrong: func(s *state) {
				doc := s.service(search).OpenSearchACLs()
				doc.ACLs[1].Rules[0].Permission = "admin"
				s.service(search).SetOpenSearchACLs(doc)
			}, want: []Invariant{Granted},
		},
		"of access control that is off": {
			wrong: func(s *state) {
				doc := s.service(search).OpenSearchACLs()
				doc.Enabled = false
				s.service(search).SetOpenSearchACLs(doc)
			}, want: []Invariant{Granted},
		},
		"of rights in Valkey that nobody asked for": {
			wrong: func(s *state) {
				s.service(cache).SetAccessControl("cart-valkey", aivensim.AccessControl{Categories: []string{"+@all"}})
			}, want: []Invariant{Granted},
		},
		"of a user in no Secret": {
			wrong: func(s *state) { s.service(kafka).AddUser(aivensim.User{Username: "leaked"}) }, want: []Invariant{OneSecret},
		},
		"not of a user whose record was destroyed by others": {
			wrong: func(s *state) {
				s.service(kafka).AddUser(aivensim.User{Username: "leaked"})
				s.excused["leaked"] = true
			},
		},
		"not of a user that was replaced, before its time": {
			wrong: func(s *state) { s.replace("cart-valkey", "old", noon.Add(time.Second)) },
		},
		"of a user that was replaced, after its time": {
			wrong: func(s *state) { s.replace("cart-valkey", "old", noon) }, want: []Invariant{Overlap},
		},
		"not of a user that was replaced in a Secret whose application is gone": {
			wrong: func(s *state) {
				s.replace("cart-valkey", "old", noon)
				delete(s.models[shop].Applications, "cart")
				s.edit(func(is *seen) {
					is.applications = nil
					is.uses["one"], is.uses["two"] = []string{"Pod/x"}, []string{"Pod/x"}
				})
			},
		},
		"of a user that was replaced and has other rights than it should have": {
			wrong: func(s *state) {
				s.replace("cart-valkey", "old", noon.Add(time.Second))
				s.service(cache).SetAccessControl("old", aivensim.AccessControl{Categories: []string{"+@all"}})
			}, want: []Invariant{Granted},
		},
		"of a user that is in use and was replaced": {
			wrong: func(s *state) {
				s.replace("cart-valkey", "old", noon.Add(time.Second))
				s.edit(func(is *seen) {
					one := secretOf(is, "one")
					one.Annotations["keysmith.io/rotation"] = strings.ReplaceAll(secretOf(is, "two").Annotations["keysmith.io/rotation"], "old", "cart-valkey")
				})
			}, want: []Invariant{OneSecret},
		},
		"of a user in two Secrets": {
			wrong: func(s *state) {
				s.edit(func(is *seen) {
					other := managed("three")
					other.Data["VALKEY_USERNAME_CACHE"] = []byte("cart-valkey")
					is.secrets = append(is.secrets, *other)
					is.uses["three"] = []string{"Pod/x"}
				})
			}, want: []Invariant{OneSecret},
		},
		"not of a copy of a Secret": {
			wrong: func(s *state) {
				s.edit(func(is *seen) {
					twin := secretOf(is, "two").DeepCopy()
					twin.Name = "copy"
					is.secrets = append(is.secrets, *twin)
				})
			},
		},
		"of a Kafka entry without its user": {
			wrong: func(s *state) {
				s.service(kafka).AddKafkaACL(aivensim.KafkaACL{Username: "gone", Topic: "t", Permission: "read"})
			}, want: []Invariant{NoOrphanACL},
		},
		"of an OpenSearch entry without its user": {
			wrong: func(s *state) { s.service(search).AddOpenSearchACL(entry("gone", "*", "read")) }, want: []Invariant{NoOrphanACL},
		},
		"not of an entry that nobody could see when its user was deleted": {
			wrong: func(s *state) {
				s.service(search).AddOpenSearchACL(entry("gone", "*", "read"))
				s.forgotten = map[string]bool{"gone": true}
			},
		},
		"not of a second writer's entry": {
			wrong: func(s *state) { s.service(search).AddOpenSearchACL(entry(second+"1", "*", "read")) },
		},
		"of a foreign user that is gone": {
			wrong: func(s *state) {
				s.service(cache).DeleteUser(jane)
			}, want: []Invariant{Foreign},
		},
		"of a foreign user with another password": {
			wrong: func(s *state) { s.service(search).SetPassword(jane, "AVNS_another") }, want: []Invariant{Foreign},
		},
		"of a foreign Kafka entry that is gone": {
			wrong: func(s *state) { drop(s.service(kafka), jane) }, want: []Invariant{Foreign},
		},
		"of a foreign OpenSearch entry that was changed": {
			wrong: func(s *state) {
				doc := s.service(search).OpenSearchACLs()
				doc.ACLs[0].Rules = append(doc.ACLs[0].Rules, aivensim.OpenSearchRule{Index: "*", Permission: "read"})
				s.service(search).SetOpenSearchACLs(doc)
			}, want: []Invariant{Foreign},
		},
		"of a foreign Secret that is gone": {
			wrong: func(s *state) { s.edit(func(is *seen) { remove(is, "stranger-0") }) }, want: []Invariant{Foreign},
		},
		"of a foreign Secret that was written": {
			wrong: func(s *state) { s.edit(func(is *seen) { secretOf(is, "stranger-0").ResourceVersion = "8" }) }, want: []Invariant{Foreign},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := right()
			tt.wrong(s)
			var got []Invariant
			found := s.check()
			for _, v := range found {
				got = append(got, v.Invariant)
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("want %q, got %v", tt.want, found)
			}
		})
	}
}

func TestDeletionOfASecretInUse(t *testing.T) {
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	long, short := at.Add(-time.Minute), at.Add(-time.Second)
	tests := map[string]struct {
		d    deletion
		want []string
	}{
		"it complains": {d: deletion{at: at, uses: []use{{by: "Pod/x", since: long}}}, want: []string{"Pod/x"}},
		"it lets the test and a namespace delete":         {d: deletion{at: at, byTest: true, uses: []use{{by: "Pod/x", since: long}}}},
		"it forgives what came just before":               {d: deletion{at: at, uses: []use{{by: "Pod/x", since: short}}}},
		"it does not count what is being deleted":         {d: deletion{at: at, uses: []use{{by: "Pod/x", since: long, going: true}}}},
		"it does not complain where nothing refers to it": {d: deletion{at: at}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.d.check(); !slices.Equal(got, tt.want) {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}

func TestLostUpdatesAreExcused(t *testing.T) {
	now := time.Now()
	lag := note{at: now.Add(-5 * time.Second), text: "fault: " + lagOfDocument}
	tests := map[string]struct {
		notes    []note
		restarts []time.Time
		want     bool
	}{
		"it excuses a new process that reads an old document": {notes: []note{lag}, restarts: []time.Time{now.Add(-4 * time.Second)}, want: true},
		"it does not excuse a process that goes on":           {notes: []note{lag}},
		"it does not excuse where nothing lags":               {restarts: []time.Time{now.Add(-4 * time.Second)}},
		"it does not excuse by what comes later":              {notes: []note{lag}, restarts: []time.Time{now.Add(time.Second)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			h.notes = tt.notes
			if got := h.excuses(now, tt.restarts); got != tt.want {
				t.Errorf("got %t", got)
			}
			h.calls = []aivensim.Entry{{Request: aivensim.Request{Operation: aivensim.ServiceUserDelete, Username: "app"}, Time: now}}
			if got := h.forgotten(tt.restarts)["app"]; got != tt.want {
				t.Errorf("forgotten: got %t", got)
			}
		})
	}
}

func TestShamefulLogs(t *testing.T) {
	for text, want := range map[string]bool{
		`{"message":"user created","user":"app"}`: false,
		`token avnT_chaos_1_A`:                    true,
		`password AVNS_x`:                         true,
		"WARNING: DATA RACE":                      true,
		"panic: runtime error":                    true,
		"-----BEGIN PRIVATE KEY-----":             true,
	} {
		if got := shameful.MatchString(text); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}

func TestHistoryIsThatOfTheObject(t *testing.T) {
	h, sim := newHistory(), right().sim
	h.note(shop, "cart", "changes")
	h.note(shop, "other", "changes as well")
	h.note("elsewhere", "cart", "is another one")
	h.note("", "", "operator A: killed")
	h.calls = []aivensim.Entry{
		{Request: aivensim.Request{Operation: aivensim.ServiceUserDelete, Username: "cart-kafka"}, Time: sim.Now(), Status: 503},
		{Request: aivensim.Request{Operation: aivensim.ServiceUserDelete, Username: "jane"}, Time: sim.Now(), Status: 200},
	}
	v := Violation{Namespace: shop, Objects: []string{"cart"}, Users: []string{"cart-kafka"}}
	got := h.about(v)
	h.note(shop, "one", "appears with users [cart-kafka]")
	h.note(shop, "one", "#3 edit Secret one: its finalizers are gone")
	if orphan := h.about(Violation{Users: []string{"cart-kafka"}}); !strings.Contains(orphan, "its finalizers are gone") {
		t.Errorf("it does not show what became of the Secret that held a user: %s", orphan)
	}
	v.at = time.Now().Add(-time.Hour)
	if early := h.about(v); early != "" {
		t.Errorf("it shows what came after it: %s", early)
	}
	for text, want := range map[string]bool{
		"cart changes": true, "as well": false, "another one": false, "A: killed": true, "cart-kafka": true, "jane": false,
	} {
		if strings.Contains(got, text) != want {
			t.Errorf("%q: want %t in\n%s", text, want, got)
		}
	}
}

func TestReportCounts(t *testing.T) {
	r := Report{
		Seed: 7, Counts: map[string]map[string]int{"operation": {string(DeleteSecret): 3, string(EditSecret): 4}},
		Violations: []Violation{{Invariant: Tidy, Text: "nobody uses it", Namespace: shop}}, Histories: []string{"its history"},
	}
	if got := r.Total("operation"); got != 7 {
		t.Errorf("got %d", got)
	}
	for _, text := range []string{"seed 7", "7 operations", string(DeleteSecret), "nobody uses it", "its history"} {
		if !strings.Contains(r.Print(), text) {
			t.Errorf("%q is not in\n%s", text, r.Print())
		}
	}
	if len(slices.Collect(maps.Keys(r.Counts))) != 1 {
		t.Error("printing changed the report")
	}
}
