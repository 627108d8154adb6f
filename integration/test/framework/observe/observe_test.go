//go:build k8srequired

// Package observe shows what can be seen of an operator from outside: log lines that say what they are about, metrics that cost nothing, and no
// event or write where nothing changes.
package observe

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/integration/counting"
)

// requests counts what is asked of the API server, by method, watches excepted.
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Query().Get("watch") == "" {
			r.mu.Lock()
			r.counts[req.Method]++
			r.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (r *requests) all() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// start starts an operator whose requests are counted.
func start(bed *counting.Bed, setups ...counting.Setup) (*counting.Operator, *requests) {
	calls := &requests{counts: map[string]int{}}
	config := bed.Config()
	config.Wrap(calls.wrap)
	return bed.StartAs(config, nil, setups...), calls
}

func TestHealthyObjectsAreQuiet(t *testing.T) {
	t.Parallel()
	const objects, resyncs = 50, 10
	bed := counting.New(t)
	r := counting.Named("counter")
	cfg := counting.Services("observe", r)
	cfg.Resync, cfg.Workers = 200*time.Millisecond, 4
	op, calls := start(bed, counting.Controller(cfg))
	var names []string
	for i := range objects {
		names = append(names, fmt.Sprintf("cart-%d", i))
		bed.Make(counting.Service(names[i]))
	}
	versions := func() map[string]string {
		all := map[string]string{}
		for _, name := range names {
			s := counting.Service(name)
			bed.Read(s)
			all[name] = s.ResourceVersion
		}
		return all
	}
	for _, name := range names {
		bed.Ready(name, "True Done")
	}
	before, asked := versions(), calls.all()
	if n := asked["PATCH"]; n != 2*objects {
		t.Errorf("%d patches, want one of the finalizer and one of the status of each of %d objects", n, objects)
	}
	passes := map[string]int{}
	for _, name := range names {
		passes[name] = r.Created(name)
	}
	for _, name := range names {
		bed.AtLeast(passes[name]+resyncs, "resyncs", func() int { return r.Created(name) })
	}
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("versions of the objects: (-before +after)\n%s", diff)
	}
	if diff := cmp.Diff(asked, calls.all()); diff != "" {
		t.Errorf("requests: (-before +after)\n%s", diff)
	}
	for _, name := range names {
		bed.Event(name)
	}
	op.Healthy()
}
