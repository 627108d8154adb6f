// Keysmith gives applications credentials on shared Aiven services.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", project.Name, err)
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
	c.AddCommand(daemon(), explainCommand(), getCommand(), orphansCommand(), version())
	return c
}

func daemon() *cobra.Command {
	f := &flag.Flags{}
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Run the operator",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flag.Environment(c.Flags(), os.LookupEnv); err != nil {
				return usageError{err}
			}
			if err := f.Validate(); err != nil {
				return usageError{err}
			}
			logger := service.NewLogger(os.Stdout, f.LogLevel)
			ctrl.SetLogger(logger)
			klog.SetLogger(logger)
			return service.Run(c.Context(), *f, logger)
		},
	}
	f.Bind(c.Flags())
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
