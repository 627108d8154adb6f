package aivensim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ServiceType is the type of a service.
type ServiceType string

// The types of service that are emulated.
const (
	Kafka      ServiceType = "kafka"
	OpenSearch ServiceType = "opensearch"
	PostgreSQL ServiceType = "pg"
	Valkey     ServiceType = "valkey"
)

// State is the state of a service.
type State string

// The states of a service. Only in PowerOff is work on it refused.
const (
	Running     State = "RUNNING"
	Rebalancing State = "REBALANCING"
	Rebuilding  State = "REBUILDING"
	PowerOff    State = "POWEROFF"
)

// Where and what the services of the simulator are, as far as nobody cares.
const (
	cloud    = "google-europe-north1"
	plan     = "business-4"
	domain   = "aivencloud.com"
	redacted = "<redacted>"
	database = "defaultdb" // the one that a PostgreSQL service is made with
)

// ServiceConfig describes a service. Type is required; the rest of the zero value is what Aiven makes by default.
type ServiceConfig struct {
	Type ServiceType `json:"type"`
	// State is the state of the service. Empty: Running at the start, and no change by SetConfig.
	State State `json:"state,omitempty"`

	// SchemaRegistry, KafkaREST and KafkaConnect add a component to a Kafka service.
	SchemaRegistry bool `json:"schemaRegistry,omitempty"`
	KafkaREST      bool `json:"kafkaREST,omitempty"`
	KafkaConnect   bool `json:"kafkaConnect,omitempty"`
	// SASL adds a kafka component that is used with name and password.
	SASL bool `json:"sasl,omitempty"`
	// LetsEncryptSASL adds one whose certificate comes from a public CA.
	LetsEncryptSASL bool `json:"letsEncryptSASL,omitempty"`
	// NoCertificate switches certificate authentication of a Kafka service off: no component for it, and new users with
	// empty certificates and keys.
	NoCertificate bool `json:"noCertificate,omitempty"`
	// NoNativeACLs makes a Kafka service too old for Kafka-native ACLs.
	NoNativeACLs bool `json:"noNativeACLs,omitempty"`
	// KafkaACLLimit is the number of entries of each kind of Kafka ACL. Zero: no limit; Aiven's number is not published.
	KafkaACLLimit int `json:"kafkaACLLimit,omitempty"`
	// Governed makes users and ACLs managed by Kafka governance: changes are answered 403.
	Governed bool `json:"governed,omitempty"`

	// NoDashboards leaves out the dashboards of an OpenSearch service.
	NoDashboards bool `json:"noDashboards,omitempty"`

	// Replica adds the replica component of a Valkey service with a standby.
	Replica bool `json:"replica,omitempty"`
	// NoTLS switches valkey_ssl off.
	NoTLS bool `json:"noTLS,omitempty"`

	// Routes are more network routes, each with a variant of every component: public, private, privatelink.
	Routes []string `json:"routes,omitempty"`
	// NoComponents leaves the list of components empty and service_uri null, as while a service is first built.
	NoComponents bool `json:"noComponents,omitempty"`
	// NullURI makes service_uri null though there are components.
	NullURI bool `json:"nullURI,omitempty"`
	// NumericPort answers the port in service_uri_params as a number, where texts are expected.
	NumericPort bool `json:"numericPort,omitempty"`
	// UserLimit replaces Settings.UserLimit. Zero: no replacement; negative: no limit.
	UserLimit int `json:"userLimit,omitempty"`
}

// check tells what is wrong with a configuration, by the name that the field has in JSON.
func (c ServiceConfig) check() error {
	switch {
	case !isOneOf(string(c.Type), string(Kafka), string(OpenSearch), string(PostgreSQL), string(Valkey)):
		return fmt.Errorf("type: want kafka, opensearch, pg or valkey, got %q", c.Type)
	case c.State != "" && !c.State.IsKnown():
		return fmt.Errorf("state: %q is unknown", c.State)
	}
	return nil
}

// Service is a service of the simulator.
type Service struct {
	project   *Project
	name      string
	kind      ServiceType
	knownFrom time.Time     // to POSTs
	turns     atomic.Uint64 // counts the GETs

	mu       sync.RWMutex
	rng      *rand.Rand
	state    serviceState
	known    map[string]versions // of the OpenSearch ACL document, by TokenID
	follower func([]User)        // see Follow
}

