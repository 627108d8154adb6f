package aiven

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

var readAll = []OpenSearchRule{{"_*", "read"}, {"*", "read"}}

// rules returns the rules of the simulator's document by user, and fails on a user with two entries.
func (f fixture) rules(t *testing.T) map[string][]OpenSearchRule {
	t.Helper()
	got := map[string][]OpenSearchRule{}
	for _, a := range f.search.OpenSearchACLs().ACLs {
		if _, ok := got[a.Username]; ok {
			t.Errorf("two entries of %s", a.Username)
		}
		for _, r := range a.Rules {
			got[a.Username] = append(got[a.Username], OpenSearchRule(r))
		}
	}
	return got
}

// foreign adds an entry to the document as another writer would.
func (f fixture) foreign(names ...string) {
	config := f.search.OpenSearchACLs()
	for _, name := range names {
		config.ACLs = append(config.ACLs, aivensim.OpenSearchACL{
			Username: name, Rules: []aivensim.OpenSearchRule{{Index: name, Permission: "write"}},
		})
	}
	f.search.SetOpenSearchACLs(config)
}

func foreignRules(name string) []OpenSearchRule { return []OpenSearchRule{{name, "write"}} }

func TestGrantsGoTogether(t *testing.T) {
	f := newFixture(t)
	f.foreign("other")
	f.sim.SetLatency(5 * time.Millisecond)
	want := map[string][]OpenSearchRule{"other": foreignRules("other")}
	var callers sync.WaitGroup
	each := func(call func(name string) error) {
		for i := range 50 {
			callers.Go(func() {
				if err := call(fmt.Sprintf("app%d", i)); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
	}
	each(func(name string) error { return f.GrantOpenSearch(t.Context(), search, name, readAll) })
	for i := range 50 {
		want[fmt.Sprintf("app%d", i)] = readAll
	}
	diff(t, want, f.rules(t))
	diff(t, true, f.search.OpenSearchACLs().Enabled)
	if puts := f.requests(aivensim.ServiceOpenSearchACLUpdate); puts > 5 {
		t.Errorf("want few writes, got %d", puts)
	}

	// Half of them go, the others get another right, all at once.
	each(func(name string) error {
		if strings.HasSuffix(name, "5") {
			return f.RevokeOpenSearch(t.Context(), search, name)
		}
		return f.GrantOpenSearch(t.Context(), search, name, readAll[:1])
	})
	for name := range want {
		switch {
		case strings.HasSuffix(name, "5"):
			delete(want, name)
		case name != "other":
			want[name] = readAll[:1]
		}
	}
	diff(t, want, f.rules(t))
	diff(t, "other", f.search.OpenSearchACLs().ACLs[0].Username)
}

func TestGrantThatIsSoWritesNothing(t *testing.T) {
	f := newFixture(t)
	if err := f.GrantOpenSearch(t.Context(), search, "app", readAll); err != nil {
		t.Fatal(err)
	}
	f.sim.ResetCounters()
	if err := f.GrantOpenSearch(t.Context(), search, "app", []OpenSearchRule{readAll[1], readAll[0]}); err != nil {
		t.Fatal(err)
	}
	if err := f.RevokeOpenSearch(t.Context(), search, "gone"); err != nil {
		t.Fatal(err)
	}
	diff(t, 0, f.sim.Counters().Writes)
}

func TestEditsShowInTheSnapshot(t *testing.T) {
	f := newFixture(t)
	f.read(t, search)
	if err := f.GrantOpenSearch(t.Context(), search, "app", readAll); err != nil {
		t.Fatal(err)
	}
	diff(t, true, f.read(t, search).OpenSearchACL.Grants("app", readAll))
	f.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{}) // what a read that lags shows
	f.pass(time.Minute)
	f.Invalidate(search)
	diff(t, true, f.read(t, search).OpenSearchACL.Grants("app", readAll))

	// A write that is built from such a read keeps what it lacks.
	if err := f.GrantOpenSearch(t.Context(), search, "next", readAll); err != nil {
		t.Fatal(err)
	}
	diff(t, map[string][]OpenSearchRule{"app": readAll, "next": readAll}, f.rules(t))

	f.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{})
	f.pass(2 * time.Minute)
	f.Invalidate(search)
	diff(t, &OpenSearchACL{Rules: map[string][]OpenSearchRule{}}, f.read(t, search).OpenSearchACL)

	f.foreign("seen")
	if err := f.GrantOpenSearch(t.Context(), search, "seen", foreignRules("seen")); err != nil {
		t.Fatal(err)
	}
	diff(t, true, f.read(t, search).OpenSearchACL.Grants("seen", foreignRules("seen")))
	if err := f.RevokeOpenSearch(t.Context(), search, "seen"); err != nil {
		t.Fatal(err)
	}
	diff(t, false, f.read(t, search).OpenSearchACL.Grants("seen", foreignRules("seen")))
}

func TestRevokeTakesNothingElse(t *testing.T) {
	f := newFixture(t)
	rule := func(index string) []aivensim.OpenSearchRule {
		return []aivensim.OpenSearchRule{{Index: index, Permission: "read"}}
	}
	config := aivensim.OpenSearchACLConfig{Enabled: true, ExtendedACL: true, ACLs: []aivensim.OpenSearchACL{
		{Username: "u", Rules: append(rule("a"), rule("b")...)}, {Username: "v", Rules: rule("a")},
		{Username: "u", Rules: rule("c")}, {Username: "u*", Rules: rule("a")},
	}}
	f.search.SetOpenSearchACLs(config)
	if err := f.RevokeOpenSearch(t.Context(), search, "u"); err != nil {
		t.Fatal(err)
	}
	config.ACLs = []aivensim.OpenSearchACL{config.ACLs[1], config.ACLs[3]}
	diff(t, config, f.search.OpenSearchACLs())

	f.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{ACLs: []aivensim.OpenSearchACL{{Username: "w", Rules: rule("a")}}})
	if err := f.RevokeOpenSearch(t.Context(), search, "w"); err != nil {
		t.Fatal(err)
	}
	diff(t, aivensim.OpenSearchACLConfig{ACLs: []aivensim.OpenSearchACL{}}, f.search.OpenSearchACLs())

	isError(t, f.RevokeOpenSearch(t.Context(), Ref{"dev", "gone"}, "u"), ErrNotFound)
	for name, user := range map[string]string{"a built-in user": "avnadmin", "nobody": ""} {
		if err := f.RevokeOpenSearch(t.Context(), search, user); !terminal(err) {
			t.Errorf("%s: want a terminal error, got %v", name, err)
		}
	}
	if err := f.GrantOpenSearch(t.Context(), search, "u", nil); !terminal(err) {
		t.Errorf("want a terminal error, got %v", err)
	}
}

