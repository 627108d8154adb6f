package aivensim

import (
	"slices"
	"strings"
)

// What a writer of the OpenSearch ACL document wanted can be known from what it had read, if it reads the document before
// each write: it wanted a rule gone if it had seen it and leaves it out. A rule that vanishes although the writer cannot
// have seen it is a lost update; one that comes back although the writer can only have it from an old version is revived.
//
// All that tells writers apart is the token. Each write uses one read up, the oldest one; the writer may have started
// from any that are left. So of writers that share a token not everything is found, but what is found is so.

// maxReads is how many reads of a token are remembered.
const maxReads = 16

// versions are the lists that a token knows.
type versions struct {
	reads   []map[right]bool // not used up by a write, oldest first
	written map[right]bool   // what it wrote last
}

// right is a rule of the document.
type right struct{ username, index, permission string }

func (r right) String() string { return strings.Join([]string{r.username, r.index, r.permission}, " ") }

// rights returns the rules of the document.
func rights(list []OpenSearchACL) map[right]bool {
	out := map[right]bool{}
	for _, a := range list {
		for _, r := range a.Rules {
			out[right{a.Username, r.Index, r.Permission}] = true
		}
	}
	return out
}

// read notes that a token has seen the document.
func (s *Service) read(token string, list []OpenSearchACL) {
	seen := rights(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.known[token]
	if len(v.reads) == maxReads {
		v.reads = v.reads[1:]
	}
	v.reads = append(v.reads, seen)
	s.known[token] = v
}

// write notes that a token replaces the list, and returns the rules that vanish and the number of those that come back
// without anybody wanting it. Of a token that never read, all that vanishes is unwanted. The caller holds the lock.
func (s *Service) write(token string, before, after []OpenSearchACL) (lost []string, revived int) {
	current, next := rights(before), rights(after)
	v := s.known[token]
	bases := v.reads
	if len(bases) == 0 && v.written != nil {
		bases = []map[right]bool{v.written}
	}
	for r := range current {
		knows := func(base map[right]bool) bool { return base[r] }
		if !next[r] && !slices.ContainsFunc(bases, knows) {
			lost = append(lost, r.String())
		}
	}
	for r := range next {
		lacks := func(base map[right]bool) bool { return !base[r] }
		if !current[r] && len(bases) > 0 && !slices.ContainsFunc(bases, lacks) {
			revived++
		}
	}
	if len(v.reads) > 0 {
		v.reads = v.reads[1:]
	}
	v.written = next
	s.known[token] = v
	slices.Sort(lost)
	return lost, revived
}
