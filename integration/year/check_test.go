package year

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/credstore"
)

// scene is an application with a Kafka and an OpenSearch user in one Secret, and two Pods that use it, in which everything holds.
type scene struct {
	*ledger
	look
	clock         *clocktesting.FakePassiveClock
	kafka, search *aivensim.Service
	secret        *corev1.Secret
	late          *pod
}

const team = "shop"

func newScene(t *testing.T) *scene {
	t.Helper()
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	sim := aivensim.New(aivensim.Options{Clock: clk, KeySize: 2048, ECDSA: true})
	s := &scene{ledger: newLedger(sim, recheck), clock: clk}
	s.kafka = sim.AddProject(pool).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	s.search = sim.AddProject(main).AddService("opensearch-"+team+"-"+search, aivensim.ServiceConfig{Type: aivensim.OpenSearch})
	s.now = clk.Now()
	for _, p := range sim.Projects() {
		cas, err := certificates([]byte(p.CA()))
		if err != nil {
			t.Fatal(err)
		}
		server, err := serverOf(p, s.now)
		if err != nil {
			t.Fatal(err)
		}
		s.trust[p.Name()] = &trust{latest: cas[0], server: server}
	}
	a := newApplication(team, 1)
	s.app, s.is = a, &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: a.name}, Spec: a.spec}
	s.is.Status.Conditions = []v1.Condition{{Type: v1.ConditionReady, Status: corev1.ConditionTrue}}
	s.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: a.bindings[0].Secret}}
	s.secrets = map[string]*corev1.Secret{s.secret.Name: s.secret}
	s.publish(t, "first")
	s.late = &pod{app: a, secret: s.secret.Name, late: true}
	s.pods = []*pod{{app: a, secret: s.secret.Name}, s.late}
	return s
}

// publish makes users with all that is theirs, and puts them into a new version of the Secret.
func (s *scene) publish(t *testing.T, suffix string) {
	t.Helper()
	data := map[string][]byte{"AIVEN_CA": []byte(s.sim.Project(main).CA()), "AIVEN_SECRET_UPDATED": []byte("now")}
	s.is.Status.Bindings = nil
	for _, b := range s.app.bindings {
		u := s.sim.Service(b.Project, b.Service).AddUser(aivensim.User{Username: string(b.Kind) + "-" + suffix})
		s.grant(b, u.Username)
		nameKey, passwordKey, all := b.Keys()
		for _, k := range all {
			data[k] = []byte("something")
		}
		data[nameKey], data[passwordKey] = []byte(u.Username), []byte(u.Password)
		if b.Kind == aivensim.Kafka {
			s.material(t, data, u)
		}
		s.is.Status.Bindings = append(s.is.Status.Bindings, v1.Binding{
			Kind: string(b.Kind), Project: b.Project, Service: b.Service, Username: u.Username, RotatesAt: &metav1.Time{Time: s.clock.Now().Add(week)},
		})
	}
	s.secret.Data, s.secret.ResourceVersion = data, suffix
}

func (s *scene) material(t *testing.T, data map[string][]byte, u aivensim.User) {
	t.Helper()
	bundle, password := s.sim.Project(pool).CA(), "changeme"
	pair, err := credstore.ParsePair(u.AccessCert, u.AccessKey)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := credstore.ParseCA(bundle)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := credstore.Modern.KeyStore(pair, ca, password)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := credstore.Modern.TrustStore(ca, password)
	if err != nil {
		t.Fatal(err)
	}
	data["KAFKA_CERTIFICATE"], data["KAFKA_PRIVATE_KEY"], data["KAFKA_CA"] = []byte(u.AccessCert), []byte(u.AccessKey), []byte(bundle)
	data["KAFKA_CREDSTORE_PASSWORD"], data["client.keystore.p12"], data["client.truststore.jks"] = []byte(password), keys, trusted
}

// grant gives a user the rights that the application asks for.
func (s *scene) grant(b demand.Bound, user string) {
	if b.Kind == aivensim.Kafka {
		s.kafka.AddKafkaACL(aivensim.KafkaACL{Username: user, Topic: "orders", Permission: "readwrite"})
		s.kafka.AddKafkaACL(aivensim.KafkaACL{Username: user, Topic: "parcels-*", Permission: "read"})
		return
	}
	doc := s.search.OpenSearchACLs()
	doc.Enabled = true
	doc.ACLs = append(doc.ACLs, aivensim.OpenSearchACL{Username: user, Rules: []aivensim.OpenSearchRule{
		{Index: "_*", Permission: "read"}, {Index: "*", Permission: "read"},
	}})
	s.search.SetOpenSearchACLs(doc)
}

