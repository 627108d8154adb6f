package get

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keysmith-io/keysmith/pkg/golden"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func secret(data map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "creds", Labels: map[string]string{key.LabelType: key.TypeAivenator}},
		Data:       map[string][]byte{key.AivenCA: []byte("CA\n"), key.SecretUpdated: []byte("2030-01-31T12:00:00Z")},
	}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func kafka() map[string]string {
	return map[string]string{
		key.KafkaBrokers: "kafka.example.com:17072", key.KafkaCA: "KAFKA CA\n", key.KafkaCertificate: "CERTIFICATE\n", key.KafkaPrivateKey: "KEY\n",
		key.KafkaCredStorePassword: "change me", key.KafkaKeyStore: "\x30\x82", key.KafkaTrustStore: "\x30\x83",
		key.KafkaSchemaRegistry: "https://kafka.example.com:17075", key.KafkaSchemaRegistryUser: "shop_cart", key.KafkaSchemaRegistryPassword: "AVNS_p/a:s",
	}
}

func valkey() map[string]string {
	return map[string]string{
		"VALKEY_URI_SESSIONS": "valkeys://valkey.example.com:17080", "VALKEY_HOST_SESSIONS": "valkey.example.com", "VALKEY_PORT_SESSIONS": "17080",
		"VALKEY_USERNAME_SESSIONS": "cart-r-abcdefgh", "VALKEY_PASSWORD_SESSIONS": "AVNS_valkey",
		"VALKEY_URI_MY_CACHE": "valkey://cache.example.com:17081", "VALKEY_HOST_MY_CACHE": "cache.example.com", "VALKEY_PORT_MY_CACHE": "17081",
		"VALKEY_USERNAME_MY_CACHE": "cart-rw-abcdefgh", "VALKEY_PASSWORD_MY_CACHE": "AVNS_cache",
	}
}

