package aiven

import (
	"bytes"
	"encoding/json"
	"slices"
)

// configKey holds the ACL document in requests and answers.
const configKey = "opensearch_acl_config"

// document is the ACL document of an OpenSearch service. What is not changed is kept as it came, byte by byte, with
// fields that are not known here.
type document struct {
	fields  map[string]json.RawMessage // of the document, but for those below
	enabled bool
	entries []aclEntry
}

type aclEntry struct {
	raw      json.RawMessage
	username string // "" for an entry that cannot be read
	rules    []OpenSearchRule
}

// newDocument reads a document. One without a list of entries is incomplete, and must not be taken for an empty one,
// unless access control was never switched on.
func newDocument(config map[string]json.RawMessage) (*document, error) {
	d := &document{fields: config}
	var entries []json.RawMessage
	if config == nil || !decodeField(config, "enabled", &d.enabled) || !decodeField(config, "acls", &entries) ||
		entries == nil && d.enabled {
		return nil, errIncomplete
	}
	delete(d.fields, "enabled")
	delete(d.fields, "acls")
	for _, raw := range entries {
		d.entries = append(d.entries, readEntry(raw))
	}
	return d, nil
}

// decodeField reads a field that may be absent. It returns false if it is of another type.
func decodeField(config map[string]json.RawMessage, name string, into any) bool {
	raw, ok := config[name]
	return !ok || json.Unmarshal(raw, into) == nil
}

type wireEntry struct {
	Username string           `json:"username"`
	Rules    []OpenSearchRule `json:"rules"`
}

func readEntry(raw json.RawMessage) aclEntry {
	var w wireEntry
	if json.Unmarshal(raw, &w) != nil {
		return aclEntry{raw: raw}
	}
	return aclEntry{raw: raw, username: w.Username, rules: w.Rules}
}

func (d *document) clone() *document {
	return &document{fields: d.fields, enabled: d.enabled, entries: slices.Clone(d.entries)}
}

// equal reports whether both would be written the same.
func (d *document) equal(o *document) bool {
	return d.enabled == o.enabled &&
		slices.EqualFunc(d.entries, o.entries, func(a, b aclEntry) bool { return bytes.Equal(a.raw, b.raw) })
}

// apply makes the edits, in their order.
func (d *document) apply(edits []*edit) {
	for _, ed := range edits {
		if ed.revoke {
			d.set(ed.username)
			continue
		}
		d.enabled = true
		if !d.grants(ed.username, ed.rules) {
			raw, _ := json.Marshal(wireEntry{ed.username, ed.rules}) // strings can always be marshalled
			d.set(ed.username, aclEntry{raw, ed.username, ed.rules})
		}
	}
}

// grants reports whether the user has one entry, with exactly these rules.
func (d *document) grants(username string, rules []OpenSearchRule) bool {
	is := func(a aclEntry) bool { return a.username == username }
	i := slices.IndexFunc(d.entries, is)
	return i >= 0 && !slices.ContainsFunc(d.entries[i+1:], is) &&
		len(d.entries[i].rules) == len(rules) && equalSets(d.entries[i].rules, rules)
}

// set replaces all entries of a user: where the first one is, or at the end.
func (d *document) set(username string, entries ...aclEntry) {
	is := func(a aclEntry) bool { return a.username == username }
	at := slices.IndexFunc(d.entries, is)
	d.entries = slices.DeleteFunc(d.entries, is)
	if at < 0 {
		at = len(d.entries)
	}
	d.entries = slices.Insert(d.entries, at, entries...)
}

// restore adds the entries of those users in o that have none here.
func (d *document) restore(o *document) {
	for _, entry := range o.entries {
		has := func(a aclEntry) bool { return a.username == entry.username }
		if entry.username != "" && !slices.ContainsFunc(d.entries, has) {
			d.entries = append(d.entries, entry)
		}
	}
}

// config returns the document as it is sent.
func (d *document) config() map[string]any {
	config := map[string]any{}
	for name, raw := range d.fields {
		config[name] = raw
	}
	acls := make([]json.RawMessage, 0, len(d.entries)) // never null
	for _, entry := range d.entries {
		acls = append(acls, entry.raw)
	}
	config["enabled"], config["acls"] = d.enabled, acls
	return config
}

// acl returns the document as callers see it.
func (d *document) acl() *OpenSearchACL {
	acl := &OpenSearchACL{Enabled: d.enabled, Rules: map[string][]OpenSearchRule{}}
	for _, entry := range d.entries {
		acl.Rules[entry.username] = append(acl.Rules[entry.username], entry.rules...)
	}
	return acl
}
