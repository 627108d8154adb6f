// Chartvalues writes the table of values in the README of a chart from the comments in its values.yaml.
//
//	go run ./hack/chartvalues helm/keysmith
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The table stands between these lines of the README.
const (
	begin = "<!-- The values: generated from values.yaml by make generate. -->\n"
	end   = "<!-- End of the values. -->\n"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "values:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("give the folder of the chart")
	}
	values, err := os.ReadFile(filepath.Join(args[0], "values.yaml"))
	if err != nil {
		return fmt.Errorf("read the values: %w", err)
	}
	table, err := Table(values)
	if err != nil {
		return err
	}
	path := filepath.Join(args[0], "README.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, ok1 := bytes.Cut(page, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no place for the table: the lines\n%s%s", path, begin, end)
	}
	page = bytes.Join([][]byte{before, []byte(begin), []byte(table), []byte(end), after}, nil)
	if err := os.WriteFile(path, page, 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// Table makes a table in Markdown of the values that have a comment. It fails on a value that is explained neither by a comment of its own nor by one
// of what it is part of.
func Table(values []byte) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return "", fmt.Errorf("read the values: %w", err)
	}
	var b strings.Builder
	b.WriteString("\n| value | default | meaning |\n|---|---|---|\n")
	if len(doc.Content) == 1 {
		if err := rows(&b, "", doc.Content[0]); err != nil {
			return "", err
		}
	}
	b.WriteString("\n")
	return b.String(), nil
}

func rows(b *strings.Builder, prefix string, node *yaml.Node) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		path := prefix + key.Value
		switch comment := comment(key); {
		case comment != "":
			text, err := inline(value)
			if err != nil {
				return fmt.Errorf("show the default of %s: %w", path, err)
			}
			fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", path, text, strings.ReplaceAll(comment, "|", `\|`))
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			if err := rows(b, path+".", value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("line %d of the values: %s has no comment that explains it", key.Line, path)
		}
	}
	return nil
}

// comment is what stands above a key, as one line.
func comment(key *yaml.Node) string {
	var words []string
	for line := range strings.Lines(key.HeadComment) {
		words = append(words, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "#"))...)
	}
	return strings.Join(words, " ")
}

// inline is a value on one line, in JSON, which is YAML too.
func inline(value *yaml.Node) (string, error) {
	var v any
	if err := value.Decode(&v); err != nil {
		return "", err
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}
