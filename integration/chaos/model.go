package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// Kind is a kind of operation.
type Kind string

// The kinds of operation.
const (
	CreateApplication Kind = "create application"
	ChangeApplication Kind = "change application"
	RenameSecret      Kind = "rename Secret of application"
	DeleteApplication Kind = "delete application"
	ExpireApplication Kind = "let application expire"
	RotateUsers       Kind = "ask for new users of application"
	PauseApplication  Kind = "pause application"
	ResumeApplication Kind = "resume application"
	TamperStatus      Kind = "tamper with status of application"
	EditSecret        Kind = "edit Secret"
	TamperRecord      Kind = "tamper with record of Secret"
	DeleteSecret      Kind = "delete Secret"
	CopySecret        Kind = "copy Secret"
	MakeStranger      Kind = "make foreign Secret"
	DeleteStranger    Kind = "delete foreign Secret"
	CreateWorkload    Kind = "create Deployment"
	RollWorkload      Kind = "roll Deployment"
	DeleteWorkload    Kind = "delete Deployment"
	SetInstance       Kind = "set state of instance"
	DeleteNamespace   Kind = "delete namespace"
	MakeNamespace     Kind = "make namespace"
)

// weights say how often each kind is drawn. Deleting a namespace ends everything in it, and is rare.
var weights = []struct {
	kind   Kind
	weight int
}{
	{CreateApplication, 20}, {ChangeApplication, 20}, {RenameSecret, 8}, {DeleteApplication, 7},
	{ExpireApplication, 2}, {RotateUsers, 8}, {PauseApplication, 3}, {ResumeApplication, 6}, {TamperStatus, 3},
	{EditSecret, 6}, {TamperRecord, 2}, {DeleteSecret, 6}, {CopySecret, 2}, {MakeStranger, 3}, {DeleteStranger, 4},
	{CreateWorkload, 8}, {RollWorkload, 8}, {DeleteWorkload, 6}, {SetInstance, 4}, {DeleteNamespace, 1},
}

// What there is to choose from.
const (
	// Main is the Aiven project of OpenSearch and Valkey.
	Main = "main"
	// ForbiddenPool is an Aiven project that the operator may not use.
	ForbiddenPool = "forbidden"
	// OpenSearchInstance is the one that every namespace has.
	OpenSearchInstance = "search"
)

var (
	// Pools are the Aiven projects whose Kafka service the operator may use.
	Pools = []string{"dev", "prod"}
	// ValkeyInstances are those that every namespace has.
	ValkeyInstances = []string{"cache", "my-store"}

	levels = []v1.Access{v1.AccessRead, v1.AccessWrite, v1.AccessReadWrite, v1.AccessAdmin}
	states = []string{"RUNNING", "RUNNING", "REBUILDING", "POWEROFF"}
	// rotations are the shortest that there are, and one that goes by requests alone as long as a run takes.
	rotations = []v1.Rotation{{Interval: "1m"}, {Interval: "1m"}, {Interval: "90s"}, {Interval: "2m", Overlap: "1m"}, {Interval: "24h", Overlap: "1m"}}
)

const (
	secretsPerApplication = 3
	workloadsPerNamespace = 4
	// strangers are the Secrets that belong to nobody; applications name them at times.
	strangers = 2
)

// Workload is a Deployment.
type Workload struct {
	Secrets  []string // that its Pods refer to
	Replicas int32
}

// Operation is one thing that is done to a namespace. Fields that its kind does not need are empty.
type Operation struct {
	Number int // counts the operations of the namespace, from 1
	Kind   Kind
	Name   string // of the object

	Spec     v1.AivenApplicationSpec // of the application from now on
	Workload Workload                // from now on
	Edit     int                     // which edit of the Secret or status
	State    string                  // of the instance from now on
}

func (o Operation) String() string { return fmt.Sprintf("#%d %s %s", o.Number, o.Kind, o.Name) }

// Model is what a namespace should hold, and draws what happens to it next. It knows nothing of the cluster.
type Model struct {
	Exists       bool
	Applications map[string]v1.AivenApplicationSpec
	Paused       map[string]bool // applications; they can be changed, and are not deleted
	Workloads    map[string]Workload
	Strangers    map[string]bool // Secrets that are no application's

	slots  int // applications at most
	number int
	topics int
	rng    *rand.Rand
}

// NewModel makes the model of an empty namespace with room for a number of applications. Models of different streams draw differently.
func NewModel(seed, stream uint64, applications int) *Model {
	m := &Model{slots: applications, rng: rand.New(rand.NewPCG(seed, stream))}
	m.clear()
	m.Exists = true
	return m
}

