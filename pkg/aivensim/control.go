package aivensim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Control returns the handler for those who run the simulator as a program. It needs no token, shows no secret, and
// belongs on a listener of its own: nothing of it can be reached where the API is. Names are in the query, values in a
// JSON body of the same shape as the Go types; answers are JSON. Unknown projects, services and users are 404, and what
// makes no sense is 400, as {"error":"answer.status: want 200 to 599, got 9"}. PATCH changes what the body has.
//
// The simulator:
//
//	GET    /settings                              Settings
//	PATCH  /settings                              change them
//	POST   /latency?duration=                     set the latency, as "20ms"
//	GET    /rules                                 {"rules":[{"id","hits","error","rule":Rule}, ...]}
//	POST   /rules                                 Rule: {"id":1}
//	DELETE /rules?id=                             end one; without id all
//	GET    /clock                                 {"now":"..."}
//	POST   /clock?advance=                        move the time forwards, as "720h"
//	GET    /tokens                                {"tokens":[{"id", Token...}, ...]}
//	POST   /tokens                                {"token":"t", Token...}: accept it
//	DELETE /tokens                                {"token":"t"}: revoke it
//	GET    /counters                              Counters
//	GET    /gauges                                {"services":[{"project","service","gauges":Gauges}, ...]}
//	GET    /journal                               {"entries":[Entry, ...]}
//	POST   /reset-counters                        set the counters to zero, empty the journal
//	POST   /authenticate                          {"project","service","username"} and "password", or "certificate" and "key": {"ok":true} if it logs in
//
// A project:
//
//	POST   /projects?project=                     add it, or replace it by an empty one
//	DELETE /projects?project=                     remove it
//	GET    /ca?project=                           {"certificate":"..."}
//	PUT    /ca?project=                           {"certificate":"..."}: answer that text
//	POST   /ca?project=                           rotate the CA
//	DELETE /ca?project=                           retire the former CAs
//
// A service; all with ?project=&service=:
//
//	GET    /services                              all services with their state and number of users
//	POST   /services                              ServiceConfig: add it, or replace it; without a body by one of the same configuration
//	DELETE /services                              remove it
//	GET    /config                                ServiceConfig
//	PATCH  /config                                change it
//	POST   /state?state=                          set the state
//	GET    /components                            {"components":[Component, ...]}
//	PUT    /components                            {"components":[Component, ...]}
//	POST   /components                            shuffle them
//	POST   /address?host=&port=                   move the service
//	GET    /acl                                   Kafka ACLs of both kinds, or the OpenSearch ACL document
//	PUT    /acl                                   OpenSearchACLConfig: replace the document
//	POST   /acl                                   KafkaACL or OpenSearchACL: add an entry
//	POST   /native-acl                            KafkaNativeACL: add an entry
//	DELETE /acl?id=                               delete a Kafka entry of either kind
//
// A user, as somebody else changes it; all with ?project=&service=&username=:
//
//	GET    /users                                 names, types and generations of all users
//	POST   /users                                 add it; the body may have a User
//	DELETE /users                                 delete it
//	POST   /password?override=                    {"password":"..."}; override=true: inside the database
//	PUT    /access-control                        AccessControl
//	POST   /access-control                        shuffle keys and channels
//	POST   /certificate?end=                      renew it; with an end, as 2026-03-01T12:00:00Z, one that ends then
func (s *Simulator) Control() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		a := answer{status: http.StatusOK}
		v, err := s.act(Action{Method: r.Method, Path: r.URL.RequestURI(), Body: body})
		if err != nil {
			a.status, v = http.StatusBadRequest, map[string]string{"error": err.Error()}
			if errors.Is(err, errNotFound) {
				a.status = http.StatusNotFound
			}
		}
		a.body = parts{encode(v)}
		a.send(r.Context(), w, &Rule{})
	})
}

// control handles an action of the control interface and returns the answer.
type control func(*controlCall) (any, error)

// controlCall is an action on its way.
type controlCall struct {
	url.Values
	body    []byte
	project *Project // of actions on a project or a service
	service *Service // of actions on a service or a user
}

// done is the answer of what has none.
var done = map[string]bool{"ok": true}

// Do does what Control does for an HTTP request, and returns the answer.
func (s *Simulator) Do(a Action) (json.RawMessage, error) {
	v, err := s.act(a)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", a.Method, a.Path, err)
	}
	return encode(v), nil
}

func (s *Simulator) act(a Action) (any, error) {
	u, err := url.ParseRequestURI(a.Path)
	if err != nil {
		return nil, errNotFound
	}
	f := s.controls[a.Method+" "+u.Path]
	if f == nil {
		return nil, errNotFound
	}
	return f(&controlCall{Values: u.Query(), body: a.Body})
}

