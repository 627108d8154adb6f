package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keysmith-io/keysmith/command"
	"github.com/keysmith-io/keysmith/command/explain"
	"github.com/keysmith-io/keysmith/command/get"
	"github.com/keysmith-io/keysmith/command/orphans"
	"github.com/keysmith-io/keysmith/flag"
	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/resource/secret"
	"github.com/keysmith-io/keysmith/service"
	"github.com/keysmith-io/keysmith/service/controller"
)

// output is how an answer is printed.
type output struct{ format string }

func (o *output) bind(fs *pflag.FlagSet) {
	fs.StringVarP(&o.format, "output", "o", "text", "text or json")
}

func (o *output) isJSON() (bool, error) {
	if o.format != "text" && o.format != "json" {
		return false, usageError{fmt.Errorf("--output: %q is not one of text, json", o.format)}
	}
	return o.format == "json", nil
}

func explainCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "explain",
		Short: "Say why something is as it is",
		Args:  noArguments,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var where command.Cluster
	var how output
	c := &cobra.Command{
		Use:   "secret [NAMESPACE/]NAME",
		Short: "Say whose a Secret is, who uses it, which users it holds, and what becomes of it",
		Long: `Says all that the cluster knows of a Secret, be it there or not: which applications ask for it and which one owns it, which workloads
refer to it and where, which users at Aiven it holds (never their credentials), whether it stays or goes and why, what it waits for, and what
happened last.

It reads, with your rights, the metadata of the Secret, and the applications, workloads and events of its namespace. What you may
not read is named, and the rest is told.

Exit status: 0 explained; 1 something could not be seen, or there is neither such a Secret nor an application that asks for it; 2 bad usage.`,
		Example: "  keysmith explain secret shop/cart-kafka",
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			asJSON, err := how.isJSON()
			if err != nil {
				return err
			}
			at, err := where.Secret(args[0])
			if err != nil {
				return usageError{err}
			}
			cluster, err := where.Reader(service.Scheme())
			if err != nil {
				return usageError{err}
			}
			return explain.Run(c.Context(), cluster, explain.Options{Secret: at, JSON: asJSON, Now: time.Now()}, c.OutOrStdout())
		},
	}
	where.Bind(c.Flags())
	where.BindNamespace(c.Flags())
	how.bind(c.Flags())
	group.AddCommand(c)
	return group
}

func getCommand() *cobra.Command {
	var where command.Cluster
	var o get.Options
	tool := ""
	names := strings.Trim(strings.ReplaceAll(fmt.Sprint(get.Tools), " ", ", "), "[]")
	c := &cobra.Command{
		Use:   "get [NAMESPACE/]SECRET --for TOOL",
		Short: "Write the files with which a person uses the credentials of a Secret",
		Long: `Writes what a tool needs to use the credentials of a Secret into a directory that only you can enter, and prints the command to run next.
No credential is printed, or put on a command line.

  kcat        a configuration of kcat, and the certificates and keys that it names
  java        a properties file for Kafka's tools and other Java clients, and its stores
  env         a file of variables for a shell, as a container with envFrom has them, and the files that programs want
  valkey-cli  a script for each instance that runs valkey-cli, or else redis-cli
  opensearch  a configuration of curl

It reads the Secret, with your rights, and nothing else.

Exit status: 0 written; 1 failed; 2 bad usage.`,
		Example: "  keysmith get shop/cart-kafka --for kcat\n  kcat -F shop-cart-kafka/kcat.conf -L",
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if o.Tool, err = get.ParseTool(tool); err != nil {
				return usageError{err}
			}
			if o.Secret, err = where.Secret(args[0]); err != nil {
				return usageError{err}
			}
			cluster, err := where.Reader(service.Scheme())
			if err != nil {
				return usageError{err}
			}
			return get.Run(c.Context(), cluster, o, c.OutOrStdout())
		},
	}
	where.Bind(c.Flags())
	where.BindNamespace(c.Flags())
	c.Flags().StringVar(&tool, "for", "", "what to write files for: one of "+names)
	c.Flags().StringVar(&o.Dir, "dir", "", "directory to write to; default: ./NAMESPACE-SECRET")
	c.Flags().BoolVar(&o.Force, "force", false, "write to a directory that has files already, and replace those of the same names")
	return c
}

// orphanFlags are those of both commands about orphans.
type orphanFlags struct {
	where command.Cluster
	flags flag.Flags
	// aiven are those flags that have environment variables.
	aiven   *pflag.FlagSet
	options orphans.Options
}

