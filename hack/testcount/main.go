// Command testcount runs a command that runs Go tests with -json, shows what matters of
// their output, and ends with one line that counts them all:
//
//	testcount make unit integration TESTFLAGS=-json
//
// It exits with 1 if a test failed, or if the command did: a build that breaks and a
// cluster that does not start count as failures too. Skipped tests are listed by name.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// quiet is how long nothing may be printed before a line says what is still running.
const quiet = 30 * time.Second

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: testcount command [argument ...]")
		os.Exit(2)
	}
	c := newCount(os.Stdout)
	if !c.finish(run(os.Args[1:], c)) {
		os.Exit(1)
	}
}

// run runs the command and counts its tests.
func run(command []string, c *count) error {
	// An interrupted command ends its tests and its cluster; a killed one does not.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", strings.Join(command, " "), err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", strings.Join(command, " "), err)
	}

	lines := make(chan []byte)
	read := make(chan error, 1)
	go func() {
		defer close(lines)
		read <- readLines(stdout, lines)
	}()

	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for open := true; open; {
		select {
		case line, ok := <-lines:
			if open = ok; ok && c.add(line) {
				timer.Reset(quiet)
			}
		case <-timer.C:
			c.progress(time.Now())
			timer.Reset(quiet)
		}
	}
	if err := errors.Join(<-read, cmd.Wait()); err != nil {
		return fmt.Errorf("run %s: %w", strings.Join(command, " "), err)
	}
	return nil
}

// readLines sends the lines of r, of any length, without their ends.
func readLines(r io.Reader, lines chan<- []byte) error {
	b := bufio.NewReader(r)
	for {
		line, err := b.ReadBytes('\n')
		if len(line) > 0 {
			lines <- line
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