func TestForeignWriter(t *testing.T) {
	tests := map[string]struct {
		// on is what the other writer does just before the nth read of the document, which is the first one after
		// n-1 reads and, mostly, n-1 writes.
		on   map[int]func(f fixture)
		want []string // users of the document beside ours
		fail bool
	}{
		"it keeps what was added before the read": {
			map[int]func(f fixture){1: func(f fixture) { f.foreign("x") }}, []string{"v", "x"}, false,
		},
		"it keeps what was added after the write": {
			map[int]func(f fixture){2: func(f fixture) { f.foreign("x") }}, []string{"v", "x"}, false,
		},
		"it writes again, with all that an older list lacks": {
			map[int]func(f fixture){2: func(f fixture) {
				f.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{Enabled: true})
				f.foreign("x")
			}}, []string{"v", "x"}, false,
		},
		"it writes again where the list is the one from before": {
			map[int]func(f fixture){2: func(f fixture) {
				f.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{})
				f.foreign("v")
			}}, []string{"v"}, false,
		},
		"it leaves alone what was removed by one who knew of the write": {
			map[int]func(f fixture){2: func(f fixture) {
				config := f.search.OpenSearchACLs()
				config.ACLs = config.ACLs[1:]
				f.search.SetOpenSearchACLs(config)
			}}, nil, false,
		},
		"it gives up against one who never stops": {
			func() map[int]func(f fixture) {
				on := map[int]func(f fixture){}
				for i := 2; i < 20; i++ {
					on[i] = func(f fixture) {
						f.search.SetOpenSearchACLs(aivensim.OpenSearchACLConfig{})
						f.foreign(fmt.Sprint("x", i))
					}
				}
				return on
			}(), nil, true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.foreign("v")
			reads := 0
			f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceOpenSearchACLGet, Before: func(aivensim.Request) {
				if reads++; test.on[reads] != nil {
					test.on[reads](f)
				}
			}})
			err := f.GrantOpenSearch(t.Context(), search, "app", readAll)
			if test.fail {
				if err == nil {
					t.Error("want an error")
				}
				diff(t, false, f.read(t, search).OpenSearchACL.Grants("app", readAll))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]OpenSearchRule{"app": readAll}
			for _, name := range test.want {
				want[name] = foreignRules(name)
			}
			diff(t, want, f.rules(t))
		})
	}
}

