// Command controlplane runs a command against a Kubernetes control plane of its own, for integration tests and for trying keysmith out:
//
//	go run ./integration/controlplane/cmd/controlplane -- go test -tags=k8srequired ./integration/test/...
//
// The command finds the cluster through KUBECONFIG and E2E_KUBECONFIG. Signals are passed on to it and to what it has started, and its
// exit status becomes that of the program. When it ends, all that it and the program have started ends too. Without a
// command the cluster runs until the program is interrupted, or its parent ends.
//
// If E2E_KUBECONFIG is set already, the command runs against that cluster, and all that happens to it is that the
// custom resource definitions are installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keysmith-io/keysmith/integration/controlplane"
)

// Exit statuses that are not the command's own, as env and timeout have them.
const (
	statusNoCluster = 125
	statusNoStart   = 126 // the command cannot be started
	statusNotFound  = 127 // there is no such command
	statusSignal    = 128 // plus the number of the signal that ended it
)

// grace is how long the command may take to end after a signal before it is killed.
const grace = 30 * time.Second

func main() {
	// A set of its own, because controller-runtime adds a flag to the common one.
	flags := flag.NewFlagSet("controlplane", flag.ExitOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage: controlplane [-- command [argument ...]]")
	}
	_ = flags.Parse(os.Args[1:])   // which exits if it fails
	ctrl.SetLogger(logr.Discard()) // envtest's; its errors say enough

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go watchParent(signals)
	os.Exit(run(flags.Args(), signals))
}

// watchParent terminates the program when its parent is gone: go run, the usual one, does not pass on what terminates it.
func watchParent(signals chan<- os.Signal) {
	parent := os.Getppid()
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			signals <- syscall.SIGTERM
			return
		}
	}
}

// run returns the exit status of the program.
func run(command []string, signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		kubeconfig string
		stop       func() error
		err        error
	)
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		kubeconfig, stop, err = connect(ctx)
	}()
	status := 0
	select {
	case <-connected:
	case s := <-signals:
		status = statusSignal + int(s.(syscall.Signal))
		cancel()
		<-connected
	}
	if err != nil {
		complain(err)
		return max(status, statusNoCluster)
	}
	if status == 0 {
		status = use(kubeconfig, command, signals)
	}
	if err := stop(); err != nil {
		complain(err)
		return max(status, 1)
	}
	return status
}

// connect returns the kubeconfig of the cluster that E2E_KUBECONFIG names, or else of one that it starts, and how to stop it.
func connect(ctx context.Context) (kubeconfig string, stop func() error, err error) {
	kubeconfig = os.Getenv("E2E_KUBECONFIG")
	if kubeconfig == "" {
		start := time.Now()
		c, err := controlplane.Start(ctx, controlplane.Options{})
		if err != nil {
			return "", nil, err
		}
		say("Kubernetes is up after %s", time.Since(start).Round(100*time.Millisecond))
		return c.Kubeconfig(), c.Stop, nil
	}

	// The command may look from another folder.
	if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
		return "", nil, fmt.Errorf("find E2E_KUBECONFIG: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", nil, fmt.Errorf("read E2E_KUBECONFIG: %w", err)
	}
	if err := controlplane.InstallCRDs(ctx, config, nil); err != nil {
		return "", nil, err
	}
	say("using the cluster of E2E_KUBECONFIG, %s", config.Host)
	return kubeconfig, func() error { return nil }, nil
}

// use runs the command with the cluster and returns its exit status. Without a command it waits for a signal.
func use(kubeconfig string, command []string, signals <-chan os.Signal) int {
	if len(command) == 0 {
		say("to use it, until this program is interrupted:\n\n\texport KUBECONFIG=%s E2E_KUBECONFIG=%[1]s\n", kubeconfig)
		<-signals
		return 0
	}
	status, err := execute(command, append(os.Environ(), "KUBECONFIG="+kubeconfig, "E2E_KUBECONFIG="+kubeconfig), signals)
	if err != nil {
		complain(err)
	}
	return status
}

// execute runs the command in a process group of its own, passes signals on to the whole group, and returns the exit status as
// a shell does. Nothing of the group is left.
func execute(command, env []string, signals <-chan os.Signal) (status int, err error) {
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// A terminal stops the processes of a background group that read from it, so a command gets any other input only.
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice == 0 {
		cmd.Stdin = os.Stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return statusNotFound, fmt.Errorf("run the command: %w", err)
		}
		return statusNoStart, fmt.Errorf("run the command: %w", err)
	}
	group := -cmd.Process.Pid
	defer func() { _ = syscall.Kill(group, syscall.SIGKILL) }() // there is mostly nothing left
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state says it all
	}()
	var overdue <-chan time.Time
	for {
		select {
		case <-ended:
			state := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if state.Signaled() {
				return statusSignal + int(state.Signal()), nil
			}
			return state.ExitStatus(), nil
		case s := <-signals:
			_ = syscall.Kill(group, s.(syscall.Signal)) // it may just have ended
			if overdue == nil {
				overdue = time.After(grace)
			}
		case <-overdue:
			_ = syscall.Kill(group, syscall.SIGKILL)
		}
	}
}

// say writes a line for people; the standard output belongs to the command.
func say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "controlplane: "+format+"\n", args...)
}

func complain(err error) {
	say("%v", err)
}