// revoke takes a user's rights.
func (s *scene) revoke(user string) {
	for _, e := range s.kafka.KafkaACLs() {
		if e.Username == user {
			s.kafka.DeleteKafkaACL(e.ID)
		}
	}
	doc := s.search.OpenSearchACLs()
	doc.ACLs = slices.DeleteFunc(doc.ACLs, func(e aivensim.OpenSearchACL) bool { return e.Username == user })
	s.search.SetOpenSearchACLs(doc)
}

// remove takes a user's rights, and the user.
func (s *scene) remove(user string) {
	s.revoke(user)
	s.kafka.DeleteUser(user)
	s.search.DeleteUser(user)
}

// rotate replaces both users, and announces the end of the first ones for a day later.
func (s *scene) rotate(t *testing.T) {
	t.Helper()
	s.publish(t, "second")
	for _, b := range s.app.bindings {
		s.is.Status.Bindings = append(s.is.Status.Bindings, v1.Binding{
			Project: b.Project, Service: b.Service, Username: string(b.Kind) + "-first", RetiresAt: &metav1.Time{Time: s.clock.Now().Add(day)},
		})
	}
}

// retire takes the first users away, and what is announced about them.
func (s *scene) retire() {
	s.remove("kafka-first")
	s.remove("opensearch-first")
	s.is.Status.Bindings = s.is.Status.Bindings[:len(s.app.bindings)]
}

// pass moves the time on.
func (s *scene) pass(d time.Duration) {
	s.clock.SetTime(s.clock.Now().Add(d))
	s.now = s.clock.Now()
	for i := range s.is.Status.Bindings { // what is announced goes with it
		if r := &s.is.Status.Bindings[i]; r.RotatesAt != nil {
			r.RotatesAt = &metav1.Time{Time: s.now.Add(week)}
		}
	}
}

// see makes a check of everything.
func (s *scene) see() {
	s.check(s.look, true)
	s.census([]look{s.look})
}

// renew renews the certificate of the first Kafka user, as Aiven does.
func (s *scene) renew() {
	s.kafka.RenewCertificate("kafka-first")
	s.renewed[pool+"/kafka/kafka-first"] = s.now
}

