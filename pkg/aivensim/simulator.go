package aivensim

import (
	"cmp"
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
	// Clock tells the time of everything that is dated: certificates, passwords, tokens, lags, rate limits and the times of
	// rules. Nil: the real time. Advance adds to it.
	Clock clock.PassiveClock
	// Seed makes ids and passwords reproducible, as long as the requests to one service come in the same order, and
	// faults, as long as all requests do. Keys are always random.
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
	// Lag, RateLimit, Redaction and RepeatWindow are those of the Settings at the start. An empty Redaction is Redacted, a
	// zero RepeatWindow is ten seconds.
	Lag          Lag
	RateLimit    RateLimit
	Redaction    Redaction
	RepeatWindow time.Duration
	// Rules are at work from the start.
	Rules []Rule
}

// Simulator is an emulated Aiven API. It is safe for concurrent use.
type Simulator struct {
	options  Options
	mux      *http.ServeMux
	controls map[string]control // by method and path
	ahead    atomic.Int64       // how far the time is ahead of Options.Clock
	settings atomic.Pointer[Settings]
	journal  journal
	rules    rules
	limits   limits

	mu       sync.RWMutex
	projects []*Project     // in the order of creation
	made     map[string]int // how many projects of a name there have been
	tokens   map[string]token
}

// New returns a simulator without projects. It panics if the options make no sense.
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
	if o.ShowSecrets {
		o.Redaction = NotRedacted
	}
	s := &Simulator{
		options: o,
		mux:     http.NewServeMux(),
		made:    map[string]int{},
		tokens:  map[string]token{o.Token: {}},
	}
	s.controls = s.newControls()
	s.rules.rng = newRand(o.Seed, "latency")
	s.journal.reset()
	s.settings.Store(&Settings{})
	s.Adjust(func(v *Settings) {
		*v = Settings{
			Latency:      Constant(o.Latency),
			Lag:          o.Lag,
			RateLimit:    o.RateLimit,
			Redaction:    cmp.Or(o.Redaction, Redacted),
			PoweredOff:   cmp.Or(o.PoweredOff, http.StatusConflict),
			UserLimit:    cmp.Or(o.UserLimit, 50),
			RepeatWindow: cmp.Or(o.RepeatWindow, 10*time.Second),
		}
	})
	for _, r := range o.Rules {
		s.Inject(r)
	}
	for _, r := range routes {
		s.mux.Handle(r.method+" "+r.path, s.serve(r))
	}
	s.mux.Handle("/", s.serve(route{handle: (*call).notFound}))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Advance moves the time forwards by d. Waits that are in real time take as long as before.
func (s *Simulator) Advance(d time.Duration) { s.ahead.Add(int64(d)) }

// Now returns the time of the simulator, in UTC.
func (s *Simulator) Now() time.Time { return s.now() }

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

// index returns the position of a project, -1 if there is none. The caller holds the lock.
func (s *Simulator) index(name string) int {
	return slices.IndexFunc(s.projects, func(p *Project) bool { return p.name == name })
}

func (s *Simulator) now() time.Time {
	return s.options.Clock.Now().UTC().Add(time.Duration(s.ahead.Load()))
}