func openSearchData() map[string]string {
	return map[string]string{
		key.OpenSearchURI: "https://search.example.com:17090", key.OpenSearchUsername: "shop-r-abcdefgh", key.OpenSearchPassword: `AVNS_"quoted\`,
	}
}

func TestKits(t *testing.T) {
	tests := map[string]struct {
		tool Tool
		data map[string]string
	}{
		"it writes a configuration of kcat":           {Kcat, kafka()},
		"it writes properties for Java":               {Java, kafka()},
		"it writes variables":                         {Env, kafka()},
		"it writes a script for each Valkey instance": {ValkeyCLI, valkey()},
		"it writes a configuration of curl":           {OpenSearch, openSearchData()},
		"it writes variables of whatever is there":    {Env, valkey()},
		"it leaves out a registry that is not there":  {Kcat, without(kafka(), key.KafkaSchemaRegistry)},
		"it leaves it out for Java too":               {Java, without(kafka(), key.KafkaSchemaRegistry)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			kit, err := For(tt.tool, secret(tt.data), "/home/jane/it's here")
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, f := range kit.Files {
				got.WriteString("-- " + f.Name + " --\n" + strings.TrimSuffix(string(f.Content), "\n") + "\n")
			}
			got.WriteString("-- next --\n" + strings.Join(kit.Next, "\n") + "\n")
			golden.Compare(t, filepath.Join("testdata", strings.ReplaceAll(strings.TrimPrefix(name, "it "), " ", "-")+".golden"), got.String())
		})
	}
}

func TestTextSaysWhatIsNext(t *testing.T) {
	const dir = "/home/jane/shop-cart-kafka"
	kit, err := For(Kcat, secret(kafka()), dir)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "what-is-next.golden"), kit.text(dir, false))
	if text := kit.text(dir, true); !strings.Contains(text, "being deleted") {
		t.Errorf("it does not warn: %s", text)
	}
}

func without(data map[string]string, keys ...string) map[string]string {
	for _, k := range keys {
		delete(data, k)
	}
	return data
}

func TestRefusals(t *testing.T) {
	with := func(data map[string]string, k, v string) map[string]string {
		data[k] = v
		return data
	}
	tests := map[string]struct {
		tool Tool
		data map[string]string
		want string
	}{
		"it says which tools fit a Secret of another service": {
			Kcat, valkey(), "use Secret shop/creds: it has no key KAFKA_BROKERS, which --for kcat needs; it has what these need: --for env, valkey-cli",
		},
		"it names the key that a half-made Secret lacks": {
			Java, without(kafka(), key.KafkaKeyStore), "use Secret shop/creds: it has no key client.keystore.p12, which --for java needs; it has what these need: --for kcat, env",
		},
		"it names a key that is empty": {
			OpenSearch, with(openSearchData(), key.OpenSearchPassword, ""), "use Secret shop/creds: it has no key OPEN_SEARCH_PASSWORD, which --for opensearch needs; it has what these need: --for env",
		},
		"it names the keys of Valkey": {
			ValkeyCLI, kafka(), "use Secret shop/creds: it has no key VALKEY_USERNAME_<INSTANCE>, which --for valkey-cli needs; it has what these need: --for kcat, java, env",
		},
		"it refuses what would be another line of a configuration": {
			Kcat, with(kafka(), key.KafkaBrokers, "a:1\nssl.ca.location=/etc/passwd"), "use Secret shop/creds for kcat: bootstrap.servers cannot have this value, for want of a way to write it",
		},
		"it refuses what would be another command of a script": {
			ValkeyCLI, with(valkey(), "VALKEY_HOST_SESSIONS", "a\nrm -r /"), "use Secret shop/creds for valkey-cli: the value of VALKEY_HOST_SESSIONS is not one line",
		},
		"it refuses what no variable can hold": {
			Env, with(kafka(), "X", "a\x00b"), "use Secret shop/creds for env: the value of X holds a zero byte, which no variable can",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := For(tt.tool, secret(tt.data), "/tmp/x")
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	t.Run("it refuses a Secret that is none of ours", func(t *testing.T) {
		s := secret(kafka())
		s.Labels = nil
		if _, err := For(Kcat, s, "/tmp/x"); err == nil || !strings.Contains(err.Error(), "shop/creds: it is none of keysmith's: it lacks the label type=aivenator.aiven.nais.io") {
			t.Errorf("got %v", err)
		}
	})
}

func TestRun(t *testing.T) {
	data := kafka()
	dir := filepath.Join(t.TempDir(), "creds")
	options := Options{Secret: types.NamespacedName{Namespace: "shop", Name: "creds"}, Tool: Kcat, Dir: dir}
	cluster := fake.NewClientBuilder().WithObjects(secret(data)).Build()
	run := func(o Options) (string, error) {
		var out bytes.Buffer
		err := Run(t.Context(), cluster, o, &out)
		return out.String(), err
	}
	out, err := run(options)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "kcat -F "+dir+"/kcat.conf -L\n") {
		t.Errorf("the next command is not told: %s", out)
	}
	for _, k := range []string{key.KafkaPrivateKey, key.KafkaSchemaRegistryPassword, key.KafkaCredStorePassword} {
		if strings.Contains(out, data[k]) {
			t.Errorf("the terminal shows %s: %s", k, out)
		}
	}
	if got := modes(t, dir); got["."] != 0o700 || got["client.key"] != 0o600 || len(got) != 5 {
		t.Errorf("modes are %v", got)
	}

	t.Run("it leaves a directory alone that has files", func(t *testing.T) {
		if _, err := run(options); err == nil || !strings.Contains(err.Error(), "--force") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it replaces files and their modes if it is told to, and leaves others", func(t *testing.T) {
		for _, name := range []string{"client.key", "notes", "kcat.conf.new"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		forced := options
		forced.Force = true
		if _, err := run(forced); err != nil {
			t.Fatal(err)
		}
		if got := modes(t, dir); got["client.key"] != 0o600 || got["notes"] != 0o644 || len(got) != 6 {
			t.Errorf("modes are %v", got)
		}
		if raw, err := os.ReadFile(filepath.Join(dir, "client.key")); err != nil || string(raw) != data[key.KafkaPrivateKey] {
			t.Errorf("got %s, %v", raw, err)
		}
	})
	t.Run("it refuses a directory that others may enter", func(t *testing.T) {
		open := options
		open.Dir = filepath.Join(t.TempDir(), "open")
		if err := os.Mkdir(open.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(open.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := run(open); err == nil || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it says what to do where there is no such Secret", func(t *testing.T) {
		other := options
		other.Secret.Name = "nothing"
		if _, err := run(other); err == nil || !strings.Contains(err.Error(), "keysmith explain secret shop/nothing") {
			t.Errorf("got %v", err)
		}
	})
}

func modes(t *testing.T, dir string) map[string]os.FileMode {
	t.Helper()
	got := map[string]os.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		got[name] = info.Mode().Perm()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
