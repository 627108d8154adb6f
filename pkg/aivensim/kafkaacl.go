package aivensim

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// KafkaACL is an entry of Aiven's own ACLs for Kafka. Topic and username may hold the wildcards * and ?; neither needs
// to exist.
type KafkaACL struct {
	// ID is "default" for the first entry of a service, else acl and eleven hexadecimal digits.
	ID string `json:"id"`
	// Permission is admin, read, readwrite or write.
	Permission string `json:"permission"`
	Topic      string `json:"topic"`
	Username   string `json:"username"`
}

// KafkaNativeACL is an entry of Kafka's native ACLs, with the words that Kafka uses: {"principal":"User:app","host":"*",
// "operation":"Read","resource_type":"Topic","resource_name":"t","pattern_type":"LITERAL","permission_type":"ALLOW"}.
type KafkaNativeACL struct {
	ID             string `json:"id"`
	Host           string `json:"host"`
	Operation      string `json:"operation"`
	PatternType    string `json:"pattern_type"`
	PermissionType string `json:"permission_type"`
	Principal      string `json:"principal"`
	ResourceName   string `json:"resource_name"`
	ResourceType   string `json:"resource_type"`
}

// KafkaACLs returns Aiven's ACL entries in the order of creation.
func (s *Service) KafkaACLs() []KafkaACL { return slices.Clone(s.snapshot().acl) }

// AddKafkaACL adds an entry without any check, and returns it with its id, which is made if it is empty.
func (s *Service) AddKafkaACL(e KafkaACL) KafkaACL {
	s.change(func(v *serviceState) {
		if e.ID == "" {
			e.ID = s.newACLID()
		}
		v.acl = append(v.acl, e)
	})
	return e
}

// DeleteKafkaACL removes an entry and tells whether it was there.
func (s *Service) DeleteKafkaACL(id string) bool {
	return s.deleteKafkaACL(id, 0)
}

// deleteKafkaACL removes an entry, which reads still show during the lag.
func (s *Service) deleteKafkaACL(id string, lag time.Duration) bool {
	found := false
	now := s.project.sim.now()
	s.change(func(v *serviceState) {
		former := v.acl
		if v.acl, found = without(v.acl, func(e KafkaACL) bool { return e.ID == id }); found {
			v.aclBefore = v.aclBefore.with(now, lag, former)
		}
	})
	return found
}

// KafkaNativeACLs returns the native ACL entries in the order of creation.
func (s *Service) KafkaNativeACLs() []KafkaNativeACL { return slices.Clone(s.snapshot().native) }

// AddKafkaNativeACL adds a native entry without any check, and returns it with its id, which is made if it is empty.
func (s *Service) AddKafkaNativeACL(e KafkaNativeACL) KafkaNativeACL {
	s.change(func(v *serviceState) {
		if e.ID == "" {
			e.ID = s.newACLID()
		}
		v.native = append(v.native, e)
	})
	return e
}

// DeleteKafkaNativeACL removes a native entry and tells whether it was there.
func (s *Service) DeleteKafkaNativeACL(id string) bool {
	return s.deleteKafkaNativeACL(id, 0)
}

// deleteKafkaNativeACL removes a native entry, which reads still show during the lag.
func (s *Service) deleteKafkaNativeACL(id string, lag time.Duration) bool {
	found := false
	now := s.project.sim.now()
	s.change(func(v *serviceState) {
		former := v.native
		if v.native, found = without(v.native, func(e KafkaNativeACL) bool { return e.ID == id }); found {
			v.nativeBefore = v.nativeBefore.with(now, lag, former)
		}
	})
	return found
}

// without returns a copy of the list without some entries, and whether there were any.
func without[L ~[]T, T any](list L, drop func(T) bool) (L, bool) {
	out := slices.DeleteFunc(slices.Clone(list), drop)
	return out, len(out) < len(list)
}

// newACLID returns an id in the form of Aiven's. The caller holds the lock.
func (s *Service) newACLID() string { return fmt.Sprintf("acl%011x", s.rng.Uint64()>>20) }

// aclUsernames is the rule for user names in ACL entries: it differs from the one for users.
var aclUsernames = regexp.MustCompile(`^[-._*?A-Za-z0-9]{1,64}$`)

var (
	errNoACL        = fail(http.StatusNotFound, "service_acl_not_found", "No such service ACL exists")
	errDuplicateACL = fail(http.StatusConflict, "", "Identical ACL entry already exists")
	errTooManyACLs  = fail(http.StatusBadRequest, "service_acl_too_many", "Maximum number of service ACLs reached")
)

// roomForACL tells why an entry cannot be added to a number of others, nil if it can.
func (c *call) roomForACL(v *serviceState, number int, duplicate bool) error {
	if duplicate {
		c.tally(func(n *Counters) { n.DuplicateCreates++ })
		return errDuplicateACL
	}
	if limit := v.config.KafkaACLLimit; limit > 0 && number >= limit {
		return errTooManyACLs
	}
	return nil
}

func (c *call) listKafkaACLs() (parts, error) {
	return reply(map[string]any{"acl": c.kafkaACLs()})
}

// kafkaACLs returns the entries that the call sees.
func (c *call) kafkaACLs() []KafkaACL {
	v := c.service.snapshot()
	return v.aclBefore.seen(c, v.acl)
}

// nativeACLs returns the native entries that the call sees.
func (c *call) nativeACLs() []KafkaNativeACL {
	v := c.service.snapshot()
	return v.nativeBefore.seen(c, v.native)
}

