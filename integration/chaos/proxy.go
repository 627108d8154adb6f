package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy stands between the operator and the API server. It passes bytes on until it is told to cut or to refuse connections.
type Proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool // both ends of each
}

// NewProxy starts a proxy on a free port of the loopback interface. The target is "host:port".
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Address is where it listens, "host:port".
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Cut resets all connections and tells how many there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns) / 2
	for c := range p.conns {
		reset(c)
	}
	clear(p.conns)
	return n
}

// Refuse resets all connections, and new ones at once until it is told otherwise.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	p.down = yes
	p.mu.Unlock()
	if yes {
		p.Cut()
	}
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Refuse(true)
	p.wg.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // it was closed
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target) // it is on this machine, or refused
	if err != nil {
		reset(client)
		return
	}
	if !p.enter(client, server) {
		reset(client)
		reset(server)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { pass(server, client) })
	wg.Go(func() { pass(client, server) })
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

func (p *Proxy) enter(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

// pass copies until one side ends, and then ends the other.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // connections end; that is what this is about
	_ = to.Close()
	_ = from.Close()
}

// reset closes a connection as a crash does: what is on its way is lost.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
