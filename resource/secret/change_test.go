package secret

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestChangesAreNamed(t *testing.T) {
	tests := map[string]struct {
		before, after string // a byte for each key
		want          string
	}{
		"it names the keys that changed":        {"a=1 b=1 c=1", "a=1 b=2 c=2", "b, c"},
		"it names a key that is new":            {"a=1", "a=1 b=2", "b"},
		"it counts keys of others":              {"a=1 x=1 y=1", "a=2", "a, keys of others removed: 2"},
		"it counts what would not fit":          {"", "a=1 b=1 c=1 d=1 e=1 f=1 g=1", "a, b, c, d, e, 2 more"},
		"it speaks of metadata if data is same": {"a=1", "a=1", "labels and annotations"},
	}
	data := func(s string) map[string][]byte {
		out := map[string][]byte{}
		for i := 0; i+2 < len(s); i += 4 {
			out[s[i:i+1]] = []byte(s[i+2 : i+3])
		}
		return out
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := &corev1.Secret{Data: data(tt.before)}, &corev1.Secret{Data: data(tt.after)}
			before.Data[key.SecretUpdated] = []byte("earlier")
			after.Data[key.SecretUpdated] = []byte("now")
			if got := changes(before, after); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
