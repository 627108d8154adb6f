// Package get writes the files that a person needs to use the credentials of a Secret with a tool. What is secret goes into files alone, never to the terminal
// and never onto a command line.
package get

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/command"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Tool is what the files are for.
type Tool string

// The tools.
const (
	Kcat       Tool = "kcat"
	Java       Tool = "java"
	Env        Tool = "env"
	ValkeyCLI  Tool = "valkey-cli"
	OpenSearch Tool = "opensearch"
)

// Tools are all of them, in the order in which they are listed.
var Tools = []Tool{Kcat, Java, Env, ValkeyCLI, OpenSearch}

// ParseTool reads the value of --for.
func ParseTool(s string) (Tool, error) {
	if slices.Contains(Tools, Tool(s)) {
		return Tool(s), nil
	}
	return "", fmt.Errorf("--for: %q is not one of %s", s, list(Tools))
}

func list(tools []Tool) string {
	var names []string
	for _, t := range tools {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// File is one file of a Kit.
type File struct {
	Name    string
	Content []byte
}

// Kit is what a person needs: files, and the commands that use them.
type Kit struct {
	Files []File
	Next  []string // lines for a shell
}

// Options say what is to be written.
type Options struct {
	Secret types.NamespacedName
	Tool   Tool
	Dir    string // empty: ./NAMESPACE-SECRET
	Force  bool   // also into a directory that has files; other files of it are left alone
}

// Run reads the Secret, writes the files, and prints where they are and what to do with them.
func Run(ctx context.Context, cluster client.Reader, o Options, out io.Writer) error {
	s := &corev1.Secret{}
	err := cluster.Get(ctx, o.Secret, s)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no Secret %s: keysmith explain secret %[1]s says why", o.Secret)
	}
	if err != nil {
		return fmt.Errorf("read Secret %s: %w", o.Secret, command.Say(err))
	}
	if o.Dir == "" {
		o.Dir = o.Secret.Namespace + "-" + o.Secret.Name
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("find the directory: %w", err)
	}
	kit, err := For(o.Tool, s, dir)
	if err != nil {
		return err
	}
	if err := write(dir, kit.Files, o.Force); err != nil {
		return err
	}
	if _, err := io.WriteString(out, kit.text(dir, !s.DeletionTimestamp.IsZero())); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// text says what was written to a directory, and what to do with it.
func (k Kit) text(dir string, leaving bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Wrote to %s:\n", dir)
	for _, f := range k.Files {
		fmt.Fprintf(&b, "  %s\n", f.Name)
	}
	if leaving {
		b.WriteString("\nThe Secret is being deleted: its credentials end at any moment.\n")
	}
	fmt.Fprintf(&b, "\nNext:\n  %s\n", strings.Join(k.Next, "\n  "))
	fmt.Fprintf(&b, "\nThe files are worth as much as the Secret, and end with it. When you are done:\n  rm -r %s\n", quote(dir))
	return b.String()
}

// For makes the kit of a tool, for files that will lie in a directory, whose path is absolute. The error names the Secret, the key that is missing or
// unusable, and the tools that the Secret has everything for.
func For(tool Tool, s *corev1.Secret, dir string) (Kit, error) {
	if s.Labels[key.LabelType] != key.TypeAivenator {
		return Kit{}, fmt.Errorf("use Secret %s/%s: it is none of keysmith's: it lacks the label %s=%s", s.Namespace, s.Name, key.LabelType, key.TypeAivenator)
	}
	if strings.ContainsAny(dir, "\n\r") {
		return Kit{}, fmt.Errorf("the path of the directory is not one line: %q", dir)
	}
	for _, k := range needs(tool, s.Data) {
		if len(s.Data[k]) == 0 {
			return Kit{}, fmt.Errorf("use Secret %s/%s: it has no key %s, which --for %s needs; %s", s.Namespace, s.Name, k, tool, fitting(s.Data))
		}
	}
	kit, err := build(tool, s.Data, dir)
	if err != nil {
		return Kit{}, fmt.Errorf("use Secret %s/%s for %s: %w", s.Namespace, s.Name, tool, err)
	}
	kit.Files = slices.DeleteFunc(kit.Files, func(f File) bool { return len(f.Content) == 0 })
	return kit, nil
}

// needs are the keys that a tool cannot do without.
func needs(tool Tool, data map[string][]byte) []string {
	switch tool {
	case Kcat:
		return []string{key.KafkaBrokers, key.KafkaCA, key.KafkaCertificate, key.KafkaPrivateKey}
	case Java:
		return []string{key.KafkaBrokers, key.KafkaKeyStore, key.KafkaTrustStore, key.KafkaCredStorePassword}
	case ValkeyCLI:
		found := instances(data)
		if len(found) == 0 {
			return []string{key.Valkey(key.Username, "") + "<INSTANCE>"}
		}
		var keys []string
		for _, i := range found {
			for _, f := range []key.Field{key.URI, key.Host, key.Port, key.Username, key.Password} {
				keys = append(keys, key.Valkey(f, i))
			}
		}
		return keys
	case OpenSearch:
		return []string{key.OpenSearchURI, key.OpenSearchUsername, key.OpenSearchPassword}
	default:
		return []string{key.AivenCA} // every Secret has it
	}
}

// fitting says which tools a Secret has everything for.
func fitting(data map[string][]byte) string {
	var fit []Tool
	for _, t := range Tools {
		if !slices.ContainsFunc(needs(t, data), func(k string) bool { return len(data[k]) == 0 }) {
			fit = append(fit, t)
		}
	}
	if len(fit) == 0 {
		return "nor does it fit another --for: it may be half made"
	}
	return "it has what these need: --for " + list(fit)
}
