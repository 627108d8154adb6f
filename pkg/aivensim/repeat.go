package aivensim

import (
	"hash/maphash"
	"net/http"
	"slices"
	"time"
)

// maxPosts is how many POSTs to one service are remembered.
const maxPosts = 1024

// posts are the last POSTs, by "project/service", for telling whether one is repeated. The journal's lock guards them.
type posts map[string][]*post

type post struct {
	request Request
	hash    uint64 // of path and body
	time    time.Time
	// refused says that it was answered 4xx: it had no effect, and its sender knows.
	refused bool
	// looked says that its sender has read since what it may have made.
	looked bool
}

// seed makes the hashes of bodies; they are compared within a process only.
var seed = maphash.MakeSeed()

// arrive notes a request, and tells whether it repeats another one, and whether its sender did not know what had become
// of that.
func (p *posts) arrive(c *call, window time.Duration) (repeated, blind bool) {
	where := c.Project + "/" + c.Service
	if c.Method == http.MethodGet {
		for _, o := range (*p)[where] {
			o.looked = o.looked || o.request.Token == c.Token && shows(c.Request, o.request)
		}
	}
	if c.Method != http.MethodPost {
		return false, false
	}
	if *p == nil {
		*p = posts{}
	}
	list := slices.DeleteFunc((*p)[where], func(o *post) bool { return c.now.Sub(o.time) > window })
	if len(list) == maxPosts {
		list = list[1:]
	}
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(c.path + "\n") // never fails
	_, _ = h.Write(c.body)
	c.post = &post{request: c.Request, hash: h.Sum64(), time: c.now}
	for _, o := range slices.Backward(list) {
		if o.hash == c.post.hash && o.request.Token == c.Token {
			repeated, blind = true, !o.refused && !o.looked
			break
		}
	}
	(*p)[where] = append(list, c.post)
	return repeated, blind
}

// shows tells whether a GET of a service shows what a POST made.
func shows(get, post Request) bool {
	switch get.Operation {
	case ServiceGet:
		return post.Operation != ServiceOpenSearchACLSet
	case ServiceUserGet:
		return post.Operation == ServiceUserCreate && post.Username == get.Username
	case ServiceKafkaACLList:
		return post.Operation == ServiceKafkaACLAdd
	case ServiceKafkaNativeACLList:
		return post.Operation == ServiceKafkaACLAdd || post.Operation == ServiceKafkaNativeACLAdd
	case ServiceOpenSearchACLGet:
		return post.Operation == ServiceOpenSearchACLSet
	}
	return false
}
