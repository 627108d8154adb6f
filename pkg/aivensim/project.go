package aivensim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Project is a project of the simulator.
type Project struct {
	sim    *Simulator
	name   string
	number int // of its name, from 1

	mu       sync.RWMutex
	rng      *rand.Rand
	services []*Service     // in the order of creation
	made     map[string]int // how many services of a name there have been
	cas      []*authority
	bundle   string
}

// newProject makes the nth project of the name.
func newProject(s *Simulator, name string, n int) *Project {
	p := &Project{sim: s, name: name, number: n, rng: newRand(s.options.Seed, name, n), made: map[string]int{}}
	p.RotateCA()
	return p
}

// newRand returns a generator that depends on the seed and on what it is for.
func newRand(seed uint64, what ...any) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q", what)             // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64())) //nolint:gosec // reproducible on purpose
}

// Name returns the name of the project.
func (p *Project) Name() string { return p.name }

// AddService adds a running service with its built-in users. A service of that name is replaced: the new one knows
// nothing of the users and ACLs of the old one. It panics if the configuration has no known type.
func (p *Project) AddService(name string, c ServiceConfig) *Service {
	p.mu.Lock()
	p.made[name]++
	n := p.made[name]
	p.mu.Unlock()
	s := newService(p, name, n, c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.index(name); i >= 0 {
		p.services[i] = s
	} else {
		p.services = append(p.services, s)
	}
	return s
}

// RemoveService removes a service.
func (p *Project) RemoveService(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.services = slices.DeleteFunc(p.services, func(s *Service) bool { return s.name == name })
}

// Services returns the services in the order of their creation.
func (p *Project) Services() []*Service {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.services)
}

// Service returns the service of that name, nil if there is none.
func (p *Project) Service(name string) *Service {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if i := p.index(name); i >= 0 {
		return p.services[i]
	}
	return nil
}

// index returns the position of a service, -1 if there is none. The caller holds the lock.
func (p *Project) index(name string) int {
	return slices.IndexFunc(p.services, func(s *Service) bool { return s.name == name })
}

// CA returns what project CA answers: the certificates of the CAs in PEM, the latest one first.
func (p *Project) CA() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.bundle
}

// RotateCA makes the next generation of the CA, which signs from now on. The answer holds the certificates of all
// generations, until RetireCAs.
func (p *Project) RotateCA() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cas = append([]*authority{p.newAuthority()}, p.cas...)
	p.bundle = bundle(p.cas)
}

// RetireCAs leaves the latest CA only.
func (p *Project) RetireCAs() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cas = p.cas[:1]
	p.bundle = bundle(p.cas)
}

// SetCA replaces the text that project CA answers, until the next rotation: another order, comments, blank lines.
func (p *Project) SetCA(pem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bundle = pem
}

// authority returns the CA that signs.
func (p *Project) authority() *authority {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.cas[0]
}

func bundle(cas []*authority) string {
	var b strings.Builder
	for _, a := range cas {
		b.WriteString(a.pem)
	}
	return b.String()
}

// projectBody is a project in an answer.
type projectBody struct {
	Name           string            `json:"project_name"`
	AccountID      string            `json:"account_id"`
	OrganizationID string            `json:"organization_id"`
	DefaultCloud   string            `json:"default_cloud"`
	Tags           map[string]string `json:"tags"`
}

func (p *Project) body() projectBody {
	return projectBody{
		Name:           p.name,
		AccountID:      fmt.Sprintf("a%011x", newRand(p.sim.options.Seed, "account").Uint64()>>20),
		OrganizationID: fmt.Sprintf("org%011x", newRand(p.sim.options.Seed, "organization").Uint64()>>20),
		DefaultCloud:   cloud,
		Tags:           map[string]string{},
	}
}

func (c *call) listProjects() (parts, error) {
	var out struct {
		Projects    []projectBody       `json:"projects"`
		Membership  map[string]string   `json:"project_membership"`
		Memberships map[string][]string `json:"project_memberships"`
	}
	out.Projects, out.Membership, out.Memberships = []projectBody{}, map[string]string{}, map[string][]string{}
	for _, p := range c.sim.Projects() {
		if c.token.isMember(p.name) {
			out.Projects = append(out.Projects, p.body())
			out.Membership[p.name] = "admin"
			out.Memberships[p.name] = []string{"admin"}
		}
	}
	return reply(out)
}

func (c *call) getProject() (parts, error) {
	return reply(map[string]any{"project": c.project.body()})
}

func (c *call) getCA() (parts, error) {
	return reply(map[string]any{"certificate": c.project.CA()})
}