func (o *orphanFlags) bind(fs *pflag.FlagSet) {
	o.where.Bind(fs)
	o.aiven = pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags.BindAiven(o.aiven)
	fs.AddFlagSet(o.aiven)
	fs.StringArrayVar(&o.options.Gone, "application", nil, "NAMESPACE/NAME of an application that was here once and that nothing tells of any more; may be repeated")
}

// connect validates the flags, and makes the client of Aiven.
func (o *orphanFlags) connect() (*aiven.Client, error) {
	if err := flag.Environment(o.aiven, os.LookupEnv); err != nil {
		return nil, usageError{err}
	}
	if err := o.flags.ValidateAiven(); err != nil {
		return nil, usageError{err}
	}
	if err := o.options.Validate(); err != nil {
		return nil, usageError{err}
	}
	o.options.Projects = slices.Compact(slices.Sorted(slices.Values(append([]string{o.flags.MainProject}, o.flags.Projects...))))
	o.options.Cluster = o.flags.ClusterName
	ctrl.SetLogger(logr.Discard()) // what is done is printed
	return service.NewAiven(service.Surroundings{}, o.flags)
}

func orphansCommand() *cobra.Command {
	var o orphanFlags
	var how output
	c := &cobra.Command{
		Use:   "orphans",
		Short: "List users at Aiven that this cluster made and that nothing in it records",
		Long: `Lists the users at Aiven that this cluster made and that no Secret and no status of an application records any more. It changes nothing.

A user is called an orphan only if its name is one that this cluster derives from its identity, a namespace, an application and a service. For
that, --cluster-name has to be the operator's. The application may be gone: the names of Kafka and Valkey users tell theirs; for others
name it with --application. Users that merely fit the naming scheme are counted as unclear.

It reads, with the operator's token, the services of --projects and --main-project, and with your rights namespaces, applications and the metadata
of Secrets, in all namespaces: without one of these rights nothing is called an orphan.

Exit status: 0 no orphans; 1 there are orphans, or it failed; 2 bad usage.`,
		Example: "  keysmith orphans --projects=dev --main-project=main --aiven-token-file=token",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.options.JSON, err = how.isJSON(); err != nil {
				return err
			}
			api, err := o.connect()
			if err != nil {
				return err
			}
			defer api.Close()
			cluster, err := o.where.Reader(service.Scheme())
			if err != nil {
				return usageError{err}
			}
			return orphans.List(c.Context(), api, cluster, o.options, c.OutOrStdout())
		},
	}
	o.bind(c.Flags())
	how.bind(c.Flags())
	c.Flags().BoolVar(&o.options.All, "all", false, "list unclear users too")
	c.AddCommand(orphansDeleteCommand())
	return c
}

func orphansDeleteCommand() *cobra.Command {
	var o orphanFlags
	var d orphans.Deletion
	yes := false
	c := &cobra.Command{
		Use:   "delete --project PROJECT --service SERVICE USER...",
		Short: "Delete orphans at Aiven, by name, with their rights",
		Long: `Deletes the named users of a service, each with its rights first, as the operator does. It asks before, and refuses all of them if one is recorded by a
Secret or by the status of an application, is built in, or has no name that this cluster makes.

Exit status: 0 deleted; 1 refused or failed; 2 bad usage.`,
		Example: "  keysmith orphans delete --projects=dev --aiven-token-file=token --project dev --service kafka shop_cart_5d9b34c4_x7q",
		Args:    arguments(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if d.Ref.Project == "" || d.Ref.Service == "" {
				return usageError{fmt.Errorf("give --project and --service")}
			}
			if o.flags.MainProject == "" && len(o.flags.Projects) == 0 {
				o.flags.MainProject = d.Ref.Project
			}
			api, err := o.connect()
			if err != nil {
				return err
			}
			defer api.Close()
			cluster, err := o.where.Reader(service.Scheme())
			if err != nil {
				return usageError{err}
			}
			d.Options, d.Users = o.options, args
			if !yes {
				d.Confirm = c.InOrStdin()
			}
			steps := controller.Resources(api, &secret.Resource{}) // which does nothing where something is deleted
			return orphans.Delete(c.Context(), api, steps, cluster, d, c.OutOrStdout())
		},
	}
	o.bind(c.Flags())
	c.Flags().StringVar(&d.Ref.Project, "project", "", "Aiven project of the service")
	c.Flags().StringVar(&d.Ref.Service, "service", "", "service of the users")
	c.Flags().BoolVar(&d.Unclear, "unclear", false, "also users of which nothing proves that this cluster made them, or where the identity of the cluster is in doubt: another one may use them")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

// arguments makes a usage error of what a check of arguments refuses.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
