package aiven

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// entries are elements of "acls", among them some that nobody here understands.
var entries = rapid.SampledFrom([]string{
	`{"username":"a","rules":[{"index":"*","permission":"read"}]}`,
	`{"username":"a","rules":[{"index":"_*","permission":"read"},{"index":"*","permission":"read"}]}`,
	`{"username":"a"}`, `{"username":"b","rules":[{"index":"logs-*","permission":"deny"}],"note":"mine"}`,
	`{"username":"b*","rules":[]}`, `{"username":"c","rules":null}`, `{"rules":[],"username":"\u0064"}`,
	`{"username":7,"rules":[]}`, `"a"`, `null`, `{"username":"e","rules":[{"index":"x","permission":"read","until":3}]}`,
})

var documents = rapid.Custom(func(t *rapid.T) *document {
	acls := []json.RawMessage{}
	for _, text := range rapid.SliceOfN(entries, 0, 6).Draw(t, "acls") {
		acls = append(acls, json.RawMessage(text))
	}
	raw, _ := json.Marshal(map[string]any{"enabled": rapid.Bool().Draw(t, "enabled"), "acls": acls, "extendedAcl": true, "unknown": nil})
	return reread(t, raw)
})

func reread(t interface{ Fatalf(string, ...any) }, raw []byte) *document {
	var config map[string]json.RawMessage
	err := json.Unmarshal(raw, &config)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	d, err := newDocument(config)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return d
}

func grants(t *rapid.T, username string) *edit {
	if rapid.Bool().Draw(t, "revoke "+username) {
		return &edit{username: username, revoke: true}
	}
	rule := rapid.Custom(func(t *rapid.T) OpenSearchRule {
		return OpenSearchRule{rapid.SampledFrom([]string{"*", "_*", "logs"}).Draw(t, "index"), rapid.SampledFrom([]string{"read", "admin"}).Draw(t, "permission")}
	})
	return &edit{username: username, rules: rapid.SliceOfN(rule, 1, 3).Draw(t, "rules of "+username)}
}

// texts are the entries of all users but some, as they came.
func (d *document) texts(but ...string) []string {
	var out []string
	for _, entry := range d.entries {
		if !slices.Contains(but, entry.username) {
			out = append(out, string(entry.raw))
		}
	}
	return out
}

func (d *document) changed(edits ...*edit) *document {
	c := d.clone()
	c.apply(edits)
	return c
}

// A change makes its user's entry what was asked for and leaves the entries of everybody else, those that are not understood
// included, byte by byte and in their order. A second time it changes nothing, and neither does a way through the wire.
func TestAChangeConcernsItsUserAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := documents.Draw(t, "document")
		untouched := before.clone()
		ed := grants(t, rapid.SampledFrom([]string{"a", "b", "new"}).Draw(t, "user"))
		after := before.changed(ed)
		if diff := cmp.Diff(before.texts(ed.username), after.texts(ed.username)); diff != "" {
			t.Errorf("entries of others (-before +after)\n%s", diff)
		}
		if !before.equal(untouched) {
			t.Error("the change shows in the document as it was read")
		}
		if _, has := after.acl().Rules[ed.username]; has == ed.revoke || !ed.revoke && !after.acl().Grants(ed.username, ed.rules) {
			t.Errorf("the user has %v, asked for: %+v", after.acl().Rules[ed.username], ed)
		}
		if ed.revoke && after.enabled != before.enabled {
			t.Error("a revocation switches access control")
		}
		if !after.changed(ed).equal(after) {
			t.Error("a second time it changes something")
		}
		raw, err := json.Marshal(after.config())
		if err != nil {
			t.Fatal(err)
		}
		if read := reread(t, raw); !read.equal(after) || !cmp.Equal(read.fields, after.fields) {
			t.Errorf("%s is read otherwise than it was written", raw)
		}
	})
}

// Changes of different users do not get into each other's way, whichever comes first.
func TestChangesOfDifferentUsersCommute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := documents.Draw(t, "document")
		users := rapid.Permutation([]string{"a", "b", "c", "new", "newer"}).Draw(t, "users")
		one, other := grants(t, users[0]), grants(t, users[1])
		ab, ba := before.changed(one, other), before.changed(other, one)
		if diff := cmp.Diff(ab.acl(), ba.acl()); diff != "" {
			t.Errorf("(-one first +other first)\n%s", diff)
		}
		if diff := cmp.Diff(ab.texts(users[:2]...), ba.texts(users[:2]...)); diff != "" {
			t.Errorf("entries of others (-one first +other first)\n%s", diff)
		}
	})
}

// Restoring brings back users that are missing and changes nobody who is there.
func TestRestoringAddsWhoIsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, older := documents.Draw(t, "now"), documents.Draw(t, "older")
		after := now.clone()
		after.restore(older)
		if diff := cmp.Diff(now.texts(), after.texts()[:len(now.entries)], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("what is there (-before +after)\n%s", diff)
		}
		for _, entry := range older.entries {
			if _, ok := after.acl().Rules[entry.username]; entry.username != "" && !ok {
				t.Errorf("%q is still missing", entry.username)
			}
		}
	})
}
