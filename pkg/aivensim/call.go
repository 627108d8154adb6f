package aivensim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// maxBody is the largest request body, in bytes: an OpenSearch ACL document at its limits fits.
const maxBody = 64 << 20

// call is one request on its way.
type call struct {
	Request
	sim           *Simulator
	settings      *Settings
	route         route
	path          string // as it was sent
	authorization string
	asksSecrets   bool
	aclID         string
	body          []byte
	now           time.Time
	post          *post // of a POST

	// Set while it is handled.
	token   Token
	project *Project
	service *Service
	// plain says that the answer shows secrets.
	plain bool
	// fresh says that this read sees everything, whatever the lag.
	fresh bool
	// stale says that the answer lacks something because of a lag.
	stale bool
	// lost are the rules of an OpenSearch ACL document that the request lost.
	lost []string
}

// answer is what is sent back.
type answer struct {
	status int
	header http.Header
	body   parts
	// retryIn is how long the client is asked to wait.
	retryIn time.Duration
}

// serve handles the requests of a route: decide what happens to it, wait, handle, record, answer.
func (s *Simulator) serve(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			panic(http.ErrAbortHandler) // the client went away, or sends without end
		}
		c, arrival := s.newCall(rt, r, body), time.Now()
		early, pause := s.limits.arrive(c.Token, c.now, c.settings.RateLimit)
		s.journal.arrive(c, early, c.settings.RepeatWindow)
		defer func() { s.journal.leave(c.Operation, time.Since(arrival)) }()

		var t treatment
		if pause > 0 {
			t.Answer = TooManyRequests(pause, c.settings.RateLimit.RetryAfter)
		} else {
			t = s.rules.apply(c, c.settings.Latency)
		}
		entry := Entry{Request: c.Request, Time: c.now, Lost: true, Faults: t.faults()}
		if pause > 0 {
			entry.Faults = []string{"rateLimit"}
		}
		if !wait(r.Context(), t.delay) {
			s.journal.record(c, entry)
			panic(http.ErrAbortHandler)
		}
		a, committed := c.treat(t, &entry)
		gone := t.Stall > 0 && !wait(r.Context(), t.Stall)
		entry.Lost = gone || t.loss() != ""
		entry.CommitLost = committed && (gone || t.distorts() || r.Context().Err() != nil)
		s.journal.record(c, entry)
		switch {
		case gone:
			panic(http.ErrAbortHandler)
		case t.loss() == LossClose, t.loss() == LossReset:
			sever(w, t.loss())
			return
		}
		if a.retryIn > 0 {
			s.limits.hold(c.Token, c.now.Add(a.retryIn))
		}
		a.send(r.Context(), w, &t.Rule)
	}
}

// treat does what a rule wants done to a request until it is answered, and enters it in the journal's entry. It tells
// whether the request changed anything.
func (c *call) treat(t treatment, entry *Entry) (a answer, committed bool) {
	if t.Before != nil {
		t.Before(c.Request)
	}
	for _, action := range t.Do {
		if _, err := c.sim.Do(action); err != nil {
			t.injection.fail(err)
		}
	}
	c.now, c.settings = c.sim.now(), c.sim.settings.Load()
	if t.handles() {
		a = c.handle()
		committed = c.Method != http.MethodGet && a.status == http.StatusOK
		entry.LostUpdates = c.lost
		if c.stale {
			entry.Faults = append(entry.Faults, "lag")
		}
	}
	if t.Answer != nil {
		a = t.Answer.to(c, cmp.Or(c.settings.RateLimit.Requests, PerMinute120().Requests))
	}
	entry.Status, entry.Bytes = a.status, a.body.size()
	return a, committed
}

func (s *Simulator) newCall(rt route, r *http.Request, body []byte) *call {
	token, _ := tokenOf(r.Header.Get("Authorization"))
	c := &call{
		Request: Request{
			Method:    r.Method,
			Operation: rt.operation,
			Project:   r.PathValue("project"),
			Service:   r.PathValue("service"),
			Username:  r.PathValue("user"),
			Query:     r.URL.RawQuery,
			Token:     TokenID(token),
		},
		sim:           s,
		settings:      s.settings.Load(),
		route:         rt,
		path:          r.URL.EscapedPath(),
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

// handle checks the request and does its work.
func (c *call) handle() answer {
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
	if c.token, err = c.authenticate(); err != nil {
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
	c.fresh = c.service.takesTurns(c)
	return c.service.admit(c)
}

// reveal decides whether the answer shows secrets. Since 1 March 2027 Aiven shows them where they are made by user
// create, and to reads that ask for them; modifications never show them.
func (c *call) reveal() error {
	c.plain = c.settings.Redaction == NotRedacted || c.Operation == ServiceUserCreate
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