func TestDocumentThatLags(t *testing.T) {
	f := newFixture(t)
	f.foreign("v")
	old, err := json.Marshal(map[string]any{configKey: f.search.OpenSearchACLs()})
	if err != nil {
		t.Fatal(err)
	}
	f.sim.Inject(aivensim.Rule{
		Operation: aivensim.ServiceOpenSearchACLGet, Answer: &aivensim.Answer{Status: 200, Body: string(old)},
	})
	for _, name := range []string{"a", "b"} {
		if err := f.GrantOpenSearch(t.Context(), search, name, readAll); err != nil {
			t.Fatal(err)
		}
	}
	diff(t, map[string][]OpenSearchRule{"v": foreignRules("v"), "a": readAll, "b": readAll}, f.rules(t))
	diff(t, true, f.read(t, search).OpenSearchACL.Grants("a", readAll))
	if err := f.RevokeOpenSearch(t.Context(), search, "a"); err != nil {
		t.Fatal(err)
	}
	diff(t, map[string][]OpenSearchRule{"v": foreignRules("v"), "b": readAll}, f.rules(t))
}

func TestEachCallerGetsItsOwnResult(t *testing.T) {
	f := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	calls := map[string]func() error{
		"good":   func() error { return f.GrantOpenSearch(t.Context(), search, "good", readAll) },
		"better": func() error { return f.GrantOpenSearch(t.Context(), search, "better", readAll) },
		"bad":    func() error { return f.GrantOpenSearch(t.Context(), search, "bad", []OpenSearchRule{{"*", "canary"}}) },
		"left":   func() error { return f.GrantOpenSearch(ctx, search, "left", readAll) },
	}
	errs := map[string]error{}
	var mu sync.Mutex
	var callers sync.WaitGroup
	for name, call := range calls {
		callers.Go(func() {
			err := call()
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	callers.Wait()
	if errs["good"] != nil || errs["better"] != nil || !terminal(errs["bad"]) {
		t.Errorf("got %v", errs)
	}
	isError(t, errs["left"], context.Canceled)
	diff(t, map[string][]OpenSearchRule{"good": readAll, "better": readAll}, f.rules(t))
}

func TestCallersWhoLeave(t *testing.T) {
	grant := func(f fixture, name string) (leave context.CancelFunc, result chan error) {
		ctx, leave := context.WithCancel(context.Background())
		result = make(chan error, 1)
		go func() { result <- f.GrantOpenSearch(ctx, search, name, readAll) }()
		return leave, result
	}
	t.Run("it goes on for the others", func(t *testing.T) {
		f := newFixture(t)
		arrived, let := make(chan struct{}, 9), make(chan struct{})
		f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceOpenSearchACLGet, Before: func(aivensim.Request) { arrived <- struct{}{}; <-let }})
		leave, left := grant(f, "a")
		_, stays := grant(f, "b")
		<-arrived
		leave()
		isError(t, <-left, context.Canceled)
		close(let)
		if err := <-stays; err != nil {
			t.Error(err)
		}
		diff(t, readAll, f.rules(t)["b"])
	})
	t.Run("it writes nothing once all have left", func(t *testing.T) {
		f := newFixture(t)
		arrived, let := make(chan struct{}, 9), make(chan struct{})
		f.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceOpenSearchACLGet, Before: func(aivensim.Request) { arrived <- struct{}{}; <-let }})
		leave, left := grant(f, "a")
		<-arrived
		leave()
		isError(t, <-left, context.Canceled)
		close(let)
		eventually(t, "the writer is done", func() bool {
			w := &f.entry(search).document
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.running
		})
		diff(t, 0, f.requests(aivensim.ServiceOpenSearchACLUpdate))
	})
}

