// Package aivensim emulates the part of the Aiven REST API that manages service users and their rights: projects with
// their CA, services of type kafka, opensearch and valkey, service users with real X.509 certificates, Kafka ACLs and the
// OpenSearch ACL document. It is an http.Handler for tests and, in cmd/aivensim, a program.
//
// What a client sees follows Aiven's OpenAPI document and what Aiven's own clients expect. Where neither says anything,
// the comment on the code says which behaviour was chosen. The Go API plays everybody else: Aiven itself, people with
// other clients, and an observer who knows every password.
//
//	sim := aivensim.New(aivensim.Options{Token: "t"})
//	kafka := sim.AddProject("dev").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
//	server := httptest.NewServer(sim)
package aivensim

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Options configures a Simulator. The zero value is usable.
type Options struct {
	// Token is accepted with every permission. Empty: "token". More of them, and fewer permissions, with SetToken.
	Token string
	// Latency is how long each request waits before it is handled, in real time. SetLatency changes it.
	Latency time.Duration
	// Clock tells the time of everything that is dated: certificates, passwords, lags. Nil: the real time.
	Clock clock.PassiveClock
	// Seed makes ids and passwords reproducible, as long as the requests to one service come in the same order. Keys
	// are always random.
	Seed uint64
	// ShowSecrets answers passwords and keys to everybody, as Aiven does before 1 March 2027. By default they are
	// answered as "<redacted>", save by user create and by reads with include_secrets=true.
	ShowSecrets bool
	// KeySize is the size of RSA keys in bits, of users and CAs. Zero: 3072. A small pool of keys is shared by all
	// simulators of a process, because making one takes a quarter of a second.
	KeySize int
	// ECDSA gives project CAs a P-256 key instead of an RSA one: creating a Kafka user then takes a quarter of a
	// millisecond instead of about four. Keys of users stay RSA.
	ECDSA bool
	// UserLimit is the number of users, built-in ones aside, that a Kafka or OpenSearch service may have. Zero: 50,
	// Aiven's default. Negative: no limit. Valkey has none.
	UserLimit int
	// PoweredOff is the status with which work on a powered-off service is refused: 409 or 503. Zero: 409.
	PoweredOff int
}

// Lag delays what reads show of new users, as an eventually consistent API does. Each value is measured from the
// creation of a user through the API, by Options.Clock, and applies to users created while it is set.
type Lag struct {
	// UserGet is how long a user is 404 to user get.
	UserGet time.Duration
	// ServiceGet is how long a user is missing in the users of service get and service list, and in the service that
	// a modification answers.
	ServiceGet time.Duration
	// Credentials is how long password, certificate and key are empty strings, in the answer to user create as well,
	// also after a reset.
	Credentials time.Duration
}

// Simulator is an emulated Aiven API. It is safe for concurrent use.
type Simulator struct {
	options Options
	mux     *http.ServeMux
	latency atomic.Int64
	journal journal
	rules   rules

	mu       sync.RWMutex
	projects []*Project     // in the order of creation
	made     map[string]int // how many projects of a name there have been
	tokens   map[string]token
	lag      Lag
}

// New returns a simulator without projects.
func New(o Options) *Simulator {
	if o.Token == "" {
		o.Token = "token"
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.KeySize == 0 {
		o.KeySize = 3072
	}
	if o.UserLimit == 0 {
		o.UserLimit = 50
	}
	if o.PoweredOff == 0 {
		o.PoweredOff = http.StatusConflict
	}
	s := &Simulator{
		options: o,
		mux:     http.NewServeMux(),
		made:    map[string]int{},
		tokens:  map[string]token{o.Token: {}},
	}
	s.latency.Store(int64(o.Latency))
	s.journal.reset()
	for _, r := range routes {
		s.mux.Handle(r.method+" "+r.path, s.serve(r))
	}
	s.mux.Handle("/", s.serve(route{handle: (*call).notFound}))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// SetLatency changes how long each request waits before it is handled, in real time.
func (s *Simulator) SetLatency(d time.Duration) { s.latency.Store(int64(d)) }

// SetLag changes what reads show of users that are created from now on.
func (s *Simulator) SetLag(l Lag) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = l
}

func (s *Simulator) currentLag() Lag {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lag
}

// AddProject adds a project with a CA of its own. A project of that name is replaced, with all its services.
func (s *Simulator) AddProject(name string) *Project {
	s.mu.Lock()
	s.made[name]++
	n := s.made[name]
	s.mu.Unlock()
	p := newProject(s, name, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(name); i >= 0 {
		s.projects[i] = p
	} else {
		s.projects = append(s.projects, p)
	}
	return p
}

// RemoveProject removes a project with all its services.
func (s *Simulator) RemoveProject(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.projects = slices.DeleteFunc(s.projects, func(p *Project) bool { return p.name == name })
}

// Projects returns the projects in the order of their creation.
func (s *Simulator) Projects() []*Project {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.projects)
}

// Project returns the project of that name, nil if there is none.
func (s *Simulator) Project(name string) *Project {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i := s.index(name); i >= 0 {
		return s.projects[i]
	}
	return nil
}

// Service returns the service of that name in a project, nil if there is none.
func (s *Simulator) Service(project, name string) *Service {
	if p := s.Project(project); p != nil {
		return p.Service(name)
	}
	return nil
}

// Authenticate tells whether a client could log in to the service: the user exists, the password is its current one,
// and the service is powered on.
func (s *Simulator) Authenticate(project, service, username, password string) bool {
	svc := s.Service(project, service)
	if svc == nil || svc.State() == PowerOff {
		return false
	}
	u, ok := svc.User(username)
	return ok && u.Password == password
}

// index returns the position of a project, -1 if there is none. The caller holds the lock.
func (s *Simulator) index(name string) int {
	return slices.IndexFunc(s.projects, func(p *Project) bool { return p.name == name })
}

func (s *Simulator) now() time.Time { return s.options.Clock.Now().UTC() }
