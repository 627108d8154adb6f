// Docs writes the pages of docs/ that are made from the code: the settings from the flags, and the reference of the AivenApplication from
// its definition and from the words of the code. It runs in the root of the repository. Its templates hold what no code says.
package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed *.tmpl
var templates embed.FS

// pages are what is written, by file, with what their templates are given.
var pages = map[string]func(root string) (any, error){
	"settings.md": settings,
	"crd.md":      reference,
}

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	for name := range pages {
		text, err := render(root, name)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, "docs", name), []byte(text), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write docs/%s: %w", name, err)
		}
	}
	return nil
}

func render(root, name string) (string, error) {
	data, err := pages[name](root)
	if err != nil {
		return "", err
	}
	t, err := template.ParseFS(templates, strings.TrimSuffix(name, ".md")+".tmpl")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, data)
	return b.String(), err
}

// cell is a text as the cell of a table: on one line, with nothing in it that would end the cell or begin a tag.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(strings.TrimSpace(text))
}

// sentence begins with a capital and ends with a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
