package aivensim

import "slices"

// The limits of an OpenSearch ACL document.
const (
	maxOpenSearchACLs  = 512
	maxOpenSearchRules = 256
)

// OpenSearchACLConfig is the ACL document of an OpenSearch service. While it is not enabled every user may do
// everything; while it is, a user without an entry may do nothing.
type OpenSearchACLConfig struct {
	ACLs    []OpenSearchACL `json:"acls"`
	Enabled bool            `json:"enabled"`
	// ExtendedACL is gone from the documented API, but is still sent by clients and echoed.
	ExtendedACL bool `json:"extendedAcl,omitempty"`
}

// OpenSearchACL is the entry of a user, whose name may hold the wildcards * and ?. Several entries may name one user.
type OpenSearchACL struct {
	Rules    []OpenSearchRule `json:"rules"`
	Username string           `json:"username"`
}

// OpenSearchRule gives a right to the indexes of a pattern.
type OpenSearchRule struct {
	Index string `json:"index"`
	// Permission is deny, admin, read, readwrite or write.
	Permission string `json:"permission"`
}

func (o OpenSearchACLConfig) clone() OpenSearchACLConfig {
	o.ACLs = slices.Clone(o.ACLs)
	if o.ACLs == nil {
		o.ACLs = []OpenSearchACL{}
	}
	for i := range o.ACLs {
		o.ACLs[i].Rules = append([]OpenSearchRule{}, o.ACLs[i].Rules...)
	}
	return o
}

// OpenSearchACLs returns the ACL document.
func (s *Service) OpenSearchACLs() OpenSearchACLConfig { return s.snapshot().openSearch.clone() }

// SetOpenSearchACLs replaces the ACL document without any check, as a second writer does.
func (s *Service) SetOpenSearchACLs(o OpenSearchACLConfig) {
	s.change(func(v *serviceState) { v.openSearch = o.clone() })
}

// AddOpenSearchACL adds an entry to the ACL document without any check, as a second writer does.
func (s *Service) AddOpenSearchACL(e OpenSearchACL) {
	s.change(func(v *serviceState) {
		v.openSearch = v.openSearch.clone()
		v.openSearch.ACLs = append(v.openSearch.ACLs, e)
	})
}

func (c *call) getOpenSearchACLs() (parts, error) {
	v := c.service.snapshot()
	doc := v.openSearchBefore.seen(c, v.openSearch)
	c.service.read(c.Token, doc.ACLs)
	return reply(map[string]any{"opensearch_acl_config": doc})
}

// setOpenSearchACLs needs both parts of the document.
func (c *call) setOpenSearchACLs() (parts, error) { return c.writeOpenSearchACLs(true) }

// updateOpenSearchACLs changes what is given; a list that is given replaces the whole list.
func (c *call) updateOpenSearchACLs() (parts, error) { return c.writeOpenSearchACLs(false) }

func (c *call) writeOpenSearchACLs(all bool) (parts, error) {
	var in struct {
		Config *struct {
			ACLs        []OpenSearchACL `json:"acls"` // null is taken as not given
			Enabled     *bool           `json:"enabled"`
			ExtendedACL *bool           `json:"extendedAcl"`
		} `json:"opensearch_acl_config"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	switch o := in.Config; {
	case o == nil:
		return nil, invalid("'opensearch_acl_config' is a required property")
	case all && o.ACLs == nil:
		return nil, invalid("'acls' is a required property: opensearch_acl_config")
	case all && o.Enabled == nil:
		return nil, invalid("'enabled' is a required property: opensearch_acl_config")
	}
	if err := checkOpenSearchACLs(in.Config.ACLs); err != nil {
		return nil, err
	}
	var out OpenSearchACLConfig
	revived := 0
	c.service.change(func(v *serviceState) {
		v.openSearchBefore = v.openSearchBefore.with(c.now, c.settings.Lag.OpenSearchACL, v.openSearch)
		if in.Config.ACLs != nil {
			c.lost, revived = c.service.write(c.Token, v.openSearch.ACLs, in.Config.ACLs)
			v.openSearch.ACLs = in.Config.ACLs
		}
		if in.Config.Enabled != nil {
			v.openSearch.Enabled = *in.Config.Enabled
		}
		if in.Config.ExtendedACL != nil {
			v.openSearch.ExtendedACL = *in.Config.ExtendedACL
		}
		out = v.openSearch
	})
	c.tally(func(n *Counters) {
		n.OpenSearchPuts++
		n.LostUpdates += len(c.lost)
		n.RevivedACLs += revived
	})
	return reply(map[string]any{"opensearch_acl_config": out, "message": "updated"})
}

// checkOpenSearchACLs tells what is wrong with a list in a request, nil if nothing is.
func checkOpenSearchACLs(list []OpenSearchACL) error {
	if len(list) > maxOpenSearchACLs {
		return invalid("more than %d items: acls", maxOpenSearchACLs)
	}
	for _, a := range list {
		switch {
		case !aclUsernames.MatchString(a.Username):
			return invalid("'%s' does not match '%s': username", a.Username, aclUsernames)
		case a.Rules == nil:
			return invalid("'rules' is a required property: acls")
		case len(a.Rules) > maxOpenSearchRules:
			return invalid("more than %d items: rules", maxOpenSearchRules)
		}
		for _, r := range a.Rules {
			switch {
			case !hasLength(r.Index, 249):
				return invalid("'%s' is too short or too long: index", r.Index)
			case !isOneOf(r.Permission, "deny", "admin", "read", "readwrite", "write"):
				return invalid("'%s' is not a permission: permission", r.Permission)
			}
		}
	}
	return nil
}
