package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const root = "../.."

func TestPagesAreUpToDate(t *testing.T) {
	for name := range pages {
		t.Run(name, func(t *testing.T) {
			want, err := render(root, name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(root, "docs", name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("docs/%s is stale, run make generate (-code +page):\n%s", name, diff)
			}
		})
	}
}

func TestWords(t *testing.T) {
	tests := map[string]struct {
		code string
		want []word
		err  string
	}{
		"it takes what stands at the end of the line, or above it": {
			code: "const (\n\tReasonA = \"A\" // is one thing\n\t// ReasonB is another\n\t// thing; or a third.\n\tReasonB = \"B\"\n\tother = \"x\"\n\tReasonN = 1\n)",
			want: []word{{"A", "One thing."}, {"B", "Another thing; or a third."}},
		},
		"it asks for a comment":           {code: "const ReasonA = \"A\"", err: "ReasonA of words.go has no comment"},
		"it says that there are no words": {code: "var ReasonA = \"A\"", err: "words.go has no constants Reason*"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "words.go"), []byte("package p\n\n"+tt.code+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := vocabulary{"words.go", "Reason"}.words(dir)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	limit := int64(3)
	got := describe("spec", apiextensionsv1.JSONSchemaProps{
		Description: "Spec asks for things.", Required: []string{"size"},
		XValidations: apiextensionsv1.ValidationRules{{FieldPath: ".size", Message: "size must fit"}},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"colour": {
				Type: "string", Description: "Which one|none.", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)},
				Enum: []apiextensionsv1.JSON{{Raw: []byte(`""`)}, {Raw: []byte(`"red"`)}}, MaxLength: &limit,
			},
			"size": {Type: "integer", Format: "int32", Description: "How big", XValidations: apiextensionsv1.ValidationRules{{Message: "size must be odd"}}},
			"parts": {Type: "array", MaxItems: &limit, XListMapKeys: []string{"name"}, Items: &apiextensionsv1.JSONSchemaPropsOrArray{
				Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Description: "Part is a part.", Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string"}}},
			}},
		},
	})
	want := []object{
		{Path: "spec", About: "Asks for things.", Rules: []string{"`spec.size`: size must fit."}, Fields: []field{
			{"size", "int32, required", "How big.<br>`size` must be odd."},
			{"colour", "string", "Which one\\|none.<br>Default: `red`. One of `red`. At most 3 characters."},
			{"parts", "list of objects", "<br>At most 3 entries. One entry for each `name`."},
		}},
		{Path: "spec.parts[]", About: "A part.", Fields: []field{{"name", "string", ""}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestDifferences(t *testing.T) {
	later := []object{{Path: "spec", Fields: []field{{"a", "string", "A."}, {"b", "string, required", "B."}, {"c", "string", "C."}}}}
	earlier := []object{{Path: "spec", Fields: []field{{"a", "string", "A."}, {"b", "string", "B."}, {"c", "string", "Another C."}, {"d", "string", "D."}}}}
	want := []difference{
		{"spec.b", "string", "As in the later version, where it is: string, required."},
		{"spec.c", "string", "Another C."}, {"spec.d", "string", "D."},
	}
	if diff := cmp.Diff(want, differences(earlier, later)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}
