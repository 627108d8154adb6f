//go:build k8srequired

package program

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// line is a line of the log.
type line struct {
	Level, Message, Time string
	Object               any // "namespace/name"; libraries have forms of their own
}

// lines are all that the operator has printed, and each must be JSON with a level, a message and a time.
func lines(t *testing.T, log string) []line {
	t.Helper()
	var out []line
	for text := range strings.Lines(log) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Errorf("no JSON: %q", text)
			continue
		}
		if _, err := time.Parse(time.RFC3339, l.Time); err != nil || l.Level == "" || l.Message == "" {
			t.Errorf("no level, message or time: %s", text)
		}
		out = append(out, l)
	}
	return out
}

func TestLogAtEachLevel(t *testing.T) {
	t.Parallel()
	// One line for each thing that changed outside the process, and none for passes that changed nothing.
	changes := map[string]int{"user created": 1, "secret created": 1, "right granted": 1}
	tests := map[string]struct {
		levels []string       // of the lines
		about  map[string]int // messages of level info about an application that went well
	}{
		"debug": {levels: []string{"debug", "error", "info"}, about: changes},
		"info":  {levels: []string{"error", "info"}, about: changes},
		"error": {levels: []string{"error"}, about: map[string]int{}},
	}
	for level, tc := range tests {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			w.Start("--log-level="+level, "--leader-election=true", "--resync=1s") // libraries have something to say too
			w.Apply("cart", kafka("creds"))
			w.Ready("cart")
			w.Change("cart", func(a *v1.AivenApplication) {
				a.Spec.Kafka.ACL = []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}}
			})
			w.Ready("cart")
			w.Touch("cart", 3)
			rule := w.Sim.Inject(aivensim.Rule{Operation: aivensim.ServiceUserCreate, Answer: aivensim.Error(http.StatusInternalServerError, "", "Internal Server Error")})
			w.Apply("till", kafka("till"))
			w.NotReady("till", "")
			rule.Remove()
			w.Ready("till")
			process := w.Operator
			w.Stop()

			levels, about := map[string]bool{}, map[string]int{}
			for _, l := range lines(t, process.Log()) {
				levels[l.Level] = true
				if l.Level == "info" && l.Object == w.Namespace+"/cart" {
					about[l.Message]++
				}
			}
			if diff := cmp.Diff(tc.levels, slices.Sorted(maps.Keys(levels))); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.about, about); diff != "" {
				t.Errorf("lines about the application (-want +got):\n%s", diff)
			}
		})
	}
}