func (m *Model) clear() {
	*m = Model{
		Applications: map[string]v1.AivenApplicationSpec{}, Paused: map[string]bool{}, Workloads: map[string]Workload{},
		Strangers: map[string]bool{}, slots: m.slots, number: m.number, topics: m.topics, rng: m.rng,
	}
}

// Next draws the next operation and brings the model up to date with it.
func (m *Model) Next() Operation {
	m.number++
	o := Operation{Number: m.number, Kind: MakeNamespace}
	if m.Exists {
		for o.Kind = ""; o.Kind == ""; {
			o = m.draw(m.kind())
		}
	}
	m.apply(o)
	return o
}

func (m *Model) kind() Kind {
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	n := m.rng.IntN(total)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			return w.kind
		}
	}
	panic("unreachable")
}

// draw fills in an operation of a kind. Its kind is empty if there is nothing to do it to.
func (m *Model) draw(kind Kind) Operation {
	o := Operation{Number: m.number, Kind: kind}
	switch kind {
	case CreateApplication:
		o.Name = "app-" + strconv.Itoa(m.rng.IntN(m.slots))
		if _, ok := m.Applications[o.Name]; ok {
			return Operation{}
		}
		o.Spec = m.spec(o.Name)
	case ResumeApplication:
		o.Name = m.one(slices.Sorted(maps.Keys(m.Paused)))
	case ChangeApplication, RenameSecret, DeleteApplication, ExpireApplication, RotateUsers, PauseApplication, TamperStatus:
		o.Name, o.Edit = m.one(slices.Sorted(maps.Keys(m.Applications))), m.rng.IntN(1000)
		if m.Paused[o.Name] && (kind == DeleteApplication || kind == ExpireApplication || kind == PauseApplication) {
			return Operation{}
		}
		spec := m.Applications[o.Name]
		o.Spec = *spec.DeepCopy()
		switch kind {
		case ChangeApplication:
			m.change(&o.Spec, o.Name)
		case RenameSecret:
			m.rename(&o.Spec, o.Name)
		}
	case EditSecret, TamperRecord, DeleteSecret, CopySecret:
		o.Name, o.Edit = m.wanted(), m.rng.IntN(1000)
	case MakeStranger:
		o.Name = "stranger-" + strconv.Itoa(m.rng.IntN(strangers))
		if m.Strangers[o.Name] {
			return Operation{}
		}
	case DeleteStranger:
		o.Name = m.one(slices.Sorted(maps.Keys(m.Strangers)))
	case CreateWorkload:
		o.Name = "work-" + strconv.Itoa(m.rng.IntN(workloadsPerNamespace))
		if _, ok := m.Workloads[o.Name]; ok {
			return Operation{}
		}
		o.Workload = m.workload()
	case RollWorkload, DeleteWorkload:
		o.Name = m.one(slices.Sorted(maps.Keys(m.Workloads)))
		o.Workload = m.workload()
	case SetInstance:
		o.Name = m.one(append([]string{OpenSearchInstance}, ValkeyInstances...))
		o.State = m.one(states)
	case DeleteNamespace:
		o.Name = "the namespace"
	}
	if o.Name == "" {
		return Operation{}
	}
	return o
}

func (m *Model) apply(o Operation) {
	switch o.Kind {
	case CreateApplication, ChangeApplication, RenameSecret:
		m.Applications[o.Name] = *o.Spec.DeepCopy()
	case DeleteApplication, ExpireApplication:
		delete(m.Applications, o.Name)
	case PauseApplication:
		m.Paused[o.Name] = true
	case ResumeApplication:
		delete(m.Paused, o.Name)
	case MakeStranger:
		m.Strangers[o.Name] = true
	case DeleteStranger:
		delete(m.Strangers, o.Name)
	case CreateWorkload, RollWorkload:
		m.Workloads[o.Name] = o.Workload
	case DeleteWorkload:
		delete(m.Workloads, o.Name)
	case DeleteNamespace:
		m.clear()
	case MakeNamespace:
		m.Exists = true
	}
}

// one draws from a list, "" if it is empty.
func (m *Model) one(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[m.rng.IntN(len(list))]
}

func (m *Model) chance(percent int) bool { return m.rng.IntN(100) < percent }

// wanted draws a Secret that an application asks for.
func (m *Model) wanted() string {
	var names []string
	for _, app := range slices.Sorted(maps.Keys(m.Applications)) {
		for _, b := range bindings("", m.Applications[app]) {
			names = append(names, b.Secret)
		}
	}
	return m.one(names)
}

// secret draws the name of a Secret for an application: mostly one of its own, which services may share.
func (m *Model) secret(app string) string {
	switch n := m.rng.IntN(100); {
	case n < 4:
		return "stranger-" + strconv.Itoa(m.rng.IntN(strangers))
	case n < 8:
		app = "app-" + strconv.Itoa(m.rng.IntN(m.slots))
	}
	return app + "-" + strconv.Itoa(m.rng.IntN(secretsPerApplication))
}

