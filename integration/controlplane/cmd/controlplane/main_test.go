package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/integration/controlplane"
	"github.com/keysmith-io/keysmith/integration/env"
)

// deadline is how long the program may take for anything, on a machine that is busy with other things.
const deadline = 2 * time.Minute

// envProgram makes the test binary the program itself.
const envProgram = "CONTROLPLANE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestExecute(t *testing.T) {
	for name, tc := range map[string]struct {
		command []string
		signal  os.Signal
		want    int
		err     error
	}{
		"it returns success":                    {command: []string{"true"}},
		"it returns the status of the command":  {command: []string{"sh", "-c", "exit 3"}, want: 3},
		"it returns the signal that ended it":   {command: []string{"sh", "-c", "kill -KILL $$"}, want: 128 + 9},
		"it hands on the environment":           {command: []string{"sh", "-c", `exit "$STATUS"`}, want: 5},
		"it passes on a signal":                 {command: []string{"sleep", "600"}, signal: syscall.SIGTERM, want: 128 + 15},
		"it says that there is no such file":    {command: []string{"./no-such-command"}, want: 127, err: os.ErrNotExist},
		"it says that there is no such command": {command: []string{"no-such-command"}, want: 127, err: exec.ErrNotFound},
		"it says that it cannot be started":     {command: []string{"./main.go"}, want: 126, err: os.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			signals := make(chan os.Signal, 1)
			if tc.signal != nil {
				signals <- tc.signal
			}
			got, err := execute(tc.command, append(os.Environ(), "STATUS=5"), signals)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("status %d, error %v, want %d, %v", got, err, tc.want, tc.err)
			}
		})
	}

	t.Run("it leaves no process of the command", func(t *testing.T) {
		// A pipe is read to its end when nobody can write to it any more.
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := os.ReadFile(pipe)
			ended <- err
		}()
		command := []string{"sh", "-c", `exec >"$0"; sleep 600 &`, pipe}
		if status, err := execute(command, os.Environ(), nil); status != 0 || err != nil {
			t.Fatalf("status %d, error %v", status, err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(deadline):
			t.Error("the process still runs")
		}
	})
}

// program returns the program with a temporary folder of its own.
func program(t *testing.T, name string, args ...string) (cmd *exec.Cmd, temp string) {
	t.Helper()
	if err := controlplane.Cached(); err != nil {
		t.Skipf("NOT TESTED: the control plane has to be built first: go run ./integration/controlplane/cmd/controlplane -- true\n%v", err)
	}
	temp = t.TempDir()
	cmd = exec.Command(name, args...)
	cmd.Env = append(os.Environ(), envProgram+"=1", "PROGRAM="+os.Args[0], "TMPDIR="+temp, "E2E_KUBECONFIG=")
	cmd.Stderr = t.Output()
	return cmd, temp
}

// nothingLeft waits until there is no file in temp and no process that has it in its arguments, as those of a control plane have.
func nothingLeft(t *testing.T, temp string) {
	t.Helper()
	env.Eventually(t, deadline, func(context.Context) error {
		files, err := os.ReadDir(temp)
		if err != nil {
			return err
		}
		if len(files) > 0 {
			return fmt.Errorf("%s is left in the temporary folder", files[0].Name())
		}
		processes, err := filepath.Glob("/proc/[0-9]*/cmdline") // none but on Linux
		if err != nil {
			return err
		}
		for _, process := range processes {
			if args, err := os.ReadFile(process); err == nil && bytes.Contains(args, []byte(temp)) {
				return fmt.Errorf("a process is left: %s", bytes.ReplaceAll(args, []byte{0}, []byte(" ")))
			}
		}
		return nil
	})
}

func TestProgram(t *testing.T) {
	t.Run("it runs a command in its cluster, and again in a cluster that is there", func(t *testing.T) {
		const script = `test -s "$KUBECONFIG" && test "$KUBECONFIG" = "$E2E_KUBECONFIG" && "$PROGRAM" -- sh -c '
			test "$KUBECONFIG" = "$0" && test "$E2E_KUBECONFIG" = "$0" && exit 7' "$KUBECONFIG"`
		cmd, temp := program(t, os.Args[0], "--", "sh", "-c", script)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != 7 {
			t.Errorf("status %d, want 7", got)
		}
		nothingLeft(t, temp)
	})

	t.Run("it passes on a signal and stops the cluster", func(t *testing.T) {
		cmd, temp := program(t, os.Args[0], "--", "sh", "-c", `trap "exit 9" TERM; echo ready; sleep 600 & wait`)
		waitFor(t, cmd, "ready")
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 9 {
			t.Errorf("status %d, want 9", got)
		}
		nothingLeft(t, temp)
	})

	t.Run("it can be interrupted while it starts", func(t *testing.T) {
		cmd, temp := program(t, os.Args[0], "--", "true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		env.Eventually(t, deadline, func(context.Context) error {
			if files, err := os.ReadDir(temp); len(files) == 0 {
				return fmt.Errorf("it has made no folder yet: %w", errors.Join(err))
			}
			return nil
		})
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 130 {
			t.Errorf("status %d, want 130", got)
		}
		nothingLeft(t, temp)
	})

	t.Run("it ends when its parent is killed", func(t *testing.T) {
		cmd, temp := program(t, "sh", "-c", `"$PROGRAM" -- sh -c "echo ready; sleep 600" & wait`)
		waitFor(t, cmd, "ready")
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		nothingLeft(t, temp)
		_ = cmd.Wait()
	})
}

// waitFor starts the command and waits until it prints the line.
func waitFor(t *testing.T, cmd *exec.Cmd, line string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == line {
			return
		}
	}
	_ = cmd.Wait()
	t.Fatalf("the program has ended without %q: %s", line, cmd.ProcessState)
}
