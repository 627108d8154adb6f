// Command replay evaluates alerts over scrapes of a running operator.
//
//	replay RULES DIRECTORY
//
// The directory holds answers of /metrics, each in a file whose name is its time in Unix milliseconds. Printed is, a line for each, the name of every
// alert whose expression was true at any of these times, whether or not it lasted long enough to fire, and the labels that it had.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/keysmith-io/keysmith/helm/test/alert"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("want a file with rules and a directory with scrapes")
	}
	raw, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	rules, err := alert.Rules(raw)
	if err != nil {
		return err
	}
	store, moments, err := read(args[1])
	if err != nil {
		return err
	}
	engine, lines := alert.NewEngine(), map[string]bool{}
	for i := range rules {
		active, err := engine.Evaluate(ctx, &rules[i], store, moments)
		if err != nil {
			return err
		}
		for _, a := range slices.Concat(active...) {
			lines[a.Rule.Alert+" "+a.Labels.String()] = true
		}
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintln(out, line)
	}
	return nil
}

// read reads the scrapes of a directory.
func read(dir string) (alert.Store, []time.Time, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	var moments []time.Time
	for _, entry := range entries {
		ms, err := strconv.ParseInt(entry.Name(), 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("read scrapes: %s is no time in milliseconds", entry.Name())
		}
		moments = append(moments, time.UnixMilli(ms))
	}
	if len(moments) == 0 {
		return nil, nil, fmt.Errorf("read scrapes: there are none in %s", dir)
	}
	slices.SortFunc(moments, time.Time.Compare)
	store := alert.Store{}
	for _, at := range moments {
		if err := add(store, filepath.Join(dir, strconv.FormatInt(at.UnixMilli(), 10)), at); err != nil {
			return nil, nil, err
		}
	}
	return store, moments, nil
}

func add(store alert.Store, path string, at time.Time) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := store.Scraped(f, at); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