// newControls returns the actions by method and path.
func (s *Simulator) newControls() map[string]control {
	out := map[string]control{
		"GET /settings":        func(*controlCall) (any, error) { return s.Settings(), nil },
		"PATCH /settings":      s.controlSettings,
		"POST /latency":        s.controlLatency,
		"GET /rules":           func(*controlCall) (any, error) { return s.controlRules(), nil },
		"POST /rules":          s.controlInject,
		"DELETE /rules":        s.controlRemove,
		"GET /clock":           func(*controlCall) (any, error) { return map[string]time.Time{"now": s.Now()}, nil },
		"POST /clock":          s.controlClock,
		"GET /tokens":          func(*controlCall) (any, error) { return map[string]any{"tokens": s.controlTokens()}, nil },
		"POST /tokens":         s.controlToken(func(name string, t Token) { s.SetToken(name, t) }),
		"DELETE /tokens":       s.controlToken(func(name string, _ Token) { s.RevokeToken(name) }),
		"GET /counters":        func(*controlCall) (any, error) { return s.Counters(), nil },
		"GET /gauges":          func(*controlCall) (any, error) { return s.controlGauges(), nil },
		"GET /journal":         func(*controlCall) (any, error) { return map[string]any{"entries": s.Journal()}, nil },
		"POST /reset-counters": func(*controlCall) (any, error) { s.ResetCounters(); return done, nil },
		"POST /authenticate":   s.controlAuthenticate,
		"GET /services":        func(*controlCall) (any, error) { return s.controlServices(), nil },
		"POST /projects": func(c *controlCall) (any, error) {
			if c.Get("project") == "" {
				return nil, errors.New("project: want a name")
			}
			s.AddProject(c.Get("project"))
			return done, nil
		},
	}
	for name, f := range map[string]func(*controlCall) (any, error){
		"DELETE /projects": func(c *controlCall) (any, error) { s.RemoveProject(c.project.name); return done, nil },
		"GET /ca":          func(c *controlCall) (any, error) { return certificateBody{c.project.CA()}, nil },
		"PUT /ca":          controlSetCA,
		"POST /ca":         func(c *controlCall) (any, error) { c.project.RotateCA(); return done, nil },
		"DELETE /ca":       func(c *controlCall) (any, error) { c.project.RetireCAs(); return done, nil },
		"POST /services":   controlAddService,
	} {
		out[name] = func(c *controlCall) (any, error) {
			if c.project = s.Project(c.Get("project")); c.project == nil {
				return nil, errNotFound
			}
			return f(c)
		}
	}
	for name, f := range serviceControls {
		out[name] = func(c *controlCall) (any, error) {
			if c.service = s.Service(c.Get("project"), c.Get("service")); c.service == nil {
				return nil, errNotFound
			}
			return f(c)
		}
	}
	return out
}

// serviceControls are the actions on a service and its users.
var serviceControls = map[string]control{
	"DELETE /services": func(c *controlCall) (any, error) {
		c.service.project.RemoveService(c.service.name)
		return done, nil
	},
	"GET /config":      func(c *controlCall) (any, error) { return c.service.Config(), nil },
	"PATCH /config":    controlConfig,
	"POST /state":      controlState,
	"GET /components":  func(c *controlCall) (any, error) { return componentsBody{c.service.Components()}, nil },
	"PUT /components":  controlComponents,
	"POST /components": func(c *controlCall) (any, error) { c.service.ShuffleComponents(); return done, nil },
	"POST /address":    controlAddress,
	"GET /acl":         controlACLs,
	"PUT /acl":         controlSetACLs,
	"POST /acl":        controlAddACL,
	"POST /native-acl": controlAddNativeACL,
	"DELETE /acl": func(c *controlCall) (any, error) {
		return c.found(c.service.DeleteKafkaACL(c.Get("id")) || c.service.DeleteKafkaNativeACL(c.Get("id")))
	},
	"GET /users":  controlUsers,
	"POST /users": controlAddUser,
	"DELETE /users": func(c *controlCall) (any, error) {
		return c.found(c.service.DeleteUser(c.Get("username")))
	},
	"POST /password":      controlPassword,
	"PUT /access-control": controlAccess,
	"POST /access-control": func(c *controlCall) (any, error) {
		return c.found(c.service.ShuffleAccessControl(c.Get("username")))
	},
	"POST /certificate": controlCertificate,
}

// found is the answer of an action on something that may not be there.
func (c *controlCall) found(ok bool) (any, error) {
	if !ok {
		return nil, errNotFound
	}
	return done, nil
}

