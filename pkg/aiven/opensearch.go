package aiven

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// gathering is how long a change of an ACL document waits for others to go with it, pace the time from the end of one batch to the
	// beginning of the next, unless batchSize changes wait by then: each batch costs three calls, whatever its size.
	gathering = 50 * time.Millisecond
	pace      = 500 * time.Millisecond
	batchSize = 10
	// rounds is how often a document is read for one batch of changes, the first time included.
	rounds = 6
	// maxEntries is the number of entries that the API takes in one document.
	maxEntries = 512
)

// documentWriter is the one writer of an OpenSearch service's ACL document in this process. The API can only replace
// the list of entries as a whole and has no version of it, so that writers side by side would lose each other's
// entries.
type documentWriter struct {
	mu      sync.Mutex
	queue   []*edit
	running bool
	full    chan struct{} // buffered: batchSize changes wait
}

// edit makes the entry of one user consist of rules, or removes it.
type edit struct {
	username string
	rules    []OpenSearchRule
	revoke   bool

	ctx  context.Context // of the caller
	done chan error      // buffered
}

// GrantOpenSearch makes the user's entry consist of exactly these rules, and switches access control on. Everybody
// else's entries keep their content and order. Changes of one service that come within 50 ms, or until half a second after others were
// written, go together, at once where there are ten; a caller that leaves does not take the others along. Of two changes of one user that
// meet, the later one counts.
//
// The document is read, changed, written and read again, until it shows the change. A writer elsewhere that replaces
// the list with an older one is overruled a few times. (What it writes between our read and our write is lost,
// as it would be for every client: the API has no way to notice.)
func (c *Client) GrantOpenSearch(ctx context.Context, ref Ref, username string, rules []OpenSearchRule) error {
	tried := "grant rules to " + username + " on " + ref.String()
	if len(rules) == 0 {
		return invalid(tried, "there are no rules")
	}
	return c.edit(ctx, ref, tried, &edit{username: username, rules: slices.Clone(rules)})
}

// RevokeOpenSearch removes every entry of that very user, and nothing else. ErrNotFound: the service or the project
// is gone.
func (c *Client) RevokeOpenSearch(ctx context.Context, ref Ref, username string) error {
	return c.edit(ctx, ref, "revoke rules of "+username+" on "+ref.String(), &edit{username: username, revoke: true})
}

func (c *Client) edit(ctx context.Context, ref Ref, tried string, ed *edit) error {
	e := c.entry(ref)
	if err := c.checkUser(e, tried, ref, ed.username); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ended(ctx, tried)
	}
	ed.ctx, ed.done = ctx, make(chan error, 1)
	w := &e.document
	w.mu.Lock()
	w.queue = append(w.queue, ed)
	if !w.running {
		w.running, w.full = true, make(chan struct{}, 1)
		go c.writeDocuments(ref, e)
	}
	if len(w.queue) == batchSize {
		w.full <- struct{}{}
	}
	w.mu.Unlock()
	select {
	case err := <-ed.done:
		return err
	case <-ctx.Done():
		return ended(ctx, tried)
	}
}

// writeDocuments writes what is queued, batch by batch, until nothing is.
func (c *Client) writeDocuments(ref Ref, e *entry) {
	w := &e.document
	for wait := gathering; ; wait = pace {
		gather(c.ctx, wait, w.full)
		w.mu.Lock()
		batch := w.queue
		w.queue = nil
		w.running = len(batch) > 0
		select {
		case <-w.full: // it goes with this batch
		default:
		}
		w.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		c.writeBatch(ref, e, batch)
	}
}

// gather waits for d, or until as many as make a batch are there, or ctx ends.
func gather(ctx context.Context, d time.Duration, full <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-full:
	case <-ctx.Done():
	}
}

