package v1

import (
	"fmt"
	"time"
)

// OrDefault returns the level, read where none is given.
func (a Access) OrDefault() Access {
	if a == "" {
		return AccessRead
	}
	return a
}

// Expiry returns the moment given by expiresAt, nil where there is none, and an error
// where it is not an RFC 3339 time, which only an object can hold that was stored before
// the schema asked for one.
func (s *AivenApplicationSpec) Expiry() (*time.Time, error) {
	if s.ExpiresAt == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339, s.ExpiresAt)
	if err != nil {
		return nil, fmt.Errorf("read spec.expiresAt: %q is not an RFC 3339 time such as 2030-01-31T12:00:00Z", s.ExpiresAt)
	}
	return &t, nil
}

// minPeriod is the shortest interval and overlap.
const minPeriod = time.Minute

// Periods returns how long a user is current and how long it lives on after that. An
// overlap that is not given is half of the interval. The error names the field that cannot
// be used, which only an object can hold that was stored before the schema refused it.
func (r *Rotation) Periods() (interval, overlap time.Duration, err error) {
	interval, err = time.ParseDuration(r.Interval)
	if err != nil || interval < minPeriod {
		return 0, 0, fmt.Errorf("read spec.rotation.interval: %q is not a duration of at least 1m such as 720h", r.Interval)
	}
	if r.Overlap == "" {
		return interval, interval / 2, nil
	}
	overlap, err = time.ParseDuration(r.Overlap)
	if err != nil || overlap < minPeriod || overlap >= interval {
		return 0, 0, fmt.Errorf("read spec.rotation.overlap: %q is not a duration of at least 1m and shorter than the interval %s", r.Overlap, r.Interval)
	}
	return interval, overlap, nil
}
