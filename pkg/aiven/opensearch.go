package aiven

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Each write of an ACL document costs three calls, whatever the number of changes, so that they are gathered. The first after a quiet time
	// waits for gathering, or for the grants that were announced, all of which it takes along. Further ones go when there has been no other for
	// pace. Nothing waits longer than longest, or once there are batchSize and no more are announced, or once there are maxBatch.
	gathering = 50 * time.Millisecond
	pace      = 800 * time.Millisecond
	longest   = 3 * time.Second
	batchSize = 10
	maxBatch  = 20
	// rounds is how often a document is read for one batch of changes, the first time included.
	rounds = 6
	// maxEntries is the number of entries that the API takes in one document.
	maxEntries = 512
)

// documentWriter is the one writer of an OpenSearch service's ACL document in this process. The API can only replace
// the list of entries as a whole and has no version of it, so that writers side by side would lose each other's
// entries.
type documentWriter struct {
	mu        sync.Mutex
	queue     []*edit
	running   bool
	announced map[string]time.Time // users whose grants are awaited, and until when
	grown     chan struct{}        // buffered: the queue has grown
}

// edit makes the entry of one user consist of rules, or removes it.
type edit struct {
	username string
	rules    []OpenSearchRule
	revoke   bool

	ctx  context.Context // of the caller
	done chan error      // buffered
}

// AnnounceGrant says that GrantOpenSearch will be called for a user soon, so that the rights of many are written together. A grant that does not come
// holds up the others for no longer than three seconds.
func (c *Client) AnnounceGrant(ref Ref, username string) { c.entry(ref).document.announce(username) }

// GrantOpenSearch makes the user's entry consist of exactly these rules, and switches access control on. Everybody
// else's entries keep their content and order. Changes of one service that come close together go together, as do those that were announced;
// a caller that leaves does not take the others along. Of two changes of one user that meet, the later one counts.
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
	silence := c.slots.silence(ref.Project)
	w := &e.document
	w.mu.Lock()
	if isClosed(silence) {
		if w.running {
			w.mu.Unlock()
			return whole(ctx, tried, errSilent)
		}
		silence = nil // this one finds out whether that is still so
	}
	w.add(ed)
	if !w.running {
		w.running = true
		go c.writeDocuments(ref, e)
	}
	w.mu.Unlock()
	select {
	case err := <-ed.done:
		return err
	case <-ctx.Done():
		return ended(ctx, tried)
	case <-silence: // the others are left to it
		return whole(ctx, tried, errSilent)
	}
}

func (w *documentWriter) announce(username string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.announced == nil {
		w.announced = map[string]time.Time{}
	}
	w.announced[username] = time.Now().Add(longest)
}

// add queues an edit. mu is held.
func (w *documentWriter) add(ed *edit) {
	w.queue = append(w.queue, ed)
	delete(w.announced, ed.username)
	if w.grown == nil {
		w.grown = make(chan struct{}, 1)
	}
	select {
	case w.grown <- struct{}{}:
	default: // the writer has not looked since the last time
	}
}

// writeDocuments writes what is queued, batch by batch, until nothing is.
func (c *Client) writeDocuments(ref Ref, e *entry) {
	for wait := gathering; ; wait = pace {
		batch := e.document.gather(c.ctx, wait)
		if len(batch) == 0 {
			return
		}
		c.writeBatch(ref, e, batch)
	}
}

// gather returns what is to be written next: when nothing was added for quiet, and all that was announced has come. If nothing is to be written,
// the writer no longer runs.
func (w *documentWriter) gather(ctx context.Context, quiet time.Duration) []*edit {
	began := time.Now()
	last, size := began, 0 // when the queue has grown, and to what
	for {
		w.mu.Lock()
		now := time.Now()
		if len(w.queue) > size {
			last, size = now, len(w.queue)
		}
		maps.DeleteFunc(w.announced, func(_ string, until time.Time) bool { return !now.Before(until) })
		end := began.Add(longest)
		switch {
		case size >= maxBatch, size >= batchSize && len(w.announced) == 0:
			end = now
		case size == 0 || len(w.announced) == 0:
			if calm := last.Add(quiet); calm.Before(end) {
				end = calm
			}
		}
		if !now.Before(end) || ctx.Err() != nil {
			batch := w.queue
			w.queue, w.running = nil, len(batch) > 0
			w.mu.Unlock()
			return batch
		}
		w.mu.Unlock()
		timer := time.NewTimer(end.Sub(now))
		select {
		case <-timer.C:
		case <-w.grown:
		case <-ctx.Done():
		}
		timer.Stop()
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
	for name, c := range e.overlay.rules.known {
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
	e.change(func(o *overlay) {
		for _, ed := range batch {
			if ed.revoke {
				o.rules.set(ed.username, as(nil))
			} else {
				o.rules.set(ed.username, as(&ed.rules))
			}
		}
	})
}

// forget takes back what record did.
func (e *entry) forget(batch []*edit) {
	e.latest.invalidate()
	e.change(drop(batch))
}

func drop(batch []*edit) func(*overlay) {
	return func(o *overlay) {
		for _, ed := range batch {
			o.rules.drop(ed.username)
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
