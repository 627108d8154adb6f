package chaos

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/stage"
)

const (
	// stopTime is how long the operator may take to end when it is asked to.
	stopTime = 30 * time.Second
	// backoff is how long a process that ended by itself stays away, as a kubelet has it.
	backoff = time.Second
	// leaseName is the name of the lease that replicas contend for.
	leaseName = "keysmith"
)

// crew is the operator's replicas.
type crew struct {
	options operator.Options // without the token
	history *history
	gate    *gate
	stage   *stage.Stage
	elected bool   // they contend for a lease
	where   string // the namespace of the lease

	mu         sync.Mutex
	replicas   []*replica
	over       bool
	violations []Violation
	restarts   []time.Time // when a process began, ended or was frozen
	outages    []time.Time // when the API server went away or came back
	wg         sync.WaitGroup
}

// replica is one process after the other, with the same token.
type replica struct {
	name, token string
	process     *operator.Process // nil while none runs
	log         *os.File          // nil: not kept
}

func (c *crew) violate(i Invariant, format string, args ...any) {
	c.violations = append(c.violations, Violation{Invariant: i, Text: fmt.Sprintf(format, args...)})
}

// start starts a process for a replica that has none. The caller holds the lock.
func (c *crew) start(r *replica) error {
	o := c.options
	o.Env = append(o.Env, "AIVENATOR_AIVEN_TOKEN="+r.token)
	if r.log != nil {
		o.Output = r.log
	}
	c.gate.forget(r.token)
	p, err := operator.Start(o)
	if err != nil {
		return err
	}
	r.process = p
	c.restarts = append(c.restarts, time.Now())
	c.history.note("", "", "operator %s starts as process %d", r.name, p.PID())
	c.wg.Go(func() { c.watch(r, p) })
	return nil
}

// watch starts another process when one ended by itself.
func (c *crew) watch(r *replica, p *operator.Process) {
	<-p.Done()
	c.mu.Lock()
	if r.process != p {
		c.mu.Unlock()
		return // somebody ended it, and looked at its log
	}
	r.process = nil
	c.inspect(r, p)
	log := p.Log()
	c.history.note("", "", "operator %s ended by itself: %s", r.name, stage.Tail(log, 1))
	c.history.count("process", "ended by itself")
	// A lease is lost when the API server is away, and for a frozen process; and without an API server none can start.
	if !c.disturbed(time.Now()) && !(c.elected && strings.Contains(log, "leader election lost")) {
		c.violate(EndsWell, "operator %s ended by itself: %s", r.name, stage.Tail(log, 3))
	}
	c.mu.Unlock()
	<-time.After(backoff)
	c.resume(r)
}

// disturbed tells whether the API server was away within the last minute.
func (c *crew) disturbed(now time.Time) bool {
	n := len(c.outages)
	return n > 0 && now.Sub(c.outages[n-1]) < time.Minute
}

func (c *crew) outage() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outages = append(c.outages, time.Now())
}

// shameful is what no log may hold: credentials as the simulator makes them, and the marks of races and panics.
var shameful = regexp.MustCompile(`AVNS_|avnT_|PRIVATE KEY|DATA RACE|panic: |Observed a panic|fatal error:|goroutine \d+ \[`)

// inspect looks at the log of a process that has ended.
func (c *crew) inspect(r *replica, p *operator.Process) {
	log := p.Log()
	if at := shameful.FindStringIndex(log); at != nil {
		c.violate(Silent, "the log of operator %s (process %d) says: %s", r.name, p.PID(), log[max(0, at[0]-2000):min(len(log), at[1]+4000)])
	}
}

// end ends the process of a replica in some way and looks at its log.
func (c *crew) end(r *replica, how string, f func(*operator.Process)) {
	c.mu.Lock()
	p := r.process
	r.process = nil
	c.restarts = append(c.restarts, time.Now())
	c.mu.Unlock()
	if p == nil {
		return
	}
	c.history.note("", "", "operator %s: %s", r.name, how)
	c.history.count("process", how)
	f(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inspect(r, p)
}

// kill ends the process of a replica as a crash does.
func (c *crew) kill(r *replica) {
	c.end(r, "killed", (*operator.Process).Kill)
}

// stop asks the process of a replica to end.
func (c *crew) stop(r *replica) {
	c.end(r, "stopped", func(p *operator.Process) {
		early := p.Log() == "" // it has not come to where it listens to signals
		if status, err := p.Stop(stopTime); err != nil || status != 0 && !early {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.violate(EndsWell, "operator %s was asked to stop: exit status %d, %v: %s", r.name, status, err, stage.Tail(p.Log(), 5))
		}
	})
}

// resume starts the process of a replica that was ended.
func (c *crew) resume(r *replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.process != nil || c.over {
		return
	}
	if err := c.start(r); err != nil {
		c.violate(EndsWell, "operator %s: %v", r.name, err)
	}
}

// freeze holds the process of a replica for a while, as a machine that stands still does.
func (c *crew) freeze(ctx context.Context, r *replica, d time.Duration) {
	c.mu.Lock()
	p := r.process
	c.restarts = append(c.restarts, time.Now())
	c.mu.Unlock()
	if p == nil {
		return
	}
	c.history.note("", "", "operator %s: frozen for %s", r.name, d)
	c.history.count("process", "frozen")
	_ = syscall.Kill(p.PID(), syscall.SIGSTOP) // it may have ended
	rest(ctx, d)
	_ = syscall.Kill(p.PID(), syscall.SIGCONT)
	c.history.note("", "", "operator %s: thawed", r.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarts = append(c.restarts, time.Now())
}

// vacate takes the lease away from a process that is dead, which saves the time until it runs out.
func (c *crew) vacate(ctx context.Context) {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = c.where, leaseName
	_ = c.stage.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"holderIdentity":""}}`))) // else it runs out
}

// leads tells whether a replica says that it holds the lease.
func (c *crew) leads(ctx context.Context, r *replica) bool {
	c.mu.Lock()
	p := r.process
	c.mu.Unlock()
	if p == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	n, err := p.Metric(ctx, "leader_election_master_status")
	return err == nil && n == 1
}

// finish stops all replicas, or kills them.
func (c *crew) finish(well bool) {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	for _, r := range c.replicas {
		if well {
			c.stop(r)
		} else {
			c.kill(r)
		}
	}
	c.wg.Wait()
	for _, r := range c.replicas {
		if r.log != nil {
			_ = r.log.Close() // what was read from it counts
		}
	}
}

// found is what was wrong with processes, and the times at which they changed.
func (c *crew) found() ([]Violation, []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Violation(nil), c.violations...), append([]time.Time(nil), c.restarts...)
}

// throughProxy writes a kubeconfig into dir that leads to a proxy in front of the API server of another one.
func throughProxy(path, dir string) (kubeconfig string, p *Proxy, err error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return "", nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	current, ok := config.Contexts[config.CurrentContext]
	if !ok || config.Clusters[current.Cluster] == nil {
		return "", nil, fmt.Errorf("read kubeconfig: %s has no current cluster", path)
	}
	cluster := config.Clusters[current.Cluster]
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return "", nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	target := server.Host
	if server.Port() == "" {
		target += ":443"
	}
	if p, err = NewProxy(target); err != nil {
		return "", nil, fmt.Errorf("start the proxy: %w", err)
	}
	if cluster.TLSServerName == "" {
		cluster.TLSServerName = server.Hostname()
	}
	server.Host = p.Address()
	cluster.Server = server.String()
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return "", nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return kubeconfig, p, os.Chmod(kubeconfig, 0o600)
}