// serviceState is what changes in a service. Readers take a copy under the lock and encode it without: all slices and
// what they point to are never changed in place, only replaced or appended to.
type serviceState struct {
	config     ServiceConfig
	state      State
	host       string
	port       int
	components []Component
	users      userList // in the order of creation, built-in ones first
	acl        []KafkaACL
	native     []KafkaNativeACL
	openSearch OpenSearchACLConfig
	createTime time.Time
	updateTime time.Time

	// What some reads still see.
	gone             []goneUser
	aclBefore        history[[]KafkaACL]
	nativeBefore     history[[]KafkaNativeACL]
	openSearchBefore history[OpenSearchACLConfig]
}

// goneUser is a deleted user that reads still show.
type goneUser struct {
	*user
	until time.Time
}

// newService makes the nth service of the name in a project: another one than before, with other passwords.
func newService(p *Project, name string, n int, c ServiceConfig) *Service {
	if err := c.check(); err != nil {
		panic("aivensim: bad service: " + err.Error())
	}
	now := p.sim.now().Truncate(time.Second)
	s := &Service{
		project:   p,
		name:      name,
		kind:      c.Type,
		knownFrom: p.sim.now().Add(p.sim.Settings().Lag.Service),
		rng:       newRand(p.sim.options.Seed, p.name, p.number, name, n),
		known:     map[string]versions{},
	}
	s.state = serviceState{
		config:     c.clone(),
		state:      cmp.Or(c.State, Running),
		host:       fmt.Sprintf("%s-%s.%s", name, p.name, domain),
		port:       10_000 + s.rng.IntN(15_000),
		createTime: now,
		updateTime: now,
		openSearch: OpenSearchACLConfig{ACLs: []OpenSearchACL{}},
	}
	admin := "avnadmin"
	switch c.Type {
	case Kafka:
		s.state.acl = []KafkaACL{{ID: "default", Permission: "admin", Topic: "*", Username: admin}}
		s.state.native = []KafkaNativeACL{}
	case Valkey:
		admin = "default"
	}
	s.state.components = s.derive(&s.state)
	s.AddUser(User{Username: admin, Type: builtIn})
	return s
}

// Name returns the name of the service.
func (s *Service) Name() string { return s.name }

// Type returns the type of the service.
func (s *Service) Type() ServiceType { return s.kind }

// Config returns the configuration as it is now.
func (s *Service) Config() ServiceConfig {
	v := s.snapshot()
	c := v.config.clone()
	c.State = v.state
	return c
}

// SetConfig changes the configuration. The components are made anew if they are others than before. The type of a service
// cannot change.
func (s *Service) SetConfig(c ServiceConfig) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Type != s.kind {
		return fmt.Errorf("type: it is %s, and stays so", s.kind)
	}
	s.change(func(v *serviceState) {
		before := s.derive(v)
		v.config, v.state = c.clone(), cmp.Or(c.State, v.state)
		if after := s.derive(v); !reflect.DeepEqual(before, after) {
			v.components = after
		}
	})
	return nil
}

func (c ServiceConfig) clone() ServiceConfig {
	c.Routes = slices.Clone(c.Routes)
	return c
}

// State returns the state of the service.
func (s *Service) State() State { return s.snapshot().state }

// SetState changes the state of the service.
func (s *Service) SetState(state State) {
	s.change(func(v *serviceState) { v.state = state })
}

// Components returns the components in the order in which they are answered.
func (s *Service) Components() []Component { return slices.Clone(s.snapshot().components) }

// SetComponents replaces the list of components as it is: reordered, with some missing, twice or elsewhere. An empty
// list makes service_uri null.
func (s *Service) SetComponents(list []Component) {
	s.change(func(v *serviceState) { v.components = slices.Clone(list) })
}

// ShuffleComponents changes the order of the components.
func (s *Service) ShuffleComponents() {
	s.change(func(v *serviceState) {
		v.components = slices.Clone(v.components)
		s.rng.Shuffle(len(v.components), func(i, j int) {
			v.components[i], v.components[j] = v.components[j], v.components[i]
		})
	})
}

