package world

import (
	"encoding/json"
	"fmt"
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

// Canaries are texts that nobody but Aiven, the operator and the Secrets may see, by what they are.
func (w *World) Canaries() map[string]string {
	out := map[string]string{"the token": Token}
	for _, p := range w.Sim.Projects() {
		for _, s := range p.Services() {
			for _, u := range s.Users() {
				out[fmt.Sprintf("the password of %s of %s", u.Username, s.Name())] = u.Password
				if lines := strings.Split(u.AccessKey, "\n"); len(lines) > 3 {
					out["the key of "+u.Username] = lines[2]
				}
			}
		}
	}
	return out
}
