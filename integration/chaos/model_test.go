package chaos

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func drawn(seed, stream uint64, n int) []Operation {
	m := NewModel(seed, stream, 4)
	var out []Operation
	for range n {
		out = append(out, m.Next())
	}
	return out
}

func TestTheSameSeedDrawsTheSameOperations(t *testing.T) {
	if diff := cmp.Diff(drawn(7, 1, 500), drawn(7, 1, 500)); diff != "" {
		t.Error(diff)
	}
	for name, others := range map[string][]Operation{"another seed": drawn(8, 1, 500), "another stream": drawn(7, 2, 500)} {
		if cmp.Equal(drawn(7, 1, 500), others) {
			t.Errorf("%s draws the same", name)
		}
	}
}

func TestEveryKindIsDrawnAndFitsWhatIsThere(t *testing.T) {
	apps, paused, workloads, exists := map[string]bool{}, map[string]bool{}, map[string]bool{}, true
	seen := map[Kind]int{}
	for _, o := range drawn(1, 1, 20_000) {
		seen[o.Kind]++
		var fits bool
		switch o.Kind {
		case CreateApplication:
			fits = exists && !apps[o.Name]
			apps[o.Name] = true
		case ChangeApplication, RenameSecret, RotateUsers, TamperStatus:
			fits = exists && apps[o.Name]
		case DeleteApplication, ExpireApplication:
			fits = exists && apps[o.Name] && !paused[o.Name]
			delete(apps, o.Name)
		case PauseApplication:
			fits = exists && apps[o.Name] && !paused[o.Name]
			paused[o.Name] = true
		case ResumeApplication:
			fits = exists && paused[o.Name]
			delete(paused, o.Name)
		case CreateWorkload:
			fits = exists && !workloads[o.Name]
			workloads[o.Name] = true
		case RollWorkload:
			fits = exists && workloads[o.Name]
		case DeleteWorkload:
			fits = exists && workloads[o.Name]
			delete(workloads, o.Name)
		case DeleteNamespace:
			fits, exists = exists, false
			clear(apps)
			clear(paused)
			clear(workloads)
		case MakeNamespace:
			fits, exists = !exists, true
		default:
			fits = exists && o.Name != ""
		}
		if !fits {
			t.Fatalf("%s does not fit", o)
		}
	}
	for _, w := range weights {
		if seen[w.kind] == 0 {
			t.Errorf("it never draws to %s", w.kind)
		}
	}
}

func TestNoTopicComesBack(t *testing.T) {
	before := map[string][]string{} // by application: the topics that it had last
	all := map[string]bool{}
	for _, o := range drawn(3, 1, 5_000) {
		if o.Spec.Kafka == nil {
			continue
		}
		var topics []string
		for _, a := range o.Spec.Kafka.ACL {
			if all[a.Topic] && !slices.Contains(before[o.Name], a.Topic) {
				t.Fatalf("%s: %s comes back", o, a.Topic)
			}
			topics = append(topics, a.Topic)
			all[a.Topic] = true
		}
		before[o.Name] = topics
	}
}
