// Package operator builds the operator and runs it as a process of its own, for tests, the demo and the benchmark: what they see is what users
// see.
package operator

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// BinaryVariable names the environment variable that holds the path of a built operator. Without it one is built.
const BinaryVariable = "KEYSMITH_BINARY"

// Options say how the operator is run.
type Options struct {
	Binary     string    // as Build returned it
	Kubeconfig string    // path; empty: Args say where the API server is
	Args       []string  // more flags of the daemon
	Env        []string  // more environment, "NAME=value"
	Output     io.Writer // takes standard output and standard error; nil: kept for Log alone
}

// Process is a running operator.
type Process struct {
	// Metrics and Health are the addresses of /metrics and of /healthz and /readyz, such as http://127.0.0.1:1234.
	Metrics, Health string

	cmd    *exec.Cmd // nil: it runs inside this process
	inside *inside
	output *output
	done   chan struct{}
	err    error // of Wait, after done
}

// Build returns the path of the operator: what KEYSMITH_BINARY names, or else one that is built into dir. Args are more arguments for
// go build, such as -race.
func Build(ctx context.Context, dir string, args ...string) (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "keysmith")
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, args...), "-o", path, "github.com/keysmith-io/keysmith")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	return path, nil
}

// Start runs "keysmith daemon" on free ports of the loopback interface.
func Start(o Options) (*Process, error) {
	metrics, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	health, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{"daemon", "--metrics-address=" + metrics, "--health-address=" + health}
	if o.Kubeconfig != "" {
		args = append(args, "--kubeconfig="+o.Kubeconfig)
	}
	o.Args = append(args, o.Args...)
	p, err := StartPlain(o)
	if err != nil {
		return nil, err
	}
	p.Metrics, p.Health = "http://"+metrics, "http://"+health
	return p, nil
}

// StartPlain runs the binary with the arguments as they are, whatever it is. Nothing is known of its metrics and health.
func StartPlain(o Options) (*Process, error) {
	p := &Process{output: &output{next: o.Output}, done: make(chan struct{})}
	p.cmd = exec.Command(o.Binary, o.Args...)
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// FreeAddress is one of the loopback interface that nobody listens on, such as 127.0.0.1:12345. Its port is drawn from those that no system hands out to
// connections, so that it stays free until somebody listens.
func FreeAddress() (string, error) {
	const first, count, tries = 10000, 20000, 100
	var err error
	for range tries {
		var l net.Listener
		l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(first+rand.N(count)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// PID is the number of the process.
func (p *Process) PID() int {
	if p.cmd == nil {
		return os.Getpid()
	}
	return p.cmd.Process.Pid
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the operator to stop, as the kubelet does, and waits for it. It returns the exit status. One that takes longer than limit is killed.
func (p *Process) Stop(limit time.Duration) (status int, err error) {
	if p.cmd == nil {
		p.inside.stop()
	} else if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, fmt.Errorf("stop the operator: %w", err)
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		p.Kill()
		return 0, fmt.Errorf("stop the operator: it did not end within %s", limit)
	}
	if p.cmd == nil {
		return 0, p.err
	}
	return p.cmd.ProcessState.ExitCode(), nil
}

// Kill ends the operator at once, as a crash does.
func (p *Process) Kill() {
	if p.cmd == nil {
		p.inside.kill()
	} else {
		_ = p.cmd.Process.Kill() // it may have ended already
	}
	<-p.done
}

// Log is all that the operator has printed.
func (p *Process) Log() string { return p.output.String() }

// Ready asks the readiness check, and returns the reason that it has if the operator is not ready.
func (p *Process) Ready(ctx context.Context) error {
	status, _, err := get(ctx, p.Health+"/readyz")
	if err != nil || status == http.StatusOK {
		return err
	}
	_, reason, err := get(ctx, p.Health+"/readyz/aiven") // the other address withholds it
	if err != nil {
		return err
	}
	return fmt.Errorf("the operator is not ready: %s", reason)
}

// Metric is the value of the series of that text, such as `name{label="value"}`, or of all series of a bare name together.
func (p *Process) Metric(ctx context.Context, series string) (float64, error) {
	_, body, err := get(ctx, p.Metrics+"/metrics")
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := cutLast(lines.Text())
		if !ok || name != series && !strings.HasPrefix(name, series+"{") {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(value, &v); err != nil {
			return 0, fmt.Errorf("read metric %s: %w", series, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("read metric %s: there is none", series)
	}
	return sum, nil
}

func cutLast(line string) (before, after string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

func get(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// output keeps what is written, and passes it on.
type output struct {
	mu   sync.Mutex
	all  bytes.Buffer
	next io.Writer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all.Write(b)
	if o.next != nil {
		return o.next.Write(b)
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}
