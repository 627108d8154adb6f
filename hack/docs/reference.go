package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// object is a section of the reference: the fields of one object of the schema.
type object struct {
	Path, About string
	Fields      []field
	Rules       []string // those that no single field holds
}

// field is one row.
type field struct{ Name, Type, Meaning string }

// word is a word that a status may hold.
type word struct{ Word, Meaning string }

// vocabulary says where words stand in the code: constants whose names begin so, with a comment each.
type vocabulary struct{ file, prefix string }

func reference(root string) (any, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	raw, err := os.ReadFile(filepath.Join(root, "helm/keysmith/crds/aiven.nais.io_aivenapplications.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(raw, &crd)
	}
	if err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	objects := map[string][]object{}
	for _, v := range crd.Spec.Versions {
		for _, name := range []string{"spec", "status"} {
			part := v.Schema.OpenAPIV3Schema.Properties[name]
			objects[v.Name+" "+name] = describe(name, part)
		}
	}
	var errs []error
	words := func(vs ...vocabulary) []word {
		var all []word
		for _, v := range vs {
			found, err := v.words(root)
			all, errs = append(all, found...), append(errs, err)
		}
		return all
	}
	data := map[string]any{
		"CRD": crd.Spec, "Spec": objects["v2 spec"], "Status": objects["v2 status"], "Earlier": differences(objects["v1 spec"], objects["v2 spec"]),
		"Conditions": words(vocabulary{"pkg/apis/aiven/v1/types.go", "Condition"}),
		"States":     words(vocabulary{"service/controller/application.go", "State"}),
		"Reasons":    words(vocabulary{"pkg/binding/reason.go", "Reason"}, vocabulary{"service/controller/report.go", "reason"}),
	}
	return data, errors.Join(errs...)
}

// describe lists an object of the schema and those within it, in the order in which a reader meets them.
func describe(path string, s apiextensionsv1.JSONSchemaProps) []object {
	o := object{Path: path, About: prose(s.Description)}
	below := []object{}
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int {
		rank := func(name string) int { return -min(slices.Index(s.Required, name)+1, 1) } // required ones first
		return cmp.Compare(rank(a), rank(b))
	})
	for _, name := range names {
		f := s.Properties[name]
		o.Fields = append(o.Fields, field{Name: name, Type: typeOf(name, s, f), Meaning: meaning(name, f)})
		switch items := f.Items; {
		case len(f.Properties) > 0:
			below = append(below, describe(path+"."+name, f)...)
		case items != nil && items.Schema != nil && len(items.Schema.Properties) > 0:
			below = append(below, describe(path+"."+name+"[]", *items.Schema)...)
		}
	}
	for _, rule := range s.XValidations {
		o.Rules = append(o.Rules, "`"+path+rule.FieldPath+"`: "+cell(rule.Message)+".")
	}
	return append([]object{o}, below...)
}

// typed begins the comment of a type: its name, and a verb.
var typed = regexp.MustCompile(`^[A-Z]\w+ (is |asks )`)

// prose is a description as a paragraph, which does not begin with the name of a type.
func prose(text string) string {
	if m := typed.FindStringSubmatch(text); m != nil {
		text = strings.TrimPrefix(strings.TrimPrefix(text, strings.TrimSuffix(m[0], m[1])), "is ")
	}
	return sentence(cell(text))
}

// meaning is the description of a field, and on a line below it what the schema asks of its value.
func meaning(name string, s apiextensionsv1.JSONSchemaProps) string {
	text := prose(s.Description)
	if rules := limits(name, s); len(rules) > 0 {
		text += "<br>" + strings.Join(rules, " ")
	}
	return text
}

func typeOf(name string, parent, s apiextensionsv1.JSONSchemaProps) string {
	kind := s.Type
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		kind = "list of " + s.Items.Schema.Type + "s"
	case s.Format == "date-time":
		kind = "time"
	case s.Format != "":
		kind = s.Format
	}
	if slices.Contains(parent.Required, name) {
		kind += ", required"
	}
	return kind
}

// limits are the rules of a field in words. Of rules in CEL the message tells them.
func limits(name string, s apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	add := func(when bool, format string, args ...any) {
		if when {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(s.Default != nil, "Default: `%s`.", raw(s.Default))
	var values []string
	for _, e := range s.Enum {
		if v := raw(&e); v != "" {
			values = append(values, "`"+v+"`")
		}
	}
	add(len(values) > 0, "One of %s.", strings.Join(values, ", "))
	for _, rule := range s.XValidations {
		// Those of an object stand below its own table.
		add(len(s.Properties) == 0 && s.Format != "date-time", "%s", sentence(quote(name, rule.Message)))
	}
	add(s.MinLength != nil, "At least %d characters.", deref(s.MinLength))
	add(s.MaxLength != nil, "At most %d characters.", deref(s.MaxLength))
	add(s.Pattern != "", "Pattern: `%s`.", cell(s.Pattern))
	add(s.MaxItems != nil, "At most %d entries.", deref(s.MaxItems))
	add(len(s.XListMapKeys) > 0, "One entry for each `%s`.", strings.Join(s.XListMapKeys, "`, `"))
	return out
}

// quote shows the name of a field with which a message begins as one.
func quote(name, message string) string {
	if rest, ok := strings.CutPrefix(message, name+" "); ok {
		message = "`" + name + "` " + rest
	}
	return cell(message)
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// raw is a value of the schema as people write it.
func raw(j *apiextensionsv1.JSON) string {
	if j == nil {
		return ""
	}
	if s, err := strconv.Unquote(string(j.Raw)); err == nil {
		return s
	}
	return string(j.Raw)
}

// difference is a field that is another one in the earlier version.
type difference struct{ Path, Type, Meaning string }

// differences are the fields of the earlier version that are not the same in the later one.
func differences(earlier, later []object) []difference {
	known := map[string]field{}
	for _, o := range later {
		for _, f := range o.Fields {
			known[o.Path+"."+f.Name] = f
		}
	}
	var out []difference
	for _, o := range earlier {
		for _, f := range o.Fields {
			path := o.Path + "." + f.Name
			switch now, ok := known[path]; {
			case now == f:
			case ok && now.Meaning == f.Meaning:
				out = append(out, difference{path, f.Type, "As in the later version, where it is: " + now.Type + "."})
			default:
				out = append(out, difference{path, f.Type, f.Meaning})
			}
		}
	}
	return out
}

// words reads constants of a file, with their comments: what stands at the end of the line, or above it. One without a comment is an error.
func (v vocabulary) words(root string) ([]word, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, v.file), nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("read the words: %w", err)
	}
	var out []word
	for _, decl := range file.Decls {
		constants, ok := decl.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			c := spec.(*ast.ValueSpec)
			name := c.Names[0].Name
			if !strings.HasPrefix(name, v.prefix) || len(c.Values) != 1 {
				continue
			}
			literal, ok := c.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			text := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(cmp.Or(c.Comment.Text(), c.Doc.Text())), name+" "), "is ")
			if text == "" {
				return nil, fmt.Errorf("read the words: %s of %s has no comment: say there what it means", name, v.file)
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				return nil, fmt.Errorf("read the words: %w", err)
			}
			out = append(out, word{value, sentence(cell(text))})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read the words: %s has no constants %s*", v.file, v.prefix)
	}
	return out, nil
}