// rotateCA rotates the CA of Kafka's project: services switch after ten days, the former one is retired after twenty.
func (s *scene) rotateCA(t *testing.T) {
	t.Helper()
	p, ca := s.sim.Project(pool), s.trust[pool]
	p.RotateCA()
	cas, err := certificates([]byte(p.CA()))
	if err != nil {
		t.Fatal(err)
	}
	ca.former, ca.latest, ca.since, ca.switches, ca.retires = ca.latest, cas[0], s.now, s.now.Add(10*day), s.now.Add(20*day)
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(t *testing.T, s *scene) // after everything was seen to hold once
		want []string                     // parts of the violations, in any order; none: it finds nothing
	}{
		"it finds nothing where everything holds": {then: func(_ *testing.T, s *scene) { s.pass(day) }},
		"it finds nothing wrong in a rotation": {then: func(t *testing.T, s *scene) {
			s.rotate(t)
			s.see()
			s.pass(day - time.Second)
			s.see()
			s.retire()
			s.pass(time.Second)
		}},
		"it finds a replaced user that is refused early": {
			then: func(t *testing.T, s *scene) {
				s.rotate(t)
				s.pass(day - time.Second)
				s.remove("opensearch-first")
			},
			want: []string{
				"user opensearch-first: its password on opensearch-shop-logs is refused before its end, which is announced for 2026-01-02T12:00:00Z",
				"user opensearch-first: its password on opensearch-shop-logs is refused before its end",
				"user opensearch-first: the user does not exist, and the status of shop/app-01 has it",
			},
		},
		"it finds a replaced user that goes on working": {
			then: func(t *testing.T, s *scene) {
				s.rotate(t)
				s.see()
				s.pass(day)
			},
			want: []string{
				"user kafka-first: its password on kafka is still accepted", "user kafka-first: its certificate on kafka is still accepted",
				"user opensearch-first: its password on opensearch-shop-logs is still accepted",
				"user kafka-first: no Secret holds the user", "user opensearch-first: no Secret holds the user",
			},
		},
		"it excuses that in an outage": {then: func(t *testing.T, s *scene) {
			s.rotate(t)
			s.see()
			s.pass(day)
			s.outage = true
		}},
		"it excuses no refusal in an outage": {
			then: func(_ *testing.T, s *scene) {
				s.outage = true
				s.search.SetPassword("opensearch-first", "another-one")
			},
			want: []string{
				"Secret shop/app-01-one, user opensearch-first: its password on opensearch-shop-logs is refused",
				"Pod of shop/app-01 with version first of Secret app-01-one, user opensearch-first: its password",
				"Pod of shop/app-01 with version first of Secret app-01-one, user opensearch-first: its password",
			},
		},
		"it finds a user that was replaced without a word": {
			then: func(t *testing.T, s *scene) {
				s.rotate(t)
				s.is.Status.Bindings = s.is.Status.Bindings[:2]
				s.pods = s.pods[1:]
			},
			want: []string{
				"user kafka-first: its password on kafka is of a user that was replaced", "user kafka-first: its certificate on kafka is of a user that was",
				"user opensearch-first: its password on opensearch-shop-logs is of a user that was replaced, and no moment",
				"user kafka-first: no Secret holds the user", "user opensearch-first: no Secret holds the user",
			},
		},
		"it finds an announced moment that moves": {
			then: func(t *testing.T, s *scene) {
				s.rotate(t)
				s.see()
				s.is.Status.Bindings[2].RetiresAt = &metav1.Time{Time: s.now.Add(time.Hour)}
			},
			want: []string{"user kafka-first: it was to go at"},
		},
		"it finds a rotation that is overdue": {
			then: func(_ *testing.T, s *scene) { s.is.Status.Bindings[0].RotatesAt = &metav1.Time{Time: s.now} },
			want: []string{"user kafka-first: it was to be replaced at"},
		},
		"it finds an application that is not ready": {
			then: func(_ *testing.T, s *scene) { s.is.Status.Conditions[0].Status = corev1.ConditionFalse },
			want: []string{"it is not ready"},
		},
		"it finds an application that is gone": {
			then: func(_ *testing.T, s *scene) { s.is = nil },
			want: []string{"the application is gone"},
		},
		"it finds a Secret that is missing": {
			then: func(_ *testing.T, s *scene) { s.secrets = nil },
			want: []string{"the Secret is missing", "kafka-first: no Secret holds", "opensearch-first: no Secret holds"},
		},
		"it finds a value that is missing": {
			then: func(_ *testing.T, s *scene) { delete(s.secret.Data, "KAFKA_BROKERS") },
			want: []string{"KAFKA_BROKERS is missing"},
		},
		"it finds rights that are missing": {
			then: func(_ *testing.T, s *scene) { s.revoke("kafka-first") },
			want: []string{`user kafka-first: on kafka: topics []`},
		},
		"it finds a user that nobody wants": {
			then: func(_ *testing.T, s *scene) { s.kafka.AddUser(aivensim.User{Username: "left-over"}) },
			want: []string{"dev/kafka, user left-over: no Secret holds the user"},
		},
		"it finds rights of a user that is gone": {
			then: func(_ *testing.T, s *scene) { s.grant(s.app.bindings[1], "left-over") },
			want: []string{"user left-over: the user is gone, and its rights are still there"},
		},
		"it leaves the operator the time of a re-check for a renewal": {then: func(_ *testing.T, s *scene) {
			s.renew()
			s.pass(recheck)
		}},
		"it finds a renewal that does not reach the Secret": {
			then: func(_ *testing.T, s *scene) {
				s.renew()
				s.pass(recheck + time.Second)
			},
			want: []string{"it does not hold the user's certificate", "the renewal of 2026-01-01T12:00:00Z is not acknowledged"},
		},
		"it finds a certificate that has ended": {
			then: func(_ *testing.T, s *scene) { s.pass(life) },
			want: []string{"Secret shop/app-01-one, user kafka-first: its certificate on kafka is refused"},
		},
		"it finds CAs that do not reach the Secret": {
			then: func(t *testing.T, s *scene) {
				s.rotateCA(t)
				s.pass(recheck + time.Second)
			},
			want: []string{"it does not hold the CAs of project dev"},
		},
		"it finds clients that do not trust a server before that is announced": {
			then: func(t *testing.T, s *scene) {
				s.rotateCA(t)
				var err error
				if s.trust[pool].server, err = serverOf(s.sim.Project(pool), s.now); err != nil {
					t.Fatal(err)
				}
				s.pods = s.pods[1:]
			},
			want: []string{
				"Secret shop/app-01-one, user kafka-first: its CAs for the server's certificate on kafka is refused",
				"a late Pod of shop/app-01 with version first of Secret app-01-one, user kafka-first: its CAs for the server's certificate on kafka is refused before",
			},
		},
		"it finds a key store with another pair": {
			then: func(t *testing.T, s *scene) {
				other := map[string][]byte{}
				s.material(t, other, s.kafka.AddUser(aivensim.User{Username: "kafka-other"}))
				s.kafka.DeleteUser("kafka-other")
				s.secret.Data["client.keystore.p12"], s.secret.ResourceVersion = other["client.keystore.p12"], "changed"
			},
			want: []string{"client.keystore.p12 holds another pair"},
		},
		"it finds a trust store that cannot be opened": {
			then: func(_ *testing.T, s *scene) {
				s.secret.Data["client.truststore.jks"], s.secret.ResourceVersion = []byte("nonsense"), "changed"
			},
			want: []string{"client.truststore.jks: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.see() // Pods start
			s.see()
			if len(s.violations) > 0 {
				t.Fatalf("it finds what does not hold where everything does: %v", s.violations)
			}
			tc.then(t, s)
			s.see()
			found := s.violations
			for _, want := range tc.want {
				i := slices.IndexFunc(found, func(v Violation) bool { return strings.Contains(v.String(), want) })
				if i < 0 {
					t.Errorf("it does not find %q", want)
					continue
				}
				found = slices.Delete(slices.Clone(found), i, i+1)
			}
			for _, v := range found {
				t.Errorf("it finds %s", v)
			}
		})
	}
}

