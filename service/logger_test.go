package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/giantswarm/microerror"
)

// lines decodes what a logger of a level wrote.
func lines(t *testing.T, raw string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(raw) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q is no JSON: %v", line, err)
		}
		out = append(out, m)
	}
	return out
}

func TestLogger(t *testing.T) {
	tests := map[string]struct {
		level string
		want  []string
	}{
		"it writes everything at debug":      {level: "debug", want: []string{"debug", "info", "error"}},
		"it leaves out details at info":      {level: "info", want: []string{"info", "error"}},
		"it writes errors even at the least": {level: "error", want: []string{"error"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := NewLogger(&out, tt.level)
			log.V(1).Info("d")
			log.Info("i")
			log.Error(errors.New("boom"), "e")
			var got []string
			for _, line := range lines(t, out.String()) {
				level, _ := line["level"].(string)
				got = append(got, level)
				for _, field := range []string{"time", "message", "caller"} {
					if line[field] == "" || line[field] == nil {
						t.Errorf("a line lacks %s: %v", field, line)
					}
				}
			}
			if strings.Join(got, " ") != strings.Join(tt.want, " ") {
				t.Errorf("got levels %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLoggerNamesFactsOnce(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, "info").WithName("a").WithName("b").WithValues("object", "x", "resource", "one")
	log.Info("hello", "resource", "two")
	log.Error(microerror.Mask(errors.New("boom")), "failed")
	got := lines(t, out.String())
	if got[0]["logger"] != "a.b" || got[0]["object"] != "x" || got[0]["resource"] != "two" || !strings.HasPrefix(fmt.Sprint(got[0]["caller"]), "service/logger_test.go:") {
		t.Errorf("got %v", got[0])
	}
	if strings.Count(strings.SplitN(out.String(), "\n", 2)[0], `"resource"`) != 1 {
		t.Errorf("a field stands there twice: %s", out.String())
	}
	if got[1]["error"] != "boom" || got[1]["stack"] == nil || got[1]["resource"] != "one" {
		t.Errorf("got %v", got[1])
	}
}
