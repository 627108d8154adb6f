package aivensim

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// wait returns after d, or early with false if the client went away.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sever ends the connection without an answer, with a TCP reset if that is wanted and possible.
func sever(w http.ResponseWriter, l Loss) {
	if l == LossReset {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			inner := conn
			if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
				inner = t.NetConn() // of TLS
			}
			if t, ok := inner.(*net.TCPConn); ok {
				_ = t.SetLinger(0) // without it the close is an orderly one
			}
			_ = inner.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// writers buffers the pieces of large bodies.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// slice is how often a slow body goes on.
const slice = 100 * time.Millisecond

// send sends an answer in the way that the rule wants. A client that went away is its own affair.
func (a answer) send(ctx context.Context, w http.ResponseWriter, r *Rule) {
	body := a.body
	if r.Truncate {
		body, _ = body.halve()
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	for k, v := range a.header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	h.Set("Content-Length", strconv.FormatInt(body.size(), 10))
	w.WriteHeader(a.status)
	if r.loss() != LossCut && r.StallBody == 0 {
		body.send(ctx, w, r.BytesPerSecond)
		return
	}
	first, second := body.halve()
	if !first.send(ctx, w, r.BytesPerSecond) || http.NewResponseController(w).Flush() != nil || !wait(ctx, r.StallBody) || r.loss() == LossCut {
		panic(http.ErrAbortHandler)
	}
	second.send(ctx, w, r.BytesPerSecond)
}

// send writes the parts, at a number of bytes per second unless that is zero, and tells whether it could.
func (p parts) send(ctx context.Context, w http.ResponseWriter, perSecond int) bool {
	if perSecond > 0 {
		return p.trickle(ctx, w, perSecond)
	}
	b := writers.Get().(*bufio.Writer)
	b.Reset(w)
	for _, part := range p {
		if _, err := b.Write(part); err != nil {
			break
		}
	}
	err := b.Flush()
	b.Reset(nil)
	writers.Put(b)
	return err == nil
}

func (p parts) trickle(ctx context.Context, w http.ResponseWriter, perSecond int) bool {
	size := max(1, perSecond*int(slice/time.Millisecond)/1000)
	pause := time.Duration(size) * time.Second / time.Duration(perSecond)
	for piece := range slices.Chunk(bytes.Join(p, nil), size) {
		if _, err := w.Write(piece); err != nil || http.NewResponseController(w).Flush() != nil || !wait(ctx, pause) {
			return false
		}
	}
	return true
}

// halve cuts the parts in the middle.
func (p parts) halve() (first, second parts) {
	half := p.size() / 2
	for _, part := range p {
		n := min(half, int64(len(part)))
		first, second = append(first, part[:n]), append(second, part[n:])
		half -= n
	}
	return first, second
}