// writeBatch makes the changes of those who still wait for them, and tells each what became of it.
func (c *Client) writeBatch(ref Ref, e *entry, batch []*edit) {
	batch = slices.DeleteFunc(batch, func(ed *edit) bool { return ed.ctx.Err() != nil })
	if len(batch) == 0 {
		return
	}
	// It ends with the client, when the last caller has left, or when it takes too long.
	ctx, cancel := context.WithTimeout(c.ctx, 4*c.timeout)
	defer cancel()
	var waiting atomic.Int32
	waiting.Store(int32(len(batch)))
	for _, ed := range batch {
		defer context.AfterFunc(ed.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	err := c.changeDocument(ctx, ref, e, batch)
	if len(batch) > 1 && errors.Is(err, reconcile.TerminalError(nil)) {
		// One of them cannot be taken, and the others shall not suffer from it.
		for _, revoke := range []bool{true, false} { // which may make room for others
			for _, ed := range batch {
				if ed.revoke == revoke {
					c.writeBatch(ref, e, []*edit{ed})
				}
			}
		}
		return
	}
	for _, ed := range batch {
		ed.done <- err
	}
}

// changeDocument reads, changes, writes and reads again.
func (c *Client) changeDocument(ctx context.Context, ref Ref, e *entry, batch []*edit) error {
	var replaced, written *document
	lags := false
	for round := range rounds {
		if round > 1 && !sleep(ctx, c.pause<<(round-2)+rand.N(c.pause)) {
			return ended(ctx, "write ACLs of "+ref.String())
		}
		began := c.clock.Now()
		read, err := c.readDocument(ctx, ref)
		if err != nil {
			return err
		}
		// What this process wrote within the last minutes is written again where the read does not show it, as
		// it may lag, and the write would undo it.
		edits := append(e.recent(batch, began), batch...)
		next := read.clone()
		next.apply(edits)
		if next.equal(read) {
			if written == nil {
				e.record(batch, func(rules *[]OpenSearchRule) change[[]OpenSearchRule] { return seen(rules, began) })
			}
			return nil
		}
		if lags = written != nil && read.equal(replaced); lags && round%2 == 1 {
			// Either the read lags, or somebody put the old list back. It is written again every other time only.
			continue
		}
		if written != nil && !lags {
			// Somebody wrote a list without our change: one that is older, and may lack other entries too.
			next.restore(written)
			next.apply(edits)
		}
		if err := c.putDocument(ctx, ref, next); err != nil {
			e.failed(err, drop(batch))
			return err
		}
		replaced, written = read, next
		now := c.clock.Now()
		e.record(batch, func(rules *[]OpenSearchRule) change[[]OpenSearchRule] { return made(rules, now) })
	}
	if lags {
		return nil // the API took it, and will show it sooner or later
	}
	e.forget(batch)
	return &Error{Tried: "write ACLs of " + ref.String(), Message: "somebody else keeps writing them without our changes"}
}

// recent returns the edits that this process made of late, but not those of users in batch.
func (e *entry) recent(batch []*edit, now time.Time) []*edit {
	e.mu.Lock()
	defer e.mu.Unlock()
	var edits []*edit
	for name, c := range e.overlay.rules {
		in := slices.ContainsFunc(batch, func(ed *edit) bool { return ed.username == name })
		switch {
		case in || !c.own() || !now.Before(c.until):
		case c.value == nil:
			edits = append(edits, &edit{username: name, revoke: true})
		default:
			edits = append(edits, &edit{username: name, rules: *c.value})
		}
	}
	return edits
}

// record makes the snapshot show the edits.
func (e *entry) record(batch []*edit, as func(*[]OpenSearchRule) change[[]OpenSearchRule]) {
	e.change(func(o overlay) {
		for _, ed := range batch {
			if ed.revoke {
				o.rules[ed.username] = as(nil)
			} else {
				o.rules[ed.username] = as(&ed.rules)
			}
		}
	})
}

// forget takes back what record did.
func (e *entry) forget(batch []*edit) {
	e.latest.invalidate()
	e.change(drop(batch))
}

func drop(batch []*edit) func(overlay) {
	return func(o overlay) {
		for _, ed := range batch {
			delete(o.rules, ed.username)
		}
	}
}

func (c *Client) readDocument(ctx context.Context, ref Ref) (*document, error) {
	var doc *document
	cl := call{
		operation: "ServiceOpenSearchAclGet", project: ref.Project, tried: "read ACLs of " + ref.String(), read: true,
	}
	err := c.do(ctx, cl, func(ctx context.Context) error {
		var config map[string]json.RawMessage
		err := c.request(ctx, http.MethodGet, path(ref.Project, "service", ref.Service, "opensearch", "acl"), nil,
			func(d *json.Decoder) error {
				return decodeObject(d, func(key string) (bool, error) {
					if key != configKey {
						return false, nil
					}
					return true, d.Decode(&config)
				})
			})
		if err == nil {
			doc, err = newDocument(config)
		}
		return err
	})
	return doc, err
}

func (c *Client) putDocument(ctx context.Context, ref Ref, doc *document) error {
	cl := call{
		operation: "ServiceOpenSearchAclUpdate", project: ref.Project, tried: "write ACLs of " + ref.String(),
	}
	if len(doc.entries) > maxEntries {
		return invalid(cl.tried, fmt.Sprintf("the service has no room for more than %d entries", maxEntries))
	}
	return c.do(ctx, cl, func(ctx context.Context) error {
		return c.request(ctx, http.MethodPut, path(ref.Project, "service", ref.Service, "opensearch", "acl"),
			map[string]any{configKey: doc.config()}, skipAnswer)
	})
}