func TestDocumentIsFull(t *testing.T) {
	f := newFixture(t)
	var names []string
	for i := range maxEntries {
		names = append(names, fmt.Sprint("x", i))
	}
	f.foreign(names...)
	err := f.GrantOpenSearch(t.Context(), search, "app", readAll)
	diff(t, "terminal error: write ACLs of dev/search: the service has no room for more than 512 entries", fmt.Sprint(err))

	// Of two that need room only one gets it, from a third one that makes it.
	queue := func(ed *edit) *edit {
		ed.ctx, ed.done = t.Context(), make(chan error, 1)
		return ed
	}
	batch := []*edit{
		queue(&edit{username: "first", rules: readAll}), queue(&edit{username: "second", rules: readAll}),
		queue(&edit{username: "x7", revoke: true}),
	}
	f.writeBatch(search, f.entry(search), batch)
	first, second, third := <-batch[0].done, <-batch[1].done, <-batch[2].done
	if first != nil || !terminal(second) || third != nil {
		t.Errorf("got %v, %v, %v", first, second, third)
	}
	got := f.rules(t)
	diff(t, maxEntries, len(got))
	diff(t, readAll, got["first"])
}

// TestDocumentKeepsWhatItDoesNotKnow has fields in every place that no client of today knows.
func TestDocumentKeepsWhatItDoesNotKnow(t *testing.T) {
	const before = `{"acls":[{"username":"v","rules":[{"index":"i","permission":"future","x":1.50}],"y":[1,2]},{"group":"g"},` +
		`{"username":"app","rules":[{"index":"*","permission":"admin"}]}],"enabled":false,"extendedAcl":true,"mode":{"a":null}}`
	const want = `{"acls":[{"username":"v","rules":[{"index":"i","permission":"future","x":1.50}],"y":[1,2]},{"group":"g"},` +
		`{"username":"app","rules":[{"index":"_*","permission":"read"},{"index":"*","permission":"read"}]}],"enabled":true,"extendedAcl":true,"mode":{"a":null}}`
	got, err := grantOn(t, before)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, want, got)
}

func TestNoWriteAfterAReadThatIsIncomplete(t *testing.T) {
	tests := map[string]struct {
		config string
		writes bool
	}{
		"a list that is missing":            {`{"enabled":true}`, false},
		"a list that is null":               {`{"enabled":true,"acls":null}`, false},
		"a list of another type":            {`{"enabled":false,"acls":{}}`, false},
		"a switch of another type":          {`{"enabled":"yes","acls":[]}`, false},
		"no document":                       {`null`, false},
		"a service that was never switched": {`{"enabled":false}`, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := grantOn(t, test.config)
			diff(t, test.writes, got != test.config)
			diff(t, test.writes, err == nil)
		})
	}
}

// grantOn returns what a grant makes of a document.
func grantOn(t *testing.T, config string) (string, error) {
	t.Helper()
	var mu sync.Mutex
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut {
			b, _ := io.ReadAll(r.Body)
			b = bytes.TrimSuffix(bytes.TrimPrefix(b, []byte(`{"opensearch_acl_config":`)), []byte("}"))
			config = string(b)
		}
		_, _ = w.Write([]byte(`{"opensearch_acl_config":` + config + `}`))
	}), Options{})
	err := c.GrantOpenSearch(t.Context(), search, "app", readAll)
	mu.Lock()
	defer mu.Unlock()
	return config, err
}
