package aiven

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
)

// census counts the users of all services that there is a snapshot of. A scrape calls nothing.
type census struct{ client *Client }

var usersCount = prometheus.NewDesc("aivenator_service_users_count",
	"Service users by project and by the form of their names, of the services that were read lately.", []string{"pool", "username_convention"}, nil)

// The forms of names.
var (
	kafkaForm = regexp.MustCompile(`^[^_]+_[^_]+_[0-9a-f]{8}_...$`)
	otherForm = regexp.MustCompile(`-([a-z0-9]{8}|[-_A-Za-z0-9]{3})$`)
)

// Describe says what Collect sends.
func (census) Describe(to chan<- *prometheus.Desc) { to <- usersCount }

// Collect counts.
func (s census) Collect(to chan<- prometheus.Metric) {
	type series struct{ project, convention string }
	counts := map[series]int{}
	s.client.mu.Lock()
	for ref, e := range s.client.services {
		e.mu.Lock()
		if e.read != nil {
			for _, name := range e.read.Usernames() {
				counts[series{ref.Project, convention(name)}]++
			}
		}
		e.mu.Unlock()
	}
	s.client.mu.Unlock()
	for of, n := range counts {
		to <- prometheus.MustNewConstMetric(usersCount, prometheus.GaugeValue, float64(n), of.project, of.convention)
	}
}

func convention(username string) string {
	switch {
	case kafkaForm.MatchString(username):
		return "team_app_hash_suffix"
	case otherForm.MatchString(username):
		return "name-suffix"
	default:
		return "other"
	}
}
