package chaos

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// echo answers every line with the same line.
func echo(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

func TestProxy(t *testing.T) {
	p, err := NewProxy(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", p.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	talk := func(c net.Conn) error {
		if _, err := c.Write([]byte("hello\n")); err != nil {
			return err
		}
		_, err := bufio.NewReader(c).ReadString('\n')
		return err
	}

	c := dial()
	if err := talk(c); err != nil {
		t.Fatalf("it does not pass on: %v", err)
	}
	if n := p.Cut(); n != 1 {
		t.Errorf("it cut %d connections, want 1", n)
	}
	if err := talk(c); err == nil {
		t.Error("a connection that was cut goes on")
	}
	if err := talk(dial()); err != nil {
		t.Errorf("after a cut it does not pass on: %v", err)
	}
	p.Refuse(true)
	if c, err := net.Dial("tcp", p.Address()); err == nil && talk(c) == nil {
		t.Error("it does not refuse")
	}
	p.Refuse(false)
	if err := talk(dial()); err != nil {
		t.Errorf("when it no longer refuses it does not pass on: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
