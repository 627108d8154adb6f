package aiven

import (
	"cmp"
	"slices"
)

// routes are the ways to a service, the preferred one first: dynamic is the one that follows the service's network settings.
var routes = []string{"dynamic", "public", "private", "privatelink"}

// Component finds the address of a part of the service, whatever order Aiven lists them in: encrypted, for Kafka with client certificates, over
// the preferred route. An empty usage takes any, primary first.
func (s *Service) Component(name, usage string) (Component, bool) {
	var found []Component
	for _, c := range s.Components {
		if c.Component != name || !c.SSL || usage != "" && c.Usage != usage || c.Host == "" || c.Port == 0 {
			continue
		}
		if c.KafkaAuthenticationMethod != "" && c.KafkaAuthenticationMethod != "certificate" {
			continue
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return Component{}, false
	}
	return slices.MinFunc(found, func(a, b Component) int {
		return cmp.Or(
			cmp.Compare(rank(a.Usage, []string{"primary"}), rank(b.Usage, []string{"primary"})),
			cmp.Compare(rank(a.Route, routes), rank(b.Route, routes)),
			cmp.Compare(a.Host, b.Host),
			cmp.Compare(a.Port, b.Port),
		)
	}), true
}

// rank is the position of a value in an order of preference; unknown ones come last.
func rank(v string, order []string) int {
	if i := slices.Index(order, v); i >= 0 {
		return i
	}
	return len(order)
}
