package aivensim

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Settings are what can be changed at any time and holds for the whole simulator. In JSON durations are texts:
// {"latency":"uniform 5ms 20ms","lag":{"userGet":"2s"},"rateLimit":{"requests":120,"per":"1m"}}.
type Settings struct {
	// Latency is how long each request waits before it is handled, in real time.
	Latency Latency `json:"latency"`
	// Lag is how far reads are behind.
	Lag Lag `json:"lag"`
	// RateLimit is how many requests each token may send.
	RateLimit RateLimit `json:"rateLimit"`
	// Redaction is what stands in the place of secrets.
	Redaction Redaction `json:"redaction"`
	// PoweredOff is the status with which work on a powered-off service is refused: 409 or 503.
	PoweredOff int `json:"poweredOff"`
	// UserLimit is Options.UserLimit.
	UserLimit int `json:"userLimit"`
	// RepeatWindow is how long after a POST an identical one counts as its repetition, by Options.Clock.
	RepeatWindow time.Duration `json:"repeatWindow"`
}

// Lag delays what reads show, as an eventually consistent API does. Each value is measured by Options.Clock from a change
// through the API, and applies to changes made while it is set. Changes through the Go API are seen at once, save by lists
// of ACLs while another change is on its way to them.
type Lag struct {
	// UserGet is how long a new user is 404 to user get.
	UserGet time.Duration `json:"userGet"`
	// ServiceGet is how long a new user is missing in the users of service get and service list, and in the service that
	// a modification answers.
	ServiceGet time.Duration `json:"serviceGet"`
	// Credentials is how long password, certificate and key are empty strings, in the answer to user create as well,
	// also after a reset. Former ones are never answered.
	Credentials time.Duration `json:"credentials"`
	// Deleted is how long all those reads still show a deleted user, unless one of that name is made again.
	Deleted time.Duration `json:"deleted"`
	// AccessControl is how long they show a user's former rights.
	AccessControl time.Duration `json:"accessControl"`
	// KafkaACL is how long lists of Kafka ACLs of both kinds lack a new entry and show a deleted one: in ACL lists, in
	// services, and in the answers to changes.
	KafkaACL time.Duration `json:"kafkaACL"`
	// OpenSearchACL is how long a read of the ACL document shows the former one.
	OpenSearchACL time.Duration `json:"openSearchACL"`
	// Service is how long a new service does not exist for POSTs.
	Service time.Duration `json:"service"`
	// Alternate lets every second GET of a service see everything at once, as if replicas took turns.
	Alternate bool `json:"alternate"`
}

// Redaction is what stands in the place of secrets that an answer does not show.
type Redaction string

const (
	// Redacted answers "<redacted>", as Aiven does from 1 March 2027 on: secrets are shown by user create, and by reads with
	// include_secrets=true.
	Redacted Redaction = "redacted"
	// RedactedNull answers passwords and keys as null; service_uri and the like as "<redacted>".
	RedactedNull Redaction = "null"
	// RedactedEmpty answers passwords and keys as empty strings; service_uri and the like as "<redacted>".
	RedactedEmpty Redaction = "empty"
	// NotRedacted answers secrets to everybody, as Aiven does before that date.
	NotRedacted Redaction = "off"
)

// UnmarshalJSON implements json.Unmarshaler. What the JSON does not have stays.
func (s *Settings) UnmarshalJSON(data []byte) error {
	type plain Settings
	return decodeStrict(data, (*plain)(s))
}

// MarshalJSON implements json.Marshaler.
func (s Settings) MarshalJSON() ([]byte, error) {
	type plain Settings
	return encodeTexts(plain(s))
}

// Settings returns the settings that hold now.
func (s *Simulator) Settings() Settings { return *s.settings.Load() }

// Adjust changes the settings. It panics if they make no sense.
func (s *Simulator) Adjust(f func(*Settings)) {
	if err := s.adjust(func(v *Settings) error { f(v); return nil }); err != nil {
		panic("aivensim: bad settings: " + err.Error())
	}
}

func (s *Simulator) adjust(f func(*Settings) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.settings.Load()
	if err := f(&next); err != nil {
		return err
	}
	if err := next.check(); err != nil {
		return err
	}
	s.settings.Store(&next)
	return nil
}

// check tells what is wrong with the settings, by the name that the field has in JSON.
func (s Settings) check() error {
	l := s.Lag
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"lag.userGet", l.UserGet}, {"lag.serviceGet", l.ServiceGet}, {"lag.credentials", l.Credentials},
		{"lag.deleted", l.Deleted}, {"lag.accessControl", l.AccessControl}, {"lag.kafkaACL", l.KafkaACL},
		{"lag.openSearchACL", l.OpenSearchACL}, {"lag.service", l.Service}, {"repeatWindow", s.RepeatWindow},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s: want no negative time", d.field)
		}
	}
	switch {
	case s.RateLimit.Requests < 0:
		return errors.New("rateLimit.requests: want no negative number")
	case s.RateLimit.Requests > 0 && s.RateLimit.Per <= 0:
		return errors.New("rateLimit.per: want a positive time")
	case !isOneOf(string(s.Redaction), string(Redacted), string(RedactedNull), string(RedactedEmpty), string(NotRedacted)):
		return fmt.Errorf("redaction: want redacted, null, empty or off, got %q", s.Redaction)
	case s.PoweredOff != http.StatusConflict && s.PoweredOff != http.StatusServiceUnavailable:
		return fmt.Errorf("poweredOff: want 409 or 503, got %d", s.PoweredOff)
	}
	if err := s.Latency.check(); err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	if err := s.RateLimit.RetryAfter.check(); err != nil {
		return fmt.Errorf("rateLimit.retryAfter: %w", err)
	}
	return nil
}

// SetLatency changes how long each request waits before it is handled, in real time.
func (s *Simulator) SetLatency(d time.Duration) {
	s.Adjust(func(v *Settings) { v.Latency = Constant(d) })
}

// SetLag changes how far reads are behind changes that are made from now on.
func (s *Simulator) SetLag(l Lag) { s.Adjust(func(v *Settings) { v.Lag = l }) }

// history is what a value was before the changes that reads do not see yet, oldest first. It is never changed in place.
type history[T any] []struct {
	until time.Time
	value T
}

// with returns the history after a change. Until then reads see the former value.
func (h history[T]) with(now time.Time, lag time.Duration, former T) history[T] {
	var out history[T]
	for _, past := range h {
		if past.until.After(now) {
			out = append(out, past)
		}
	}
	if lag <= 0 {
		return out
	}
	return append(out, struct {
		until time.Time
		value T
	}{now.Add(lag), former})
}

// seen returns what a call sees of a value.
func (h history[T]) seen(c *call, current T) T {
	for _, past := range h {
		if c.misses(past.until) {
			return past.value
		}
	}
	return current
}

// misses tells whether a call does not see yet what reads see from a time on.
func (c *call) misses(from time.Time) bool {
	if c.fresh || !from.After(c.now) {
		return false
	}
	c.stale = true
	return true
}
