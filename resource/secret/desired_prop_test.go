package secret

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// written are some data keys of a binding's kind, with any values.
func written(t *rapid.T, b *binding.Binding) content {
	all := map[binding.Kind][]string{
		binding.Kafka:      append([]string{key.KafkaBrokers, key.KafkaSchemaRegistry}, made...),
		binding.OpenSearch: {key.OpenSearchUsername, key.OpenSearchPassword, key.OpenSearchDashboardURI},
		binding.Valkey:     {key.Valkey(key.Password, b.Instance), key.Redis(key.URI, b.Instance), key.Valkey(key.ReplicaHost, b.Instance)},
	}[b.Kind]
	values := rapid.SampledFrom([][]byte{[]byte("1"), []byte("2"), {}})
	c := content{data: map[string][]byte{}, stores: rapid.SampledFrom([]string{"digest", "other"}).Draw(t, "digest")}
	for _, k := range all {
		if rapid.Bool().Draw(t, k) {
			c.data[k] = values.Draw(t, "value")
		}
	}
	return c
}

// wanted are the bindings of a Secret and what those of them contribute that did not fail.
func wanted(t *rapid.T) (*binding.Set, map[*binding.Binding]content) {
	possible := []*binding.Binding{
		{Kind: binding.Kafka, Username: "k"}, {Kind: binding.OpenSearch, Username: "o"},
		{Kind: binding.Valkey, Instance: "a", Username: "va"}, {Kind: binding.Valkey, Instance: "a-b", Username: "vb"},
	}
	s, contents := set(), map[*binding.Binding]content{}
	for _, b := range possible {
		switch rapid.SampledFrom([]string{"absent", "failed", "fine"}).Draw(t, string(b.Kind)+b.Instance) {
		case "fine":
			contents[b] = written(t, b)
			fallthrough
		case "failed":
			s.Bindings = append(s.Bindings, b)
		}
	}
	return s, contents
}

func theirs(m map[string]string) map[string]string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(name, _ string) bool { return name != "foreign" })
	return m
}

// Pass after pass, whatever is asked for and whatever fails: a binding that works has exactly its new keys, one that failed exactly those it had,
// and keys that nobody asks for are gone. Other people's labels, annotations and finalizers stay. Users of all bindings are recorded. The time stamps
// move with the content they speak of and not without it, and a second time nothing changes.
func TestTheSecretIsWhatItsBindingsMakeOfIt(t *testing.T) {
	const finalizer = "keysmith/finalizer"
	rapid.Check(t, func(t *rapid.T) {
		var current *corev1.Secret
		now := start
		for range rapid.IntRange(1, 4).Draw(t, "passes") {
			s, contents := wanted(t)
			s.Current = current
			before := map[string][]byte{}
			if current != nil {
				before = current.DeepCopy().Data
			}
			now = now.Add(time.Minute)
			got := desired(s, contents, "ca", finalizer, now)

			want := map[string][]byte{key.AivenCA: []byte("ca")}
			for _, b := range s.Bindings {
				if c, ok := contents[b]; ok {
					maps.Copy(want, c.data)
					continue
				}
				for k, v := range before {
					if holds(b, k) {
						want[k] = v
					}
				}
			}
			stamps := []string{key.SecretUpdated, key.KafkaSecretUpdated}
			data := func(m map[string][]byte, in func(string) bool) map[string][]byte {
				m = maps.Clone(m)
				maps.DeleteFunc(m, func(k string, _ []byte) bool { return slices.Contains(stamps, k) || !in(k) })
				return m
			}
			all := func(string) bool { return true }
			if diff := cmp.Diff(data(want, all), data(got.Data, all)); diff != "" {
				t.Errorf("data (-want +got)\n%s", diff)
			}
			for stamp, in := range map[string]func(string) bool{key.SecretUpdated: all, key.KafkaSecretUpdated: isKafka} {
				moved := string(got.Data[stamp]) == now.UTC().Format(time.RFC3339)
				if changed := !cmp.Equal(data(before, in), data(got.Data, in)); got.Data[stamp] != nil && before[stamp] != nil && moved != changed {
					t.Errorf("%s moved: %t, the content changed: %t", stamp, moved, changed)
				}
			}
			if current != nil && (!cmp.Equal(theirs(current.Labels), theirs(got.Labels)) || !cmp.Equal(theirs(current.Annotations), theirs(got.Annotations)) ||
				!slices.Equal(current.Finalizers, got.Finalizers)) {
				t.Errorf("what is foreign changed: %v, %v, %v", got.Labels, got.Annotations, got.Finalizers)
			}
			if records := binding.FromSecret(got); len(records) != len(s.Bindings) || binding.Owner(got) != s.Application {
				t.Errorf("%d of %d users are recorded, for %q", len(records), len(s.Bindings), binding.Owner(got))
			}
			if !slices.Contains(got.Finalizers, finalizer) {
				t.Error("the finalizer is missing")
			}
			s.Current = got.DeepCopy()
			if diff := cmp.Diff(got, desired(s, contents, "ca", finalizer, now.Add(time.Second))); diff != "" {
				t.Errorf("a second time (-first +second)\n%s", diff)
			}
			current = got
			current.Labels["foreign"], current.Annotations["foreign"] = "label", "annotation"
			current.Finalizers = []string{"foreign/finalizer", finalizer}
			if rapid.Bool().Draw(t, "edited") {
				current.Data[rapid.SampledFrom([]string{"EXTRA", key.AivenCA, key.KafkaBrokers, key.OpenSearchPassword}).Draw(t, "edits")] = []byte("edited")
			}
		}
	})
}
