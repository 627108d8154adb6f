package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// simulator is the simulated Aiven, as a process of its own.
type simulator struct {
	url     string // of the API
	control string
	cmd     *exec.Cmd
}

// startSimulator builds the simulator into dir and starts it.
func startSimulator(ctx context.Context, dir string, args ...string) (*simulator, error) {
	path := filepath.Join(dir, "aivensim")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/keysmith-io/keysmith/pkg/aivensim/cmd/aivensim")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the simulator: %w\n%s", err, out)
	}
	s := &simulator{cmd: exec.Command(path, append([]string{"--control=127.0.0.1:0"}, args...)...)}
	var complaint strings.Builder
	s.cmd.Stderr = &complaint
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the simulator: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the simulator: %w", err)
	}
	for lines := bufio.NewScanner(stdout); s.url == "" || s.control == ""; {
		if !lines.Scan() {
			s.stop()
			return nil, fmt.Errorf("start the simulator: it ended: %s", complaint.String())
		}
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			s.url = url
		}
		if url, ok := strings.CutPrefix(lines.Text(), "control on "); ok {
			s.control = url
		}
	}
	return s, nil
}

// stop ends the simulator.
func (s *simulator) stop() {
	_ = s.cmd.Process.Kill() // it may have ended already
	_ = s.cmd.Wait()         // it was killed, which is no success
}

// counters are the calls so far.
func (s *simulator) counters(ctx context.Context) (c aivensim.Counters, err error) {
	if err := s.ask(ctx, http.MethodGet, "/counters", nil, &c); err != nil {
		return c, fmt.Errorf("read the simulator's counters: %w", err)
	}
	return c, nil
}

// disturb injects a rule.
func (s *simulator) disturb(ctx context.Context, rule aivensim.Rule) error {
	if err := s.ask(ctx, http.MethodPost, "/rules", rule, nil); err != nil {
		return fmt.Errorf("disturb project %s: %w", rule.Project, err)
	}
	return nil
}

// heal ends all disturbances.
func (s *simulator) heal(ctx context.Context) error {
	if err := s.ask(ctx, http.MethodDelete, "/rules", nil, nil); err != nil {
		return fmt.Errorf("end the disturbances: %w", err)
	}
	return nil
}

// ask makes a request to the control interface. In and out are JSON; nil: there is none.
func (s *simulator) ask(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, s.control+path, &body)
	if err != nil {
		return err
	}
	rsp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer rsp.Body.Close()
	raw, err := io.ReadAll(rsp.Body)
	if err != nil {
		return err
	}
	if rsp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", rsp.StatusCode, raw)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}
