package get

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// nasty is what a value can hold at worst.
const nasty = `a 'b' "c" $HOME $(id) ` + "`id`" + ` \n \\ # ! = : é ;&|<>*?[]{}~%`

// kit writes the kit of a tool to a directory with a nasty name, which it returns.
func kit(t *testing.T, tool Tool, data map[string]string) (dir string, next []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), `it's \ "here"`)
	k, err := For(tool, secret(data), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(dir, k.Files, false); err != nil {
		t.Fatal(err)
	}
	return dir, k.Next
}

// need skips the test where there is no such program.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed: nothing here shows that it reads what is written for it", program)
	}
}

// run runs a program and returns what it prints.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// published are the data of a Kafka user as the operator publishes them.
func published(t *testing.T) map[string]string {
	t.Helper()
	sim := aivensim.New(aivensim.Options{ECDSA: true, Seed: 1})
	project := sim.AddProject("dev")
	user := project.AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka}).AddUser(aivensim.User{Username: "shop_cart"})
	pair, err := credstore.ParsePair(user.AccessCert, user.AccessKey)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := credstore.ParseCA(project.CA())
	if err != nil {
		t.Fatal(err)
	}
	data := kafka()
	data[key.KafkaCA], data[key.KafkaCertificate], data[key.KafkaPrivateKey] = project.CA(), pair.Certificate, pair.Key
	for k, build := range map[string]func() ([]byte, error){
		key.KafkaKeyStore:   func() ([]byte, error) { return credstore.Modern.KeyStore(pair, ca, data[key.KafkaCredStorePassword]) },
		key.KafkaTrustStore: func() ([]byte, error) { return credstore.Modern.TrustStore(ca, data[key.KafkaCredStorePassword]) },
	} {
		store, err := build()
		if err != nil {
			t.Fatal(err)
		}
		data[k] = string(store)
	}
	return data
}

func TestShellsReadTheVariables(t *testing.T) {
	data := published(t)
	data["NASTY"], data["LINES"] = nasty, "one\n\n two\n"
	dir, next := kit(t, Env, data)
	for _, shell := range []string{"sh", "bash"} {
		need(t, shell)
		got := map[string]string{}
		for entry := range strings.SplitSeq(run(t, nil, shell, "-c", next[0]+"; exec env -0"), "\x00") {
			name, value, _ := strings.Cut(entry, "=")
			got[name] = value
		}
		for k, want := range data {
			if isVariable(k) && got[k] != want {
				t.Errorf("%s reads %s as %q, want %q", shell, k, got[k], want)
			}
		}
		if raw, err := os.ReadFile(got["KAFKA_KEYSTORE_PATH"]); err != nil || string(raw) != data[key.KafkaKeyStore] {
			t.Errorf("$KAFKA_KEYSTORE_PATH, %q, does not lead to the key store: %v", got["KAFKA_KEYSTORE_PATH"], err)
		}
		if filepath.Dir(got["KAFKA_CA_PATH"]) != dir {
			t.Errorf("$KAFKA_CA_PATH is %q", got["KAFKA_CA_PATH"])
		}
	}
}

const javaProgram = `
import java.io.*; import java.nio.charset.StandardCharsets; import java.nio.file.*; import java.security.*; import java.util.*;
public class Read {
	static KeyStore open(Properties p, String which) throws Exception {
		KeyStore s = KeyStore.getInstance(p.getProperty("ssl." + which + ".type"));
		try (InputStream in = Files.newInputStream(Paths.get(p.getProperty("ssl." + which + ".location")))) {
			s.load(in, p.getProperty("ssl." + which + ".password").toCharArray());
		}
		return s;
	}
	public static void main(String[] args) throws Exception {
		Properties p = new Properties();
		try (InputStream in = Files.newInputStream(Paths.get(args[0]))) { p.load(in); }
		PrintStream out = new PrintStream(System.out, true, "UTF-8");
		KeyStore keys = open(p, "keystore");
		String alias = keys.aliases().nextElement();
		Key key = keys.getKey(alias, p.getProperty("ssl.key.password").toCharArray());
		out.println(key.getFormat() + " " + open(p, "truststore").size());
		out.println(p.getProperty("basic.auth.user.info"));
		out.println(p.getProperty("bootstrap.servers"));
	}
}
`

