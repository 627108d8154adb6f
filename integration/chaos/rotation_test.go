package chaos

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// replacedUser is the record of a user of Valkey that was replaced, whose time comes at noon of 1 January 2030.
const replacedUser = `{"outgoing":[{"kind":"valkey","instance":"cache","project":"main","service":"valkey-shop-cache","user":"old","retiresAt":"2030-01-01T12:00:00Z"}]}`

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// holding is a Secret with a user of Valkey, and a record of rotation if it is not empty.
func holding(user, password, record string) *corev1.Secret {
	s := managed("two")
	s.UID = "two"
	s.Data["VALKEY_USERNAME_CACHE"], s.Data["VALKEY_PASSWORD_CACHE"] = []byte(user), []byte(password)
	if record != "" {
		s.Annotations["keysmith.io/rotation"] = record
	}
	return s
}

func TestWritesOfSecretsThatReplaceUsers(t *testing.T) {
	const kafkaUser = `{"outgoing":[{"kind":"kafka","project":"dev","user":"old","retiresAt":"2030-01-01T12:00:00Z"}]}`
	ofPool := func(pool, user, rest, record string) *corev1.Secret {
		s := managed("one")
		for _, k := range material(demand.Bound{Kind: aivensim.Kafka}) {
			s.Data[k] = []byte(rest)
		}
		s.Data["KAFKA_SCHEMA_REGISTRY_USER"] = []byte(user)
		s.Annotations["kafka.aiven.nais.io/pool"], s.Annotations["keysmith.io/rotation"] = pool, record
		return s
	}
	tests := map[string]struct {
		before, after   *corev1.Secret
		earlier         bool // the user was replaced earlier, in another Secret
		halves, dropped []string
	}{
		"it is content where nothing is replaced":     {before: holding("old", "1", ""), after: holding("old", "1", "")},
		"it is content where all is replaced at once": {before: holding("old", "1", ""), after: holding("new", "2", replacedUser)},
		"it does not count what was replaced before":  {before: holding("new", "2", replacedUser), after: holding("new", "2", replacedUser)},
		"it misses a new password":                    {before: holding("old", "1", ""), after: holding("new", "1", replacedUser), halves: []string{"VALKEY_PASSWORD_CACHE"}},
		"it misses a new user": {
			before: holding("old", "1", ""), after: holding("old", "1", replacedUser), halves: []string{"VALKEY_USERNAME_CACHE", "VALKEY_PASSWORD_CACHE"},
		},
		"it lets a Secret that was made again record who was replaced in the one before": {
			before: holding("new", "2", ""), after: holding("new", "2", replacedUser), earlier: true,
		},
		"it misses a new key store": {
			before: ofPool("dev", "old", "1", ""),
			after: func() *corev1.Secret {
				s := ofPool("dev", "new", "2", kafkaUser)
				s.Data["client.keystore.p12"] = []byte("1")
				return s
			}(),
			halves: []string{"client.keystore.p12"},
		},
		"it misses the overlap of a user":                  {before: holding("old", "1", ""), after: holding("new", "2", ""), dropped: []string{"old"}},
		"it misses the overlap of a user of Kafka":         {before: ofPool("dev", "old", "1", ""), after: ofPool("dev", "new", "2", ""), dropped: []string{"old"}},
		"it lets people edit":                              {before: holding("old", "1", ""), after: holding(edited, "1", "")},
		"it lets the user of another pool go at once":      {before: ofPool("dev", "old", "1", ""), after: ofPool("prod", "new", "2", "")},
		"it lets the user go of a service nobody asks for": {before: holding("old", "1", ""), after: managed("two")},
		"it takes a record that cannot be read for none":   {before: holding("old", "1", ""), after: holding("old", "1", "{")},
		"it tells users of one name on two services from each other": {
			before: holding("old", "1", `{"outgoing":[{"kind":"valkey","instance":"my-store","project":"main","user":"old"}]}`), after: holding("new", "2", replacedUser),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := halves(tt.before, tt.after, func(outgoing) bool { return tt.earlier }); !slices.Equal(got, tt.halves) {
				t.Errorf("halves: want %q, got %q", tt.halves, got)
			}
			var got []string
			for _, o := range dropped(tt.before, tt.after) {
				got = append(got, o.User)
			}
			if !slices.Equal(got, tt.dropped) {
				t.Errorf("dropped: want %q, got %q", tt.dropped, got)
			}
		})
	}
}

