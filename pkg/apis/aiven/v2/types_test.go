package v2

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// TestFields compares the fields of both versions. One that v2 lacked would be lost when
// an object that was stored through v1 is written through v2.
func TestFields(t *testing.T) {
	want := fields("", reflect.TypeFor[v1.AivenApplication]())
	got := fields("", reflect.TypeFor[AivenApplication]())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-v1 +v2):\n%s", diff)
	}
	if !slices.Contains(got, ".spec.secretName") {
		t.Error("v2 lacks .spec.secretName")
	}
}

// fields returns the JSON paths of a type of this group, in the order of declaration.
func fields(prefix string, typ reflect.Type) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || !strings.Contains(typ.PkgPath(), "/pkg/apis/aiven/") {
		return nil
	}
	var paths []string
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := prefix + "." + name
		paths = append(append(paths, path), fields(path, f.Type)...)
	}
	return paths
}

func TestAddToScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	kinds, _, err := s.ObjectKinds(&AivenApplication{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("aiven.nais.io/v2, Kind=AivenApplication", kinds[0].String()); diff != "" {
		t.Errorf("kind (-want +got):\n%s", diff)
	}
}
