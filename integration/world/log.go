package world

import (
	"encoding/json"
	"strings"
)

// NoErrorLogged fails the test if the operator has logged an error: what is no failure must not look like one to whoever watches the log.
func (w *World) NoErrorLogged() {
	w.t.Helper()
	for line := range strings.Lines(w.Operator.Log()) {
		var entry struct{ Level string }
		if err := json.Unmarshal([]byte(line), &entry); err == nil && entry.Level == "error" {
			w.t.Errorf("the operator logged an error: %s", line)
		}
	}
}