func TestUsersThatDoNotAnswerAWish(t *testing.T) {
	const wish = "now"
	at := metav1.NewTime(noon)
	before := v1.Binding{Kind: "valkey", Instance: "cache", SecretName: "two", State: "Ready", RotationRequest: "before"}
	answered, retiring, elsewhere, waiting := before, before, before, before
	answered.RotationRequest = wish
	retiring.State, retiring.RetiresAt = "Retiring", &at
	elsewhere.SecretName, elsewhere.State, elsewhere.RetiresAt = "three", "Retiring", &at
	waiting.State = "Waiting"
	tests := map[string]struct {
		records []v1.Binding
		want    int
	}{
		"it complains":                                  {records: []v1.Binding{before}, want: 1},
		"it is content with an answer":                  {records: []v1.Binding{answered}},
		"it lets a user wait for the end of another":    {records: []v1.Binding{before, retiring}},
		"it does not take that of another Secret's one": {records: []v1.Binding{before, elsewhere}, want: 1},
		"it lets a service wait":                        {records: []v1.Binding{waiting}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := right()
			s.edit(func(is *seen) { is.applications[0].Status.Bindings = tt.records })
			if got := s.checkAnswers(wish); len(got) != tt.want {
				t.Errorf("want %d, got %v", tt.want, got)
			}
		})
	}
}

func TestTwoRotationsAtOnce(t *testing.T) {
	at := metav1.NewTime(noon)
	ready, rotating := v1.Binding{Kind: "valkey", Instance: "cache", State: "Ready"}, v1.Binding{Kind: "valkey", Instance: "cache", State: "Rotating"}
	retiring, deleting := v1.Binding{Kind: "valkey", Instance: "cache", State: "Retiring", RetiresAt: &at}, v1.Binding{Kind: "valkey", Instance: "cache", State: "Deleting", RetiresAt: &at}
	other := retiring
	other.Instance = "my-store"
	tests := map[string]struct {
		records []v1.Binding
		want    int
	}{
		"it is content with a successor":                         {records: []v1.Binding{ready, rotating}},
		"it is content with a user that was replaced":            {records: []v1.Binding{ready, retiring}},
		"it is content with rotations of two services":           {records: []v1.Binding{ready, retiring, other}},
		"it misses the end of the user before":                   {records: []v1.Binding{ready, retiring, rotating}, want: 1},
		"it misses the end of the user that is just being taken": {records: []v1.Binding{ready, deleting, rotating}, want: 1},
		"it misses the end of one of two":                        {records: []v1.Binding{ready, retiring, deleting}, want: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			app := &v1.AivenApplication{Status: v1.AivenApplicationStatus{Bindings: tt.records}}
			if got := twice(app); len(got) != tt.want {
				t.Errorf("want %d, got %q", tt.want, got)
			}
		})
	}
}

