// Package aiven is keysmith's client of the Aiven API. It wraps aiven-go-client, whose retries, globals and error
// texts it replaces, and adds what an operator with many objects on few services needs:
//
//   - One shared snapshot per service, kept up to date by this process' own writes. Aiven shows a write only after
//     a while, so that an own write also corrects the reads of the next two minutes.
//   - One writer per OpenSearch ACL document, which merges concurrent changes.
//   - Errors classified once, with texts that can be shown to anybody.
//   - Limits on what is sent, and obedience to 429 for everything that uses the token.
package aiven

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	goclient "github.com/aiven/aiven-go-client/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// Options are the settings of a Client. The zero value of each field but Token means its default.
type Options struct {
	// URL of the API without the version; default https://api.aiven.io.
	URL string
	// Token returns the API token. It is asked before every call, so that a token that changed is used at once.
	// White space around it is dropped.
	Token func() string
	// RootCAs holds more certificate authorities, in PEM, trusted beside those of the system.
	RootCAs []byte
	// UserAgent names the program; default "keysmith".
	UserAgent string
	// Timeout is the deadline of one request; default 30 s.
	Timeout time.Duration
	// Parallel is how many requests may be under way at once for each project; default 16. A project that hangs
	// holds up nobody else.
	Parallel int
	// QPS and Burst limit the requests per second of the client; default 500 and 2000. Aiven publishes no limit and
	// answers 429 at its own, which is obeyed. These are here to contain a loop gone wild, not to shape the load.
	QPS   float64
	Burst int
	// MaxAge is the age at which a snapshot is read again; default 5 min. Each snapshot takes between 80 % and 100 %
	// of it, so that services are not all read at once.
	MaxAge time.Duration
	// Clock is the time by which snapshots age and throttling ends; default the real one.
	Clock clock.PassiveClock
	// Registry takes the metrics; nil: nobody reads them.
	Registry prometheus.Registerer
	// ReadOnly makes every call that would change something fail before it is sent.
	ReadOnly bool
	// MayWrite is asked before each call that would change something is sent, which its error prevents; nil: all may.
	MayWrite func() error
	// Transport sends the requests; default an own http.Transport, with the proxy of the environment. RootCAs are
	// then up to it.
	Transport http.RoundTripper
}

// Client calls the Aiven API. It is safe for concurrent use. Its errors are described at ErrNotFound. Once the
// caller's context has ended, nothing more is sent on the caller's behalf.
type Client struct {
	token    func() string
	readOnly bool
	mayWrite func() error
	timeout  time.Duration
	pause    time.Duration // before the first repetition of anything
	maxAge   time.Duration
	clock    clock.PassiveClock
	http     *http.Client
	api      *goclient.Client
	limiter  *rate.Limiter
	slots    slots
	throttle throttle
	health   *health
	metrics  *metrics

	ctx    context.Context // of what is done for several callers
	cancel context.CancelFunc

	mu       sync.Mutex
	services map[Ref]*entry
	cas      map[string]*cell[string]
}

// New returns a client. It calls nothing yet. It fails on a URL that is not an absolute http(s) URL, on RootCAs that
// hold anything but certificates, without Token, and where the metrics are registered already.
func New(o Options) (*Client, error) {
	if o.Token == nil {
		return nil, errors.New("the Aiven client needs a token")
	}
	base, err := parseURL(cmp.Or(o.URL, "https://api.aiven.io"))
	if err != nil {
		return nil, err
	}
	roots, err := rootPool(o.RootCAs)
	if err != nil {
		return nil, fmt.Errorf("read the extra CAs for the Aiven API: %w", err)
	}
	parallel := cmp.Or(o.Parallel, 16)
	if o.Transport == nil {
		o.Transport = newHTTPTransport(roots, 4*parallel)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Client{
		token:    o.Token,
		readOnly: o.ReadOnly,
		mayWrite: o.MayWrite,
		timeout:  cmp.Or(o.Timeout, 30*time.Second),
		pause:    100 * time.Millisecond,
		maxAge:   cmp.Or(o.MaxAge, 5*time.Minute),
		clock:    o.Clock,
		http: &http.Client{Transport: &transport{
			base: base, userAgent: cmp.Or(o.UserAgent, "keysmith"), next: o.Transport,
		}},
		limiter:  rate.NewLimiter(rate.Limit(cmp.Or(o.QPS, 500)), cmp.Or(o.Burst, 2000)),
		slots:    slots{size: parallel, by: map[string]*slot{}},
		health:   newHealth(),
		services: map[Ref]*entry{},
		cas:      map[string]*cell[string]{},
	}
	if c.metrics, err = newMetrics(o.Registry, c.health, c.clock); err != nil {
		return nil, fmt.Errorf("register the metrics of the Aiven client: %w", err)
	}
	if o.Registry != nil {
		if err := o.Registry.Register(census{c}); err != nil {
			return nil, fmt.Errorf("register the metrics of the Aiven client: %w", err)
		}
	}
	c.api = &goclient.Client{Client: c.http}
	c.api.Init()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends everything under way, and makes every later call fail.
func (c *Client) Close() {
	c.cancel()
	c.http.CloseIdleConnections()
}
