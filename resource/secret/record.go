package secret

import (
	"strings"

	"github.com/keysmith-io/keysmith/pkg/credstore"
)

// record is AnnotationStores: by which settings the stores of a Secret were made, and the digest of what they were made from. Of stores
// that somebody else made it is empty.
type record struct {
	encoding, password, digest string
}

// The kinds of password in a record.
const (
	constantPassword = "constant"
	randomPassword   = "random"
)

func parseRecord(text string) record {
	parts := strings.Fields(text)
	if len(parts) != 3 {
		return record{}
	}
	return record{parts[0], parts[1], parts[2]}
}

func (r record) String() string { return strings.Join([]string{r.encoding, r.password, r.digest}, " ") }

// fits tells whether the stores may stay as they are encoded: in this encoding or, where somebody else made them, in any. Applications
// read them, so that taking a Secret over does not change them.
func (r record) fits(e credstore.Encoding) bool { return r == record{} || r.encoding == string(e) }

func (s Stores) record(digest string) record {
	if s.RandomPassword {
		return record{string(s.Encoding), randomPassword, digest}
	}
	return record{string(s.Encoding), constantPassword, digest}
}

// password is that of the stores, given the one in the Secret. A random one stays for as long as the Secret does.
func (s Stores) password(current string, last record) string {
	switch {
	case !s.RandomPassword:
		return s.Password
	case last.password == randomPassword && credstore.IsRandomPassword(current):
		return current
	default:
		return credstore.RandomPassword()
	}
}