func (c *call) addKafkaACL() (parts, error) {
	var e KafkaACL
	if err := c.decode(&e); err != nil {
		return nil, err
	}
	e.ID = ""
	switch {
	case !isOneOf(e.Permission, "admin", "read", "readwrite", "write"):
		return nil, invalid("'%s' is not a permission: permission", e.Permission)
	case !hasLength(e.Topic, 249):
		return nil, invalid("'%s' is too short or too long: topic", e.Topic)
	case !aclUsernames.MatchString(e.Username):
		return nil, invalid("'%s' does not match '%s': username", e.Username, aclUsernames)
	}
	var list []KafkaACL
	var err error
	s := c.service
	s.change(func(v *serviceState) {
		same := func(o KafkaACL) bool { o.ID = ""; return o == e }
		if err = c.roomForACL(v, len(v.acl), slices.ContainsFunc(v.acl, same)); err == nil {
			e.ID = s.newACLID()
			v.aclBefore = v.aclBefore.with(c.now, c.settings.Lag.KafkaACL, v.acl)
			v.acl = append(v.acl, e)
		}
		list = v.aclBefore.seen(c, v.acl)
	})
	if err != nil {
		return nil, err
	}
	c.tally(func(n *Counters) { n.ACLsAdded++ })
	return reply(map[string]any{"acl": list, "message": "added"})
}

func (c *call) deleteKafkaACL() (parts, error) {
	if !c.service.deleteKafkaACL(c.aclID, c.settings.Lag.KafkaACL) {
		return nil, errNoACL
	}
	c.tally(func(n *Counters) { n.ACLsDeleted++ })
	return reply(map[string]any{"acl": c.kafkaACLs(), "message": "deleted"})
}

func (c *call) listNativeACLs() (parts, error) {
	if c.service.snapshot().config.NoNativeACLs {
		return nil, fail(http.StatusConflict, "service_maintenance_required", "Service maintenance is required")
	}
	return reply(map[string]any{"acl": c.kafkaACLs(), "kafka_acl": c.nativeACLs()})
}

func (c *call) addNativeACL() (parts, error) {
	e := KafkaNativeACL{Host: "*"}
	if err := c.decode(&e); err != nil {
		return nil, err
	}
	e.ID = ""
	if err := e.check(); err != nil {
		return nil, err
	}
	s := c.service
	if s.snapshot().config.NoNativeACLs {
		return nil, fail(http.StatusConflict, "kafka_acl_not_supported", "Kafka ACLs are not supported by this service")
	}
	var err error
	s.change(func(v *serviceState) {
		same := func(o KafkaNativeACL) bool { o.ID = ""; return o == e }
		if err = c.roomForACL(v, len(v.native), slices.ContainsFunc(v.native, same)); err == nil {
			e.ID = s.newACLID()
			v.nativeBefore = v.nativeBefore.with(c.now, c.settings.Lag.KafkaACL, v.native)
			v.native = append(v.native, e)
		}
	})
	if err != nil {
		return nil, err
	}
	c.tally(func(n *Counters) { n.ACLsAdded++ })
	return reply(map[string]any{"acl": e, "message": "added"})
}

func (c *call) getNativeACL() (parts, error) {
	for _, e := range c.nativeACLs() {
		if e.ID == c.aclID {
			return reply(map[string]any{"acl": e})
		}
	}
	return nil, errNoACL
}

func (c *call) deleteNativeACL() (parts, error) {
	if !c.service.deleteKafkaNativeACL(c.aclID, c.settings.Lag.KafkaACL) {
		return nil, errNoACL
	}
	c.tally(func(n *Counters) { n.ACLsDeleted++ })
	return reply(map[string]string{"message": "deleted"})
}

// check tells what is wrong with an entry in a request, nil if nothing is.
func (e KafkaNativeACL) check() error {
	switch {
	case !strings.HasPrefix(e.Principal, "User:") || !hasLength(e.Principal, 256):
		return invalid("'%s' is not a principal: principal", e.Principal)
	case !hasLength(e.Host, 256):
		return invalid("'%s' is too short or too long: host", e.Host)
	case !hasLength(e.ResourceName, 256):
		return invalid("'%s' is too short or too long: resource_name", e.ResourceName)
	case !isOneOf(e.PatternType, "LITERAL", "PREFIXED"):
		return invalid("'%s' is not a pattern type: pattern_type", e.PatternType)
	case !isOneOf(e.PermissionType, "ALLOW", "DENY"):
		return invalid("'%s' is not a permission type: permission_type", e.PermissionType)
	case !isOneOf(e.ResourceType, "Cluster", "DelegationToken", "Group", "Topic", "TransactionalId", "User"):
		return invalid("'%s' is not a resource type: resource_type", e.ResourceType)
	case !isOneOf(e.Operation, "All", "Alter", "AlterConfigs", "ClusterAction", "Create", "CreateTokens", "Delete", "Describe",
		"DescribeConfigs", "DescribeTokens", "IdempotentWrite", "Read", "Write"):
		return invalid("'%s' is not an operation: operation", e.Operation)
	}
	return nil
}

func isOneOf(s string, values ...string) bool { return slices.Contains(values, s) }

// hasLength tells whether a text has at least one character, and at most that many.
func hasLength(s string, most int) bool {
	n := utf8.RuneCountInString(s)
	return 1 <= n && n <= most
}