func (m *Model) level() v1.Access { return levels[m.rng.IntN(len(levels))] }

func (m *Model) spec(app string) v1.AivenApplicationSpec {
	s := v1.AivenApplicationSpec{Protected: m.chance(5)}
	if m.chance(60) {
		s.Rotation = m.rotation()
	}
	for s.Kafka == nil && s.OpenSearch == nil && len(s.Valkey) == 0 {
		if m.chance(60) {
			m.toggleKafka(&s, app)
		}
		if m.chance(50) {
			m.toggleOpenSearch(&s, app)
		}
		for _, instance := range ValkeyInstances {
			if m.chance(35) {
				m.toggleValkey(&s, app, instance)
			}
		}
	}
	return s
}

func (m *Model) toggleKafka(s *v1.AivenApplicationSpec, app string) {
	if s.Kafka != nil {
		s.Kafka = nil
		return
	}
	s.Kafka = &v1.Kafka{Pool: m.one(Pools), SecretName: m.secret(app)}
	if m.chance(5) {
		s.Kafka.Pool = ForbiddenPool
	}
	if m.chance(70) {
		m.changeTopics(s.Kafka)
	}
}

func (m *Model) toggleOpenSearch(s *v1.AivenApplicationSpec, app string) {
	if s.OpenSearch != nil {
		s.OpenSearch = nil
		return
	}
	s.OpenSearch = &v1.OpenSearch{Instance: OpenSearchInstance, Access: m.level(), SecretName: m.secret(app)}
}

func (m *Model) toggleValkey(s *v1.AivenApplicationSpec, app, instance string) {
	if i := slices.IndexFunc(s.Valkey, func(v v1.Valkey) bool { return v.Instance == instance }); i >= 0 {
		s.Valkey = slices.Delete(s.Valkey, i, i+1)
		return
	}
	s.Valkey = append(s.Valkey, v1.Valkey{Instance: instance, Access: m.level(), SecretName: m.secret(app)})
}

// changeTopics draws other rights. A topic never comes back: that would look like a request repeated without need.
func (m *Model) changeTopics(k *v1.Kafka) {
	k.ACL = []v1.KafkaACL{}
	for range m.rng.IntN(4) {
		m.topics++
		k.ACL = append(k.ACL, v1.KafkaACL{Topic: "topic-" + strconv.Itoa(m.topics), Access: m.level()})
	}
}

func (m *Model) rotation() *v1.Rotation {
	r := rotations[m.rng.IntN(len(rotations))]
	return &r
}

// change draws another spec.
func (m *Model) change(s *v1.AivenApplicationSpec, app string) {
	switch n := m.rng.IntN(100); {
	case n < 20:
		m.toggleKafka(s, app)
	case n < 35:
		m.toggleOpenSearch(s, app)
	case n < 55:
		m.toggleValkey(s, app, m.one(ValkeyInstances))
	case n < 65 && s.Kafka != nil:
		m.changeTopics(s.Kafka)
	case n < 70 && s.Kafka != nil:
		s.Kafka.Pool = m.one(Pools)
	case n < 80 && s.OpenSearch != nil:
		s.OpenSearch.Access = m.level()
	case n < 90 && len(s.Valkey) > 0:
		s.Valkey[m.rng.IntN(len(s.Valkey))].Access = m.level()
	case n < 97 && s.Rotation == nil:
		s.Rotation = m.rotation()
	case n < 97 && m.chance(50):
		s.Rotation = m.rotation()
	case n < 97:
		s.Rotation = nil
	default:
		s.Protected = !s.Protected
	}
}

// rename gives one service, or all of them, another Secret.
func (m *Model) rename(s *v1.AivenApplicationSpec, app string) {
	var names []*string
	if s.Kafka != nil {
		names = append(names, &s.Kafka.SecretName)
	}
	if s.OpenSearch != nil {
		names = append(names, &s.OpenSearch.SecretName)
	}
	for i := range s.Valkey {
		names = append(names, &s.Valkey[i].SecretName)
	}
	if len(names) == 0 {
		return
	}
	name, all, which := m.secret(app), m.chance(30), m.rng.IntN(len(names))
	for i := range names {
		if all || i == which {
			*names[i] = name
		}
	}
}

func (m *Model) workload() Workload {
	w := Workload{Replicas: int32(m.rng.IntN(3))}
	for range 1 + m.rng.IntN(2) {
		if name := m.wanted(); name != "" && !slices.Contains(w.Secrets, name) {
			w.Secrets = append(w.Secrets, name)
		}
	}
	return w
}