func TestPromisesOfAnOverlap(t *testing.T) {
	made := noon.Add(-time.Minute)
	wanted := v1.AivenApplicationSpec{
		Rotation: &v1.Rotation{Interval: "2m", Overlap: "1m"}, Valkey: []v1.Valkey{{Instance: "cache", SecretName: "two"}},
	}
	unwanted, shorter, longer := *wanted.DeepCopy(), *wanted.DeepCopy(), *wanted.DeepCopy()
	unwanted.Valkey[0].SecretName = "three"
	shorter.Rotation = &v1.Rotation{Interval: "1m"}
	longer.Rotation = &v1.Rotation{Interval: "24h", Overlap: "2h"}
	call := func(operation aivensim.Operation, user string, at time.Time) aivensim.Entry {
		return aivensim.Entry{Request: aivensim.Request{Operation: operation, Username: user, Project: Main}, Time: at}
	}
	tests := map[string]struct {
		then func(l *ledger)
		call aivensim.Entry
		want bool // it was broken
	}{
		"it sees that a user goes too early":        {call: call(aivensim.ServiceUserDelete, "old", noon.Add(-time.Second)), want: true},
		"it sees that a user gets another password": {call: call(aivensim.ServiceUserCredentialsReset, "old", noon.Add(-time.Second)), want: true},
		"it lets a user go at its time":             {call: call(aivensim.ServiceUserDelete, "old", noon)},
		"it lets the rights of a user change":       {call: call(aivensim.ServiceUserCredentialsModify, "old", noon.Add(-time.Second))},
		"it does not mind other users":              {call: call(aivensim.ServiceUserDelete, "other", noon.Add(-time.Second))},
		"it lets a user go with its Secret": {
			then: func(l *ledger) { l.release(made.Add(time.Second), func(p *promise) bool { return p.uid == "two" }) },
			call: call(aivensim.ServiceUserDelete, "old", made.Add(2*time.Second)),
		},
		"it sees that a user goes before its Secret": {
			then: func(l *ledger) { l.release(made.Add(3*time.Second), func(p *promise) bool { return p.uid == "two" }) },
			call: call(aivensim.ServiceUserDelete, "old", made.Add(2*time.Second)), want: true,
		},
		"it lets a user go whose service nobody asks for any more": {
			then: func(l *ledger) { l.asks("cart", unwanted, made.Add(time.Second)) },
			call: call(aivensim.ServiceUserDelete, "old", made.Add(2*time.Second)),
		},
		"it lets a user go earlier when the overlap is shortened": {
			then: func(l *ledger) { l.asks("cart", shorter, made.Add(time.Second)) },
			call: call(aivensim.ServiceUserDelete, "old", made.Add(30*time.Second)),
		},
		"it sees that a user goes before a shortened overlap has passed": {
			then: func(l *ledger) { l.asks("cart", shorter, made.Add(time.Second)) },
			call: call(aivensim.ServiceUserDelete, "old", made.Add(29*time.Second)), want: true,
		},
		"it does not lengthen what was promised": {
			then: func(l *ledger) { l.asks("cart", longer, made.Add(time.Second)) },
			call: call(aivensim.ServiceUserDelete, "old", noon),
		},
		"it does not mind what another application asks for": {
			then: func(l *ledger) { l.asks("other", unwanted, made.Add(time.Second)) },
			call: call(aivensim.ServiceUserDelete, "old", made.Add(2*time.Second)), want: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := &ledger{}
			l.asks("cart", wanted, made.Add(-time.Hour))
			l.add("cart", holding("new", "2", replacedUser), made)
			l.add("cart", holding("new", "2", replacedUser), made.Add(time.Second)) // the same again
			if tt.then != nil {
				tt.then(l)
			}
			nobody := func(string) bool { return false }
			if got := l.broken(shop, []aivensim.Entry{tt.call}, nobody); len(got) > 0 != tt.want || len(got) > 1 {
				t.Errorf("want %t, got %v", tt.want, got)
			}
			if got := l.broken(shop, []aivensim.Entry{tt.call}, func(user string) bool { return user == "old" }); len(got) > 0 {
				t.Errorf("it does not excuse: %v", got)
			}
		})
	}

	t.Run("it knows when the last of them ends, and which have", func(t *testing.T) {
		l := &ledger{}
		l.add("cart", holding("new", "2", replacedUser), made)
		for before, want := range map[time.Time]time.Time{noon: {}, noon.Add(time.Second): noon} {
			if got := l.due(made, before); !got.Equal(want) {
				t.Errorf("due before %s: want %s, got %s", before, want, got)
			}
		}
		for now, want := range map[time.Time]int{made: 0, noon: 1} {
			if all, over := l.kept(now); all != 1 || over != want {
				t.Errorf("at %s: want 1 and %d, got %d and %d", now, want, all, over)
			}
		}
		l.release(made.Add(time.Second), func(*promise) bool { return true })
		if got := l.due(made, noon.Add(time.Hour)); !got.IsZero() {
			t.Errorf("due although released: %s", got)
		}
		if all, over := l.kept(noon); all != 1 || over != 0 {
			t.Errorf("released: got %d and %d", all, over)
		}
	})

	t.Run("it holds no promise for what was not asked for when it was made", func(t *testing.T) {
		l := &ledger{}
		l.asks("cart", unwanted, made.Add(-time.Second))
		l.add("cart", holding("new", "2", replacedUser), made)
		early := call(aivensim.ServiceUserDelete, "old", made.Add(time.Second))
		if got := l.broken(shop, []aivensim.Entry{early}, func(string) bool { return false }); len(got) > 0 {
			t.Errorf("got %v", got)
		}
	})
}