// SetAddress moves the service to another host and port, and makes its components anew. The components use the ports
// from port on.
func (s *Service) SetAddress(host string, port int) {
	s.change(func(v *serviceState) {
		v.host, v.port = host, port
		v.components = s.derive(v)
	})
}

// snapshot returns the state as it is now.
func (s *Service) snapshot() serviceState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state
}

// change runs f with the lock held.
func (s *Service) change(f func(*serviceState)) {
	now := s.project.sim.now().Truncate(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.state)
	s.state.updateTime = now
	s.tell()
}

// userLimit returns how many users the service may have beside the built-in ones; negative: no limit.
func (s *Service) userLimit(v serviceState) int {
	if s.kind == Valkey {
		return -1
	}
	return cmp.Or(v.config.UserLimit, s.project.sim.Settings().UserLimit)
}

// takesTurns tells whether it is the turn of a GET to see everything.
func (s *Service) takesTurns(c *call) bool {
	return c.Method == http.MethodGet && c.settings.Lag.Alternate && s.turns.Add(1)%2 == 0
}

// admit refuses what is refused alike for every operation on a service.
func (s *Service) admit(c *call) error {
	v := s.snapshot()
	if c.Method == http.MethodPost && c.misses(s.knownFrom) {
		return c.noService()
	}
	if c.route.only != "" && c.route.only != s.kind {
		return errUnsupported
	}
	if !c.route.data {
		return nil
	}
	if v.state == PowerOff {
		c.tally(func(n *Counters) { n.PoweredOff++ })
		if c.settings.PoweredOff == http.StatusServiceUnavailable {
			return fail(http.StatusServiceUnavailable, "", "Service Unavailable")
		}
		return fail(http.StatusConflict, "not_powered", "Service is not powered")
	}
	if v.config.Governed && c.Method != http.MethodGet {
		return fail(http.StatusForbidden, "resource_managed_by_governance", "Resource is managed by Kafka governance")
	}
	return nil
}

// serviceBody is a service in an answer, without its users, which are cached.
type serviceBody struct {
	ACL                   []KafkaACL       `json:"acl,omitzero"`
	CloudName             string           `json:"cloud_name"`
	Components            []Component      `json:"components"`
	ConnectionInfo        map[string]any   `json:"connection_info"`
	CreateTime            time.Time        `json:"create_time"`
	GroupList             []string         `json:"group_list"`
	KafkaACL              []KafkaNativeACL `json:"kafka_acl,omitzero"`
	NodeCount             int              `json:"node_count"`
	NodeStates            []nodeState      `json:"node_states"`
	Plan                  string           `json:"plan"`
	ProjectVPCID          *string          `json:"project_vpc_id"`
	ServiceIntegrations   []struct{}       `json:"service_integrations"`
	ServiceName           string           `json:"service_name"`
	ServiceType           ServiceType      `json:"service_type"`
	ServiceURI            *string          `json:"service_uri"`
	ServiceURIParams      map[string]any   `json:"service_uri_params,omitempty"`
	State                 State            `json:"state"`
	TerminationProtection bool             `json:"termination_protection"`
	UpdateTime            time.Time        `json:"update_time"`
	UserConfig            map[string]any   `json:"user_config"`
}

type nodeState struct {
	Name            string     `json:"name"`
	ProgressUpdates []struct{} `json:"progress_updates"`
	Role            string     `json:"role,omitempty"`
	State           string     `json:"state"`
}

// body returns the service as it is in an answer. Users that the call may not see yet are left out, and those that it
// sees though they are deleted come last.
func (s *Service) body(c *call) parts {
	v := s.snapshot()
	v.acl, v.native = v.aclBefore.seen(c, v.acl), v.nativeBefore.seen(c, v.native)
	head := s.head(v, c.plain)
	out := make(parts, 0, 2*len(v.users)+2)
	out = append(out, head[:len(head)-1], []byte(`,"users":[`))
	first := true
	add := func(u *user) {
		if !first {
			out = append(out, comma)
		}
		first = false
		out = append(out, u.body(c))
	}
	for _, u := range v.users {
		if !c.misses(u.inServiceFrom) {
			add(u)
		}
	}
	for _, g := range v.gone {
		if c.misses(g.until) {
			add(g.user)
		}
	}
	return append(out, []byte("]}"))
}

