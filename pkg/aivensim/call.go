package aivensim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxBody is the largest request body, in bytes: an OpenSearch ACL document at its limits fits.
const maxBody = 64 << 20

// call is one request on its way.
type call struct {
	Request
	sim           *Simulator
	route         route
	authorization string
	asksSecrets   bool
	aclID         string
	body          []byte
	now           time.Time

	// Set while it is checked.
	token   Token
	project *Project
	service *Service
	// plain says that the answer shows secrets.
	plain bool
}

// answer is what is sent back.
type answer struct {
	status int
	header http.Header
	body   parts
}

// serve handles the requests of a route: look for a rule, wait, handle, record, answer.
func (s *Simulator) serve(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			panic(http.ErrAbortHandler) // the client went away, or sends without end
		}
		c := s.newCall(rt, r, body)
		s.journal.arrive(c.Request)
		defer s.journal.leave()

		rule := s.rules.apply(c.Request)
		entry := Entry{Request: c.Request, Time: c.now, Lost: true}
		if !wait(r.Context(), time.Duration(s.latency.Load())+rule.Delay) {
			s.journal.record(entry)
			panic(http.ErrAbortHandler)
		}
		if rule.Before != nil {
			rule.Before(c.Request)
		}
		var a answer
		if rule.Commit || rule.Answer == nil && !rule.Reset {
			a = c.handle()
		}
		if rule.Answer != nil {
			a = answer{status: rule.Answer.Status, header: rule.Answer.Header, body: parts{[]byte(rule.Answer.Body)}}
		}
		entry.Status, entry.Lost, entry.Bytes = a.status, rule.Reset, a.body.size()
		s.journal.record(entry)
		if rule.Reset {
			panic(http.ErrAbortHandler)
		}
		a.write(w)
	}
}

func (s *Simulator) newCall(rt route, r *http.Request, body []byte) *call {
	c := &call{
		Request: Request{
			Method:    r.Method,
			Operation: rt.operation,
			Project:   r.PathValue("project"),
			Service:   r.PathValue("service"),
			Username:  r.PathValue("user"),
			Query:     r.URL.RawQuery,
		},
		sim:           s,
		route:         rt,
		authorization: r.Header.Get("Authorization"),
		asksSecrets:   r.URL.Query().Get("include_secrets") == "true",
		aclID:         r.PathValue("acl"),
		body:          body,
		now:           s.now(),
	}
	if rt.operation == ServiceUserCreate || rt.operation == ServiceKafkaACLAdd {
		var in struct {
			Username string `json:"username"`
		}
		_ = json.Unmarshal(body, &in) // the handler says what is wrong with it
		c.Username = in.Username
	}
	return c
}

// wait returns after d, or early with false if the client went away.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// handle checks the request and does its work.
func (c *call) handle() answer {
	c.now = c.sim.now()
	var body parts
	err := c.admit()
	if err == nil {
		body, err = c.route.handle(c)
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		return answer{status: e.Status, body: parts{e.body()}}
	}
	return answer{status: http.StatusOK, body: body}
}

// admit finds project and service of the request, and refuses what is refused alike for every operation.
func (c *call) admit() (err error) {
	if c.token, err = c.sim.authenticate(c.authorization); err != nil {
		return err
	}
	if c.Project != "" {
		if c.project = c.sim.Project(c.Project); c.project == nil {
			return fail(http.StatusNotFound, "project_not_found", "Project not found")
		}
		if !c.token.isMember(c.Project) {
			return fail(http.StatusForbidden, "", "Not a project member")
		}
	}
	if slices.Contains(c.token.Deny, c.Operation) {
		return errPermissionDenied
	}
	if err := c.reveal(); err != nil {
		return err
	}
	if c.Service == "" {
		return nil
	}
	if c.service = c.project.Service(c.Service); c.service == nil {
		return c.noService()
	}
	return c.service.admit(c)
}

// reveal decides whether the answer shows secrets. Since 1 March 2027 Aiven shows them where they are made by user
// create, and to reads that ask for them; modifications never show them.
func (c *call) reveal() error {
	c.plain = c.sim.options.ShowSecrets || c.Operation == ServiceUserCreate
	reads := c.Operation == ServiceList || c.Operation == ServiceGet || c.Operation == ServiceUserGet
	if !c.asksSecrets || !reads {
		return nil
	}
	switch c.token.Secrets {
	case SecretsShown:
		c.plain = true
	case SecretsForbidden:
		return errPermissionDenied
	}
	return nil
}

// noService is the answer for an unknown service. The text that most operations give makes Aiven's clients repeat a
// POST; listing and deleting Kafka ACLs is documented to give a code instead.
func (c *call) noService() error {
	if c.Operation == ServiceKafkaACLList || c.Operation == ServiceKafkaACLDelete {
		return fail(http.StatusNotFound, "service_not_found", "Service not found")
	}
	return fail(http.StatusNotFound, "", fmt.Sprintf("Service %s does not exist", c.Service))
}

// notFound answers a path that is not emulated.
func (c *call) notFound() (parts, error) { return nil, errNotFound }

// decode reads the request body.
func (c *call) decode(into any) error {
	err := json.Unmarshal(c.body, into)
	var t *json.UnmarshalTypeError
	switch {
	case errors.As(err, &t):
		return invalid("%s is not of type %s: %s", t.Value, t.Type, t.Field)
	case err != nil:
		return invalid("the body is not valid JSON")
	}
	return nil
}

// writers buffers the pieces of large bodies.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// write sends the answer. A client that went away is its own affair.
func (a answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	for k, v := range a.header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	h.Set("Content-Length", strconv.FormatInt(a.body.size(), 10))
	w.WriteHeader(a.status)
	b := writers.Get().(*bufio.Writer)
	b.Reset(w)
	for _, p := range a.body {
		if _, err := b.Write(p); err != nil {
			break
		}
	}
	_ = b.Flush()
	b.Reset(nil)
	writers.Put(b)
}
