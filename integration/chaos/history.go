package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// note is one thing that happened. One without a namespace concerns everything: a fault, or the end of a process.
type note struct {
	at                      time.Time
	namespace, object, text string
}

// history is what happened, and how often. It is safe for concurrent use.
type history struct {
	mu     sync.Mutex
	notes  []note
	counts map[string]int   // by table and kind, as "operation/delete Secret"
	calls  []aivensim.Entry // the simulator's journal, of what changes things or is lost
	read   int              // entries of the journal that have been looked at
}

func newHistory() *history {
	return &history{counts: map[string]int{}}
}

func (h *history) note(namespace, object, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note{time.Now(), namespace, object, fmt.Sprintf(format, args...)})
}

// count counts what the tables of the report show.
func (h *history) count(table, kind string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[table+"/"+kind]++
}

// follow keeps what is new in the simulator's journal, which itself forgets.
func (h *history) follow(sim *aivensim.Simulator) {
	answered := func() int {
		n := 0
		for _, c := range sim.Counters().Calls {
			n += c.Count
		}
		return n
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for range 20 { // until nothing is entered between the two looks, or nearly so
		total := answered()
		journal := sim.Journal()
		if answered() != total {
			continue
		}
		for _, e := range journal[max(0, len(journal)-(total-h.read)):] {
			if e.Method != http.MethodGet || len(e.LostUpdates) > 0 {
				h.calls = append(h.calls, e)
			}
		}
		h.read = total
		return
	}
}

// changes are the requests that change things.
func (h *history) changes() []aivensim.Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.calls), func(e aivensim.Entry) bool { return e.Method == http.MethodGet })
}

// lost are the requests with which rules of an OpenSearch ACL document vanished.
func (h *history) lost() []aivensim.Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.calls), func(e aivensim.Entry) bool { return len(e.LostUpdates) == 0 })
}

const (
	// maxLines is how many lines of its own a history may have. The end of one says most.
	maxLines = 40
	// vicinity is how long before a line of its own a history shows what happened to everything.
	vicinity = 3 * time.Second
)

type line struct {
	at   time.Time
	text string
}

// about is the history of what a violation concerns, up to it and in the order of time, with the faults and the ends of processes that came just
// before.
func (h *history) about(v Violation) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	objects := map[[2]string]bool{{v.Namespace, ""}: v.Namespace != ""}
	for _, o := range v.Objects {
		objects[[2]string{v.Namespace, o}] = true
	}
	// What is left alone has only the past of its users: what named them, and what was done to that.
	named := func(text string) bool {
		return slices.ContainsFunc(v.Users, func(u string) bool { return strings.Contains(text, u) })
	}
	former := map[[2]string]bool{}
	for _, n := range h.notes {
		if len(v.Objects) == 0 && n.namespace != "" && named(n.text) {
			former[[2]string{n.namespace, n.object}] = true
		}
	}
	var own, common []line
	for _, n := range h.notes {
		id := [2]string{n.namespace, n.object}
		switch {
		case n.namespace == "":
			common = append(common, line{n.at, n.text})
		case objects[id], former[id] && (named(n.text) || strings.HasPrefix(n.text, "#")):
			own = append(own, line{n.at, strings.TrimSpace(n.object + " " + n.text)})
		}
	}
	for _, e := range h.calls {
		if slices.Contains(v.Users, e.Username) {
			own = append(own, line{e.Time, callText(e)})
		}
	}
	inTime := func(a, b line) int { return a.at.Compare(b.at) }
	slices.SortStableFunc(own, inTime)
	if !v.at.IsZero() {
		own = slices.DeleteFunc(own, func(l line) bool { return l.at.After(v.at) })
	}
	var out strings.Builder
	if extra := len(own) - maxLines; extra > 0 {
		fmt.Fprintf(&out, "        ... %d lines before\n", extra)
		own = own[extra:]
	}
	lines := own
	for _, c := range common {
		near := func(l line) bool { return !c.at.After(l.at) && l.at.Sub(c.at) < vicinity }
		if slices.ContainsFunc(own, near) {
			lines = append(lines, c)
		}
	}
	slices.SortStableFunc(lines, inTime)
	for _, l := range lines {
		fmt.Fprintf(&out, "        %s %.500s\n", l.at.UTC().Format("15:04:05.000"), l.text)
	}
	return out.String()
}

// callText is a request of the simulator's journal on a line.
func callText(e aivensim.Entry) string {
	text := fmt.Sprintf("%s %s %s/%s: %d", e.Operation, e.Username, e.Project, e.Service, e.Status)
	if e.Lost {
		text += " lost"
	}
	if e.CommitLost {
		text += " although it took effect"
	}
	if len(e.Faults) > 0 {
		text += fmt.Sprint(" ", e.Faults)
	}
	return text + " (token " + e.Token + ")"
}

// excuses tells whether what a request did to ACLs could not be helped: reads of them lagged, and another process than the one that had written last
// began to work. What that had written it could neither know nor see.
func (h *history) excuses(at time.Time, restarts []time.Time) bool {
	near := func(then time.Time, d time.Duration) bool { return !then.After(at) && at.Sub(then) < d }
	h.mu.Lock()
	defer h.mu.Unlock()
	lagged := slices.ContainsFunc(h.notes, func(n note) bool {
		return (strings.HasSuffix(n.text, lagOfDocument) || strings.HasSuffix(n.text, lagOfTopics)) && near(n.at, 15*time.Second)
	})
	return lagged && slices.ContainsFunc(restarts, func(then time.Time) bool { return near(then, 30*time.Second) })
}

// forgotten are the users that were deleted when nobody could see their ACLs.
func (h *history) forgotten(restarts []time.Time) map[string]bool {
	out := map[string]bool{}
	for _, e := range h.changes() {
		if e.Operation == aivensim.ServiceUserDelete && h.excuses(e.Time, restarts) {
			out[e.Username] = true
		}
	}
	return out
}