var comma = []byte(",")

// head returns the service as JSON without its users.
func (s *Service) head(v serviceState, plain bool) []byte {
	b := serviceBody{
		ACL:                   v.acl,
		CloudName:             cloud,
		Components:            v.components,
		CreateTime:            v.createTime,
		GroupList:             []string{"default"},
		KafkaACL:              v.native,
		NodeCount:             1,
		NodeStates:            []nodeState{{Name: s.name + "-1", ProgressUpdates: []struct{}{}, State: "running"}},
		Plan:                  plan,
		ServiceIntegrations:   []struct{}{},
		ServiceName:           s.name,
		ServiceType:           s.kind,
		State:                 v.state,
		TerminationProtection: true,
		UpdateTime:            v.updateTime,
		UserConfig:            v.config.userConfig(),
	}
	if b.Components == nil {
		b.Components = []Component{}
	}
	s.connect(&b, v, plain)
	return encode(b)
}

// connect fills in how the service is reached by its built-in user.
func (s *Service) connect(b *serviceBody, v serviceState, plain bool) {
	b.ConnectionInfo = map[string]any{}
	if len(v.components) == 0 {
		return
	}
	admin := &user{}
	if len(v.users) > 0 {
		admin = v.users[0]
	}
	address := v.host + ":" + strconv.Itoa(v.port)
	uri := address
	b.ServiceURIParams = map[string]any{"host": v.host, "port": strconv.Itoa(v.port)}
	if scheme := v.config.scheme(); scheme != "" {
		uri = fmt.Sprintf("%s://%s:%s@%s", scheme, admin.username, admin.password, address)
		if s.kind == PostgreSQL {
			uri += "/" + database + "?sslmode=require"
		}
		b.ServiceURIParams["user"] = admin.username
		b.ServiceURIParams["password"] = admin.password
	}
	switch s.kind {
	case Kafka:
		b.ConnectionInfo["kafka"] = []string{address}
		if c := admin.certificate; c != nil {
			b.ConnectionInfo["kafka_access_cert"] = c.cert
			b.ConnectionInfo["kafka_access_key"] = hide(plain, c.key.pem)
		}
	case OpenSearch:
		b.ConnectionInfo["opensearch"] = []string{hide(plain, uri)}
		b.ConnectionInfo["opensearch_username"] = admin.username
		b.ConnectionInfo["opensearch_password"] = hide(plain, admin.password)
	case PostgreSQL:
		b.ServiceURIParams["dbname"], b.ServiceURIParams["sslmode"] = database, "require"
		b.ConnectionInfo["pg"] = []string{hide(plain, uri)}
	case Valkey:
		b.ServiceURIParams["ssl"] = strconv.FormatBool(!v.config.NoTLS)
		b.ConnectionInfo["valkey"] = []string{hide(plain, uri)}
		b.ConnectionInfo["valkey_password"] = hide(plain, admin.password)
	}
	for k, p := range b.ServiceURIParams {
		b.ServiceURIParams[k] = hide(plain, p.(string))
	}
	if v.config.NumericPort {
		b.ServiceURIParams["port"] = v.port
	}
	if !v.config.NullURI {
		uri = hide(plain, uri)
		b.ServiceURI = &uri
	}
}

// hide returns the secret, or what stands in its place. An empty one needs no hiding.
func hide(plain bool, secret string) string {
	if plain || secret == "" {
		return secret
	}
	return redacted
}

func (c *call) listServices() (parts, error) {
	out := parts{[]byte(`{"services":[`)}
	for i, s := range c.project.Services() {
		if i > 0 {
			out = append(out, comma)
		}
		c.fresh = s.takesTurns(c)
		out = append(out, s.body(c)...)
	}
	return append(out, []byte("]}")), nil
}

func (c *call) getService() (parts, error) {
	return wrap(`{"service":`, c.service.body(c)), nil
}

// wrap puts a body into an object whose beginning is given.
func wrap(open string, body parts) parts {
	return append(append(parts{[]byte(open)}, body...), []byte("}"))
}

// errUnsupported is the answer for an operation that the type of the service does not have.
var errUnsupported = fail(http.StatusBadRequest, "", "Operation is not supported for this service type")