func TestJavaReadsTheProperties(t *testing.T) {
	need(t, "java")
	program := filepath.Join(t.TempDir(), "Read.java")
	if err := os.WriteFile(program, []byte(javaProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	data := published(t)
	data[key.KafkaSchemaRegistryPassword] = nasty
	dir, _ := kit(t, Java, data)
	out, err := exec.CommandContext(t.Context(), "java", program, filepath.Join(dir, propertiesFile)).CombinedOutput()
	if bytes.Contains(out, []byte("jdk.compiler")) {
		t.Skip("this Java cannot run a program from its source: nothing here shows that it reads the properties")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff("PKCS#8 1\nshop_cart:"+nasty+"\nkafka.example.com:17072\n", string(out)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Kcat loads what its configuration names before it connects; there is nobody to connect to.
func TestKcatReadsTheConfiguration(t *testing.T) {
	need(t, "kcat")
	data := published(t)
	data[key.KafkaBrokers] = "127.0.0.1:1"
	dir, _ := kit(t, Kcat, data)
	list := func() string {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, _ := exec.CommandContext(ctx, "kcat", "-F", filepath.Join(dir, kcatFile), "-L", "-m", "1").CombinedOutput()
		return string(out)
	}
	if out := list(); !strings.Contains(out, "127.0.0.1:1") || strings.Contains(out, "kcat.conf:") || strings.Contains(out, "ssl.") {
		t.Errorf("kcat does not get as far as the broker:\n%s", out)
	}
	if err := os.Remove(filepath.Join(dir, "client.key")); err != nil {
		t.Fatal(err)
	}
	if out := list(); !strings.Contains(out, "client.key") {
		t.Errorf("kcat does not miss the key, so that it cannot have read it before:\n%s", out)
	}
}

func TestCurlReadsTheConfiguration(t *testing.T) {
	need(t, "curl")
	user, password := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
	}))
	t.Cleanup(server.Close)
	data := openSearchData()
	data[key.OpenSearchURI], data[key.OpenSearchPassword] = server.URL, nasty
	_, next := kit(t, OpenSearch, data)
	run(t, []string{"no_proxy=127.0.0.1"}, "sh", "-c", next[0])
	if user != data[key.OpenSearchUsername] || password != nasty {
		t.Errorf("curl logged in as %q with %q", user, password)
	}
}

// A program of the name of the client shows what the script gives it.
func TestTheScriptCallsTheClient(t *testing.T) {
	const fake = "#!/bin/sh\nprintf '%s\\n' \"$VALKEYCLI_AUTH\" \"$REDISCLI_AUTH\" \"$@\"\n"
	data := valkey()
	data["VALKEY_PASSWORD_SESSIONS"] = nasty
	want := strings.Join([]string{nasty, nasty, "-h", "valkey.example.com", "-p", "17080", "--user", "cart-r-abcdefgh", "--tls", "--sni", "valkey.example.com", "--no-auth-warning", "ping", ""}, "\n")
	for _, client := range []string{"valkey-cli", "redis-cli"} {
		t.Run("it finds "+client, func(t *testing.T) {
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, client), []byte(fake), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, program := range []string{"sh", "cat", "dirname"} {
				path, err := exec.LookPath(program)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
					t.Fatal(err)
				}
			}
			_, next := kit(t, ValkeyCLI, data)
			if diff := cmp.Diff(want, run(t, []string{"PATH=" + bin}, "sh", "-c", next[1])); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRedisCLITakesTheArguments(t *testing.T) {
	need(t, "redis-cli")
	data := valkey()
	data["VALKEY_HOST_SESSIONS"], data["VALKEY_PORT_SESSIONS"] = "127.0.0.1", "1"
	_, next := kit(t, ValkeyCLI, data)
	out, _ := exec.CommandContext(t.Context(), "sh", "-c", next[1]).CombinedOutput()
	if !strings.Contains(string(out), "127.0.0.1:1") {
		t.Errorf("the client does not get as far as the service:\n%s", out)
	}
}
