package aivensim

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
)

// Control returns the handler for those who run the simulator as a program. It needs no token, shows no secret, and
// belongs on a listener of its own. Parameters are in the query, answers are JSON; unknown projects, services and users
// are 404.
//
//	GET    /services                              all services with their state and number of users
//	GET    /users?project=&service=               names and types of the users
//	POST   /users?project=&service=&username=     add a user, as somebody else would
//	DELETE /users?project=&service=&username=     delete a user likewise
//	GET    /acl?project=&service=                 Kafka ACLs of both kinds, or the OpenSearch ACL document
//	POST   /state?project=&service=&state=        set the state of a service
//	POST   /latency?duration=                     set the latency, as "20ms"
//	POST   /authenticate                          {"project","service","username","password"}: {"ok":true} if it logs in
//	GET    /counters                              Counters
//	POST   /reset-counters                        set them to zero, empty the journal
//	GET    /journal                               {"entries":[Entry, ...]}
func (s *Simulator) Control() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			a := answer{status: http.StatusOK}
			v, err := f(r)
			if err != nil {
				a.status, v = http.StatusBadRequest, map[string]string{"error": err.Error()}
				if errors.Is(err, errNotFound) {
					a.status = http.StatusNotFound
				}
			}
			a.body = parts{encode(v)}
			a.write(w)
		})
	}
	ofService := func(pattern string, f func(*Service, *http.Request) (any, error)) {
		handle(pattern, func(r *http.Request) (any, error) {
			svc := s.Service(r.FormValue("project"), r.FormValue("service"))
			if svc == nil {
				return nil, errNotFound
			}
			return f(svc, r)
		})
	}
	done := map[string]bool{"ok": true}

	handle("GET /services", func(*http.Request) (any, error) { return map[string]any{"services": s.controlServices()}, nil })
	handle("GET /counters", func(*http.Request) (any, error) { return s.Counters(), nil })
	handle("GET /journal", func(*http.Request) (any, error) { return map[string]any{"entries": s.Journal()}, nil })
	handle("POST /reset-counters", func(*http.Request) (any, error) { s.ResetCounters(); return done, nil })
	handle("POST /latency", func(r *http.Request) (any, error) {
		d, err := time.ParseDuration(r.FormValue("duration"))
		if err != nil {
			return nil, err
		}
		s.SetLatency(d)
		return done, nil
	})
	handle("POST /authenticate", func(r *http.Request) (any, error) {
		var in struct{ Project, Service, Username, Password string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			return nil, invalid("the body is not valid JSON")
		}
		return map[string]bool{"ok": s.Authenticate(in.Project, in.Service, in.Username, in.Password)}, nil
	})
	ofService("GET /users", func(svc *Service, _ *http.Request) (any, error) { return svc.controlUsers(), nil })
	ofService("POST /users", func(svc *Service, r *http.Request) (any, error) {
		svc.AddUser(User{Username: r.FormValue("username")})
		return done, nil
	})
	ofService("DELETE /users", func(svc *Service, r *http.Request) (any, error) {
		if !svc.DeleteUser(r.FormValue("username")) {
			return nil, errNotFound
		}
		return done, nil
	})
	ofService("GET /acl", func(svc *Service, _ *http.Request) (any, error) { return svc.controlACL(), nil })
	ofService("POST /state", func(svc *Service, r *http.Request) (any, error) {
		state := State(r.FormValue("state"))
		if !state.IsKnown() {
			return nil, invalid("unknown state")
		}
		svc.SetState(state)
		return done, nil
	})
	return mux
}

// IsKnown tells whether the API knows such a state.
func (s State) IsKnown() bool {
	return slices.Contains([]State{Running, Rebalancing, Rebuilding, PowerOff}, s)
}

func (s *Simulator) controlServices() []map[string]any {
	list := []map[string]any{}
	for _, p := range s.Projects() {
		for _, svc := range p.Services() {
			list = append(list, map[string]any{
				"project": p.Name(), "service": svc.Name(), "type": svc.Type(), "state": svc.State(), "users": len(svc.Users()),
			})
		}
	}
	return list
}

func (s *Service) controlUsers() any {
	type line struct {
		Username string `json:"username"`
		Type     string `json:"type"`
	}
	list := []line{}
	for _, u := range s.Users() {
		list = append(list, line{Username: u.Username, Type: u.Type})
	}
	return map[string]any{"users": list}
}

func (s *Service) controlACL() any {
	switch s.Type() {
	case Kafka:
		return map[string]any{"acl": s.KafkaACLs(), "kafka_acl": s.KafkaNativeACLs()}
	case OpenSearch:
		return map[string]any{"opensearch_acl_config": s.OpenSearchACLs()}
	default:
		return map[string]any{}
	}
}
