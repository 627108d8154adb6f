//go:build k8srequired

package reconnect

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// wire is the way of a client to the API server, which can be cut.
type wire struct {
	mu    sync.Mutex
	err   error // of attempts to connect while it is cut
	conns []net.Conn
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: w.err}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

// cut ends all connections, and lets no new one come about until mend.
func (w *wire) cut(err syscall.Errno) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = nil
}