func TestPodsGoOnWithTheirCopies(t *testing.T) {
	s := newScene(t)
	s.see()
	s.rotate(t)
	s.see()
	if got := []string{s.pods[0].version, s.late.version}; got[0] != "second" || got[1] != "first" {
		t.Errorf("Pods have versions %q after the rotation", got)
	}
	s.retire()
	s.pass(day)
	s.see()
	if s.late.version != "second" {
		t.Error("the late Pod goes on with what is refused")
	}
	if s.Counts.Refused != 3 || s.Counts.Rotations != 2 || s.Counts.PodStarts != 4 {
		t.Errorf("it counts %+v", s.Counts)
	}
	if len(s.violations) > 0 {
		t.Errorf("it finds %v", s.violations)
	}
}

// republish puts the Kafka user's material, as it is now, into a new version of the Secret.
func (s *scene) republish(t *testing.T, version string) {
	t.Helper()
	u, _ := s.kafka.User("kafka-first")
	s.secret.Data, s.secret.ResourceVersion = maps.Clone(s.secret.Data), version // Pods have the former
	s.material(t, s.secret.Data, u)
}

func TestCopiesEndWithTheirCAsAsAnnounced(t *testing.T) {
	s := newScene(t)
	s.see()
	s.rotateCA(t)
	s.republish(t, "both CAs")
	s.pass(10*day - time.Second)
	s.see()
	if s.late.version != "first" {
		t.Errorf("the late Pod has version %q before its CAs end", s.late.version)
	}
	var err error
	s.pass(time.Second)
	if s.trust[pool].server, err = serverOf(s.sim.Project(pool), s.now); err != nil {
		t.Fatal(err)
	}
	s.see()
	if s.late.version != "both CAs" {
		t.Errorf("the late Pod has version %q after its CAs have ended", s.late.version)
	}
	s.pass(8 * day)
	s.renew()
	s.republish(t, "renewed")
	s.pass(2*day - time.Second)
	s.see()
	if s.late.version != "both CAs" {
		t.Errorf("the late Pod has version %q before its certificate ends", s.late.version)
	}
	s.pass(time.Second)
	s.sim.Project(pool).RetireCAs()
	s.trust[pool].since = s.now
	s.see()
	if s.late.version != "renewed" {
		t.Errorf("the late Pod has version %q after its certificate has ended", s.late.version)
	}
	if s.Counts.Refused != 2 || len(s.violations) > 0 {
		t.Errorf("%d logins were refused as announced, want 2; it finds %v", s.Counts.Refused, s.violations)
	}
}

func TestNothingIsLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		left func(s *scene)
		want string
	}{
		"it finds nothing where all is gone": {left: func(*scene) {}},
		"it finds an application": {
			left: func(s *scene) { s.is = &v1.AivenApplication{} },
			want: "shop/app-01: the application was deleted",
		},
		"it finds a Secret": {
			left: func(s *scene) { s.secrets = map[string]*corev1.Secret{s.secret.Name: s.secret} },
			want: "shop/app-01-one: the application was deleted",
		},
		"it finds a user":           {left: func(s *scene) { s.search.AddUser(aivensim.User{Username: "left-over"}) }, want: "left-over: no Secret holds"},
		"it finds rights on Kafka":  {left: func(s *scene) { s.grant(s.app.bindings[0], "left-over") }, want: "left-over: the user is gone, and its rights"},
		"it finds rights elsewhere": {left: func(s *scene) { s.grant(s.app.bindings[1], "left-over") }, want: "left-over: the user is gone, and its rights"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.remove("kafka-first")
			s.remove("opensearch-first")
			s.is, s.secrets = nil, nil
			tc.left(s)
			s.nothing([]look{s.look})
			switch {
			case tc.want == "" && len(s.violations) > 0:
				t.Errorf("it finds %v", s.violations)
			case tc.want != "" && (len(s.violations) != 1 || !strings.Contains(s.violations[0].String(), tc.want)):
				t.Errorf("it finds %v, want %q", s.violations, tc.want)
			}
		})
	}
}