// value reads a parameter of the query.
func value[T any](c *controlCall, name string, parse func(string) (T, error)) (T, error) {
	v, err := parse(c.Get(name))
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

func (s *Simulator) controlSettings(c *controlCall) (any, error) {
	if err := s.adjust(func(v *Settings) error { return v.UnmarshalJSON(c.body) }); err != nil {
		return nil, err
	}
	return s.Settings(), nil
}

func (s *Simulator) controlLatency(c *controlCall) (any, error) {
	l, err := value(c, "duration", ParseLatency)
	if err != nil {
		return nil, err
	}
	s.Adjust(func(v *Settings) { v.Latency = l })
	return done, nil
}

// controlRule is a rule at work.
type controlRule struct {
	ID    int    `json:"id"`
	Hits  int    `json:"hits"`
	Error string `json:"error,omitempty"` // of its last action that failed
	Rule  Rule   `json:"rule"`
}

func (s *Simulator) controlRules() any {
	s.rules.mu.Lock()
	defer s.rules.mu.Unlock()
	list := []controlRule{}
	for _, i := range s.rules.list {
		list = append(list, controlRule{i.id, i.hits, i.failure, i.rule})
	}
	return map[string]any{"rules": list}
}

func (s *Simulator) controlInject(c *controlCall) (any, error) {
	var r Rule
	if err := r.UnmarshalJSON(c.body); err != nil {
		return nil, err
	}
	i, err := s.inject(r)
	if err != nil {
		return nil, err
	}
	return map[string]int{"id": i.id}, nil
}

func (s *Simulator) controlRemove(c *controlCall) (any, error) {
	if !c.Has("id") {
		s.ClearRules()
		return done, nil
	}
	id, err := value(c, "id", strconv.Atoi)
	if err != nil {
		return nil, err
	}
	s.rules.mu.Lock()
	defer s.rules.mu.Unlock()
	n := len(s.rules.list)
	s.rules.list = slices.DeleteFunc(s.rules.list, func(i *Injection) bool { return i.id == id })
	return c.found(len(s.rules.list) < n)
}

func (s *Simulator) controlClock(c *controlCall) (any, error) {
	d, err := value(c, "advance", time.ParseDuration)
	if err != nil {
		return nil, err
	}
	s.Advance(d)
	return map[string]time.Time{"now": s.Now()}, nil
}

func (s *Simulator) controlToken(set func(string, Token)) control {
	return func(c *controlCall) (any, error) {
		type permissions Token // another name than the field's
		var in struct {
			Token string `json:"token"`
			permissions
		}
		if err := decodeStrict(c.body, &in); err != nil {
			return nil, err
		}
		if in.Token == "" {
			return nil, errors.New("token: want a token")
		}
		set(in.Token, Token(in.permissions))
		return map[string]string{"id": TokenID(in.Token)}, nil
	}
}

func (s *Simulator) controlAuthenticate(c *controlCall) (any, error) {
	var in struct{ Project, Service, Username, Password, Certificate, Key string }
	if err := json.Unmarshal(c.body, &in); err != nil {
		return nil, invalid("the body is not valid JSON")
	}
	svc := s.Service(in.Project, in.Service)
	ok := svc != nil && (svc.Accepts(in.Username, in.Password) || svc.AcceptsCertificate(in.Username, in.Certificate, in.Key))
	return map[string]bool{"ok": ok}, nil
}

func (s *Simulator) controlServices() any {
	list := []map[string]any{}
	for _, p := range s.Projects() {
		for _, svc := range p.Services() {
			list = append(list, map[string]any{
				"project": p.Name(), "service": svc.Name(), "type": svc.Type(), "state": svc.State(), "users": len(svc.Users()),
			})
		}
	}
	return map[string]any{"services": list}
}

func (s *Simulator) controlGauges() any {
	list := []map[string]any{}
	for _, p := range s.Projects() {
		for _, svc := range p.Services() {
			list = append(list, map[string]any{"project": p.Name(), "service": svc.Name(), "gauges": svc.Gauges()})
		}
	}
	return map[string]any{"services": list}
}

type certificateBody struct {
	Certificate string `json:"certificate"`
}

func controlSetCA(c *controlCall) (any, error) {
	var in certificateBody
	if err := decodeStrict(c.body, &in); err != nil {
		return nil, err
	}
	c.project.SetCA(in.Certificate)
	return done, nil
}

func controlAddService(c *controlCall) (any, error) {
	name := c.Get("service")
	var config ServiceConfig
	if former := c.project.Service(name); former != nil && len(c.body) == 0 {
		config = former.Config()
	} else if err := decodeStrict(c.body, &config); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errors.New("service: want a name")
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	c.project.AddService(name, config)
	return done, nil
}

func controlConfig(c *controlCall) (any, error) {
	config := c.service.Config()
	if err := decodeStrict(c.body, &config); err != nil {
		return nil, err
	}
	if err := c.service.SetConfig(config); err != nil {
		return nil, err
	}
	return c.service.Config(), nil
}

func controlState(c *controlCall) (any, error) {
	state := State(c.Get("state"))
	if !state.IsKnown() {
		return nil, invalid("unknown state")
	}
	c.service.SetState(state)
	return done, nil
}

// IsKnown tells whether the API knows such a state.
func (s State) IsKnown() bool {
	return slices.Contains([]State{Running, Rebalancing, Rebuilding, PowerOff}, s)
}

type componentsBody struct {
	Components []Component `json:"components"`
}

func controlComponents(c *controlCall) (any, error) {
	var in componentsBody
	if err := decodeStrict(c.body, &in); err != nil {
		return nil, err
	}
	c.service.SetComponents(in.Components)
	return done, nil
}

func controlAddress(c *controlCall) (any, error) {
	port, err := value(c, "port", strconv.Atoi)
	if err != nil {
		return nil, err
	}
	c.service.SetAddress(c.Get("host"), port)
	return done, nil
}

func controlACLs(c *controlCall) (any, error) {
	s := c.service
	switch s.Type() {
	case Kafka:
		return map[string]any{"acl": s.KafkaACLs(), "kafka_acl": s.KafkaNativeACLs()}, nil
	case OpenSearch:
		return map[string]any{"opensearch_acl_config": s.OpenSearchACLs()}, nil
	default:
		return map[string]any{}, nil
	}
}

func controlSetACLs(c *controlCall) (any, error) {
	var in OpenSearchACLConfig
	if c.service.kind != OpenSearch {
		return nil, errUnsupported
	}
	if err := decodeStrict(c.body, &in); err != nil {
		return nil, err
	}
	c.service.SetOpenSearchACLs(in)
	return done, nil
}

func controlAddACL(c *controlCall) (any, error) {
	switch c.service.kind {
	case Kafka:
		var in KafkaACL
		if err := decodeStrict(c.body, &in); err != nil {
			return nil, err
		}
		return c.service.AddKafkaACL(in), nil
	case OpenSearch:
		var in OpenSearchACL
		if err := decodeStrict(c.body, &in); err != nil {
			return nil, err
		}
		c.service.AddOpenSearchACL(in)
		return done, nil
	default:
		return nil, errUnsupported
	}
}

func controlAddNativeACL(c *controlCall) (any, error) {
	var in KafkaNativeACL
	if c.service.kind != Kafka {
		return nil, errUnsupported
	}
	if err := decodeStrict(c.body, &in); err != nil {
		return nil, err
	}
	return c.service.AddKafkaNativeACL(in), nil
}

func controlUsers(c *controlCall) (any, error) {
	type line struct {
		Username   string `json:"username"`
		Type       string `json:"type"`
		Generation int    `json:"generation"`
	}
	list := []line{}
	for _, u := range c.service.Users() {
		list = append(list, line{u.Username, u.Type, u.Generation})
	}
	return map[string]any{"users": list}, nil
}

func controlAddUser(c *controlCall) (any, error) {
	var in User
	if len(c.body) > 0 {
		if err := decodeStrict(c.body, &in); err != nil {
			return nil, err
		}
	}
	if c.Has("username") {
		in.Username = c.Get("username")
	}
	if in.Username == "" {
		return nil, errors.New("username: want a name")
	}
	c.service.AddUser(in)
	return done, nil
}

func controlPassword(c *controlCall) (any, error) {
	var in struct {
		Password string `json:"password"`
	}
	if err := decodeStrict(c.body, &in); err != nil {
		return nil, err
	}
	if c.Get("override") == "true" {
		return c.found(c.service.OverridePassword(c.Get("username"), in.Password))
	}
	return c.found(c.service.SetPassword(c.Get("username"), in.Password))
}

func controlAccess(c *controlCall) (any, error) {
	var in AccessControl
	if err := decodeStrict(c.body, &in); err != nil {
		return nil, err
	}
	return c.found(c.service.SetAccessControl(c.Get("username"), in))
}

func controlCertificate(c *controlCall) (any, error) {
	if !c.Has("end") {
		return c.found(c.service.RenewCertificate(c.Get("username")))
	}
	end, err := value(c, "end", func(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) })
	if err != nil {
		return nil, err
	}
	return c.found(c.service.SetCertificateEnd(c.Get("username"), end))
}
