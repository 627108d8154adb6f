// Keysmith gives applications credentials on shared Aiven services.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keysmith-io/keysmith/flag"
	"github.com/keysmith-io/keysmith/pkg/project"
	"github.com/keysmith-io/keysmith/service"
)

// Exit statuses.
const (
	failure  = 1
	badUsage = 2
)

// usageError is a command line or a setting that cannot work.
type usageError struct{ error }

// exitError is an end with a status of its own. Without an error in it there is nothing more to say.
type exitError struct {
	error
	status int
}

// garbage is how much of it may gather, in percent of what is in use, before it is collected. What the daemon has in use is its caches: half of Go's
// default takes an eighth off its memory, and more where it has much, for a tenth or two of its little processor time; this takes 2 % more, for 7 %.
const garbage = 40

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	exit, own := errors.AsType[exitError](err)
	if own && exit.error == nil {
		os.Exit(exit.status)
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", project.Name, err)
	if own {
		os.Exit(exit.status)
	}
	if errors.As(err, &usageError{}) {
		os.Exit(badUsage)
	}
	os.Exit(failure)
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           project.Name,
		Short:         "Gives applications on Kubernetes credentials on shared Aiven services",
		Args:          noArguments,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	c.AddCommand(daemon(), planned(), explainCommand(), getCommand(), orphansCommand(), version())
	return c
}

func daemon() *cobra.Command {
	f := &flag.Flags{}
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Run the operator",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			logger, err := setUp(c, f, os.Stdout)
			if err != nil {
				return err
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(garbage)
			}
			runtime.MemProfileRate = 0 // nobody can read the profile, which takes a twentieth of the processor time in a burst
			return service.Run(c.Context(), *f, logger)
		},
	}
	f.Bind(c.Flags())
	return c
}

// setUp reads the settings of a command, and makes its logger.
func setUp(c *cobra.Command, f *flag.Flags, log io.Writer) (logr.Logger, error) {
	if err := flag.Environment(c.Flags(), os.LookupEnv); err != nil {
		return logr.Logger{}, usageError{err}
	}
	if err := f.Validate(); err != nil {
		return logr.Logger{}, usageError{err}
	}
	logger := service.NewLogger(log, f.LogLevel)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	return logger, nil
}

// Exit statuses of plan, which are those of kubectl diff.
const (
	wouldChange = 1
	noPlan      = 2
)

func planned() *cobra.Command {
	f, format := &flag.Flags{}, ""
	c := &cobra.Command{
		Use:   "plan",
		Short: "Say what the daemon would do, and do nothing of it",
		Long: `Say what the daemon would do with the same settings, and do nothing of it.

It makes the daemon's own passes over all applications and Secrets, and a round of the janitor, and keeps to itself what they write. It takes no lease, and
changes nothing in the cluster or at Aiven. Data keys of Secrets are named, their values are not shown. What the operator keeps on objects for itself is
no change: its finalizer, the annotations keysmith.io/*, and the status.

Exit status: 0 if nothing would change and every application would be ready, 1 if not, more if there is no answer.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return usageError{fmt.Errorf("--output: %q is not one of table, json", format)}
			}
			logger, err := setUp(c, f, os.Stderr)
			if err != nil {
				return err
			}
			report, err := service.Plan(c.Context(), *f, logger)
			if err != nil {
				return exitError{err, noPlan}
			}
			write := report.Table
			if format == "json" {
				write = report.JSON
			}
			if err := write(c.OutOrStdout()); err != nil {
				return exitError{err, noPlan}
			}
			if !report.Quiet() {
				return exitError{status: wouldChange}
			}
			return nil
		},
	}
	f.Bind(c.Flags())
	c.Flags().StringVarP(&format, "output", "o", "table", "one of table, json")
	return c
}

func version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this is",
		Args:  noArguments,
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintf(c.OutOrStdout(), "%s %s (commit %s, %s, %s/%s)\n",
				project.Name, project.Version(), project.Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

func noArguments(c *cobra.Command, args []string) error {
	if err := cobra.NoArgs(c, args); err != nil {
		return usageError{err}
	}
	return nil
}
