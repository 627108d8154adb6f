package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/keysmith-io/keysmith/flag"
)

// group is a section of the page of settings: the flags from its first one up to the next group's, in the order of their declaration.
type group struct {
	Title, first string
	Settings     []setting
}

// setting is one row.
type setting struct {
	Flag      string // with the type of its value, as in the help page
	Variables []string
	Default   string
	Meaning   string
}

// suffix is what flag.Bind puts at the end of each usage.
var suffix = regexp.MustCompile(`^(.*) \(((?:\$\w+(?:, )?)+)\)$`)

func settings(string) (any, error) {
	groups := []*group{
		{Title: "The Aiven API", first: "aiven-url"},
		{Title: "Projects and cluster", first: "projects"},
		{Title: "The Kubernetes API", first: "kubeconfig"},
		{Title: "Its work", first: "namespaces"},
	}
	fs := pflag.NewFlagSet("daemon", pflag.ContinueOnError)
	fs.SortFlags = false
	(&flag.Flags{}).Bind(fs)
	current := -1
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		for i, g := range groups {
			if g.first == f.Name {
				current = i
			}
		}
		m := suffix.FindStringSubmatch(f.Usage)
		if m == nil || current < 0 {
			errs = append(errs, fmt.Errorf("flag %s is in no group, or its usage %q does not end with its variables", f.Name, f.Usage))
			return
		}
		kind, _ := pflag.UnquoteUsage(f)
		meaning, otherwise, _ := strings.Cut(m[1], "; default: ")
		groups[current].Settings = append(groups[current].Settings, setting{
			Flag: strings.TrimSpace("--" + f.Name + " " + kind), Variables: strings.Split(strings.ReplaceAll(m[2], "$", ""), ", "),
			Default: cmp.Or(cell(otherwise), shown(f)), Meaning: sentence(cell(meaning)),
		})
	})
	for _, g := range groups {
		if len(g.Settings) == 0 {
			errs = append(errs, fmt.Errorf("group %q has no settings: there is no flag %s", g.Title, g.first))
		}
	}
	return groups, errors.Join(errs...)
}

// shown is a default, empty where there is none, or where the meaning tells it because the value is a secret.
func shown(f *pflag.Flag) string {
	if f.DefValue == "" || f.DefValue == "[]" || f.DefValue == "<hidden>" {
		return ""
	}
	return "`" + f.DefValue + "`"
}
