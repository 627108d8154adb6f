package aivensim

// Component is an address of a service. A client has to select by component, usage, route, authentication method and
// encryption; the order means nothing.
type Component struct {
	// Component is what answers there: kafka, schema_registry, opensearch, pg, valkey and so on.
	Component string `json:"component"`
	Host      string `json:"host"`
	Port      int    `json:"port"`
	// Route is the network route: dynamic, public, private or privatelink.
	Route string `json:"route"`
	// Usage is primary or replica.
	Usage string `json:"usage"`
	// SSL is present only where encryption can be off; nil means encrypted.
	SSL *bool `json:"ssl,omitempty"`
	// KafkaAuthenticationMethod is certificate or sasl, for component kafka only.
	KafkaAuthenticationMethod string `json:"kafka_authentication_method,omitempty"`
	// KafkaSSLCA is project_ca or letsencrypt; empty means project_ca.
	KafkaSSLCA string `json:"kafka_ssl_ca,omitempty"`
	// PrivatelinkConnectionID is set for route privatelink.
	PrivatelinkConnectionID string `json:"privatelink_connection_id,omitempty"`
}

// derive returns the components that the configuration asks for: those of route dynamic first, then those of the
// other routes. The caller holds the lock.
func (s *Service) derive(v *serviceState) []Component {
	if v.config.NoComponents {
		return nil
	}
	list := v.config.components()
	for i := range list {
		c := &list[i]
		// The first port is that of certificate authentication, also where that is off: service_uri then names a port that
		// no component has.
		c.Host, c.Port, c.Route = v.host, v.port+c.Port, "dynamic"
		if c.Usage == "" {
			c.Usage = "primary"
		} else {
			c.Host = c.Usage + "." + c.Host
		}
	}
	n := len(list)
	for _, route := range v.config.Routes {
		for _, c := range list[:n] {
			c.Host, c.Route = route+"-"+c.Host, route
			if route == "privatelink" {
				c.PrivatelinkConnectionID = "plc" + s.name
			}
			list = append(list, c)
		}
	}
	return list
}

// components returns the components with their ports counted from the first port of the service, without hosts and
// routes, and with no usage for primary ones.
func (c ServiceConfig) components() []Component {
	encrypted := true
	switch c.Type {
	case Kafka:
		var list []Component
		add := func(when bool, component Component) {
			if when {
				list = append(list, component)
			}
		}
		add(!c.NoCertificate, Component{Component: "kafka", SSL: &encrypted, KafkaAuthenticationMethod: "certificate"})
		add(c.SASL, Component{Component: "kafka", Port: 1, SSL: &encrypted, KafkaAuthenticationMethod: "sasl"})
		add(c.LetsEncryptSASL, Component{Component: "kafka", Port: 2, SSL: &encrypted, KafkaAuthenticationMethod: "sasl", KafkaSSLCA: "letsencrypt"})
		add(c.SchemaRegistry, Component{Component: "schema_registry", Port: 3})
		add(c.KafkaREST, Component{Component: "kafka_rest", Port: 4})
		add(c.KafkaConnect, Component{Component: "kafka_connect", Port: 5})
		return list
	case OpenSearch:
		if c.NoDashboards {
			return []Component{{Component: "opensearch"}}
		}
		return []Component{{Component: "opensearch"}, {Component: "opensearch_dashboards", Port: 1}}
	case PostgreSQL:
		return []Component{{Component: "pg"}, {Component: "pgbouncer", Port: 1}}
	default:
		var ssl *bool
		if c.NoTLS {
			ssl = new(bool)
		}
		list := []Component{{Component: "valkey", SSL: ssl}}
		if c.Replica {
			list = append(list, Component{Component: "valkey", Usage: "replica", SSL: ssl})
		}
		return list
	}
}

// scheme returns the scheme of service_uri, empty for Kafka, whose URI has none.
func (c ServiceConfig) scheme() string {
	switch {
	case c.Type == OpenSearch:
		return "https"
	case c.Type == PostgreSQL:
		return "postgres"
	case c.Type == Valkey && c.NoTLS:
		return "valkey"
	case c.Type == Valkey:
		return "valkeys"
	}
	return ""
}

// userConfig returns the settings of the service, as far as the configuration has them.
func (c ServiceConfig) userConfig() map[string]any {
	switch c.Type {
	case Kafka:
		return map[string]any{
			"kafka_authentication_methods": map[string]bool{"certificate": !c.NoCertificate, "sasl": c.SASL || c.LetsEncryptSASL},
			"letsencrypt_sasl":             c.LetsEncryptSASL,
			"schema_registry":              c.SchemaRegistry,
			"kafka_rest":                   c.KafkaREST,
			"kafka_connect":                c.KafkaConnect,
		}
	case OpenSearch:
		return map[string]any{"opensearch_dashboards": map[string]bool{"enabled": !c.NoDashboards}}
	case PostgreSQL:
		return map[string]any{}
	default:
		return map[string]any{"valkey_ssl": !c.NoTLS}
	}
}
