package get

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/keysmith-io/keysmith/pkg/key"
)

// build makes the kit of a tool from the data of a Secret that has what the tool needs.
func build(tool Tool, data map[string][]byte, dir string) (Kit, error) {
	switch tool {
	case Kcat:
		return kcat(data, dir)
	case Java:
		return java(data, dir)
	case ValkeyCLI:
		return valkeyCLI(data, dir)
	case OpenSearch:
		return openSearch(data, dir)
	default:
		return env(data, dir)
	}
}

const (
	caFile         = "ca.pem"
	kcatFile       = "kcat.conf"
	propertiesFile = "client.properties"
	envFile        = ".env"
	curlFile       = "curl.conf"
)

// kcat writes a configuration of librdkafka. It has one line for each setting, without any quoting.
func kcat(data map[string][]byte, dir string) (Kit, error) {
	certificate, private := "client.crt", "client.key"
	lines := settings{}
	lines.add("bootstrap.servers", string(data[key.KafkaBrokers]))
	lines.add("security.protocol", "ssl")
	lines.add("ssl.ca.location", filepath.Join(dir, caFile))
	lines.add("ssl.certificate.location", filepath.Join(dir, certificate))
	lines.add("ssl.key.location", filepath.Join(dir, private))
	if registry, ok := data[key.KafkaSchemaRegistry]; ok {
		u, err := url.Parse(string(registry))
		if err != nil {
			return Kit{}, unusable(key.KafkaSchemaRegistry, "is no address")
		}
		u.User = url.UserPassword(string(data[key.KafkaSchemaRegistryUser]), string(data[key.KafkaSchemaRegistryPassword]))
		lines.note("For Avro, with -s avro, where kcat was built with it:")
		lines.note("schema.registry.url=" + u.String())
		lines.note("schema.registry.ssl.ca.location=" + filepath.Join(dir, caFile))
	}
	conf, err := lines.text(func(s string) (string, bool) {
		return s, s == strings.TrimSpace(s) && !strings.ContainsAny(s, "\n\r\x00")
	})
	if err != nil {
		return Kit{}, err
	}
	return Kit{
		Files: []File{{kcatFile, conf}, {caFile, data[key.KafkaCA]}, {certificate, data[key.KafkaCertificate]}, {private, data[key.KafkaPrivateKey]}},
		Next:  []string{"kcat -F " + quote(filepath.Join(dir, kcatFile)) + " -L"},
	}, nil
}

// java writes a properties file, which Kafka's own tools and clients read, and the two stores that it names.
func java(data map[string][]byte, dir string) (Kit, error) {
	password := string(data[key.KafkaCredStorePassword])
	trust := filepath.Join(dir, key.KafkaTrustStore)
	lines := settings{}
	lines.add("bootstrap.servers", string(data[key.KafkaBrokers]))
	lines.add("security.protocol", "SSL")
	lines.add("ssl.keystore.type", "PKCS12")
	lines.add("ssl.keystore.location", filepath.Join(dir, key.KafkaKeyStore))
	lines.add("ssl.keystore.password", password)
	lines.add("ssl.key.password", password)
	lines.add("ssl.truststore.type", "PKCS12")
	lines.add("ssl.truststore.location", trust)
	lines.add("ssl.truststore.password", password)
	if registry, ok := data[key.KafkaSchemaRegistry]; ok {
		lines.add("schema.registry.url", string(registry))
		lines.add("schema.registry.ssl.truststore.type", "PKCS12")
		lines.add("schema.registry.ssl.truststore.location", trust)
		lines.add("schema.registry.ssl.truststore.password", password)
		lines.add("basic.auth.credentials.source", "USER_INFO")
		lines.add("basic.auth.user.info", string(data[key.KafkaSchemaRegistryUser])+":"+string(data[key.KafkaSchemaRegistryPassword]))
	}
	properties, err := lines.text(property)
	if err != nil {
		return Kit{}, err
	}
	return Kit{
		Files: []File{
			{propertiesFile, properties},
			{key.KafkaKeyStore, data[key.KafkaKeyStore]}, {key.KafkaTrustStore, data[key.KafkaTrustStore]},
		},
		Next: []string{"kafka-topics.sh --bootstrap-server " + quote(string(data[key.KafkaBrokers])) +
			" --command-config " + quote(filepath.Join(dir, propertiesFile)) + " --list"},
	}, nil
}

// property escapes a value as java.util.Properties reads it.
func property(s string) (string, bool) {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\\', i == 0 && r == ' ':
			b.WriteString(`\` + string(r))
		case r < ' ' || r > '~':
			if r > 0xFFFF {
				return "", false // none of ours; Java would want two halves of it
			}
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), true
}

// paths are the variables that name the files of the values that programs want in files.
var paths = []struct{ key, file, variable string }{
	{key.KafkaCA, "kafka-ca.pem", "KAFKA_CA_PATH"},
	{key.KafkaCertificate, "kafka.crt", "KAFKA_CERTIFICATE_PATH"},
	{key.KafkaPrivateKey, "kafka.key", "KAFKA_PRIVATE_KEY_PATH"},
	{key.KafkaKeyStore, key.KafkaKeyStore, "KAFKA_KEYSTORE_PATH"},
	{key.KafkaTrustStore, key.KafkaTrustStore, "KAFKA_TRUSTSTORE_PATH"},
}

// env writes what a container with envFrom would have, as a file for a shell, and files for what programs want in files.
func env(data map[string][]byte, dir string) (Kit, error) {
	var text strings.Builder
	kit := Kit{Next: []string{"set -a; . " + quote(filepath.Join(dir, envFile)) + "; set +a"}}
	assign := func(name, value string) error {
		if strings.ContainsRune(value, 0) {
			return unusable(name, "holds a zero byte, which no variable can")
		}
		fmt.Fprintf(&text, "%s=%s\n", name, quote(value))
		return nil
	}
	fmt.Fprintf(&text, "# For a shell: %s\n", kit.Next[0])
	for _, k := range slices.Sorted(maps.Keys(data)) {
		if !isVariable(k) {
			continue
		}
		if err := assign(k, string(data[k])); err != nil {
			return Kit{}, err
		}
	}
	var files []File
	for _, p := range paths {
		content, ok := data[p.key]
		if !ok {
			continue
		}
		files = append(files, File{p.file, content})
		if err := assign(p.variable, filepath.Join(dir, p.file)); err != nil {
			return Kit{}, err
		}
	}
	kit.Files = append([]File{{envFile, []byte(text.String())}}, files...)
	return kit, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// instances are the Valkey instances of a Secret, as their keys name them.
func instances(data map[string][]byte) []string {
	var out []string
	prefix := key.Valkey(key.Username, "")
	for _, k := range slices.Sorted(maps.Keys(data)) {
		if i, ok := strings.CutPrefix(k, prefix); ok && i != "" {
			out = append(out, i)
		}
	}
	return out
}

// valkeyCLI writes a script for each instance. The password reaches the client by the environment: everybody on a machine can read arguments.
func valkeyCLI(data map[string][]byte, dir string) (Kit, error) {
	kit := Kit{Files: []File{{caFile, data[key.AivenCA]}}}
	for _, i := range instances(data) {
		value := func(f key.Field) string { return string(data[key.Valkey(f, i)]) }
		name := strings.ReplaceAll(strings.ToLower(i), "_", "-")
		tls := ""
		if strings.HasPrefix(value(key.URI), "valkeys:") {
			tls = " --tls --sni " + quote(value(key.Host))
		}
		for _, f := range []key.Field{key.Username, key.Password, key.Host, key.Port} {
			if strings.ContainsAny(value(f), "\n\r\x00") {
				return Kit{}, unusable(key.Valkey(f, i), "is not one line")
			}
		}
		script := fmt.Sprintf(`#!/bin/sh
# Opens valkey-cli, or else redis-cli, with the arguments that are given. Where the certificate of the service is not publicly
# trusted but signed by the CA of its Aiven project: sh %[1]s.sh --cacert %[2]s
dir=$(cd -- "$(dirname -- "$0")" && pwd) || exit
VALKEYCLI_AUTH=$(cat "$dir/%[1]s.password") || exit
REDISCLI_AUTH=$VALKEYCLI_AUTH
export VALKEYCLI_AUTH REDISCLI_AUTH
cli=valkey-cli
command -v "$cli" >/dev/null || cli=redis-cli
exec "$cli" -h %[3]s -p %[4]s --user %[5]s%[6]s --no-auth-warning "$@"
`, name, caFile, quote(value(key.Host)), quote(value(key.Port)), quote(value(key.Username)), tls)
		kit.Files = append(kit.Files, File{name + ".sh", []byte(script)}, File{name + ".password", []byte(value(key.Password) + "\n")})
		kit.Next = append(kit.Next, "sh "+quote(filepath.Join(dir, name+".sh"))+" ping")
	}
	return kit, nil
}

// openSearch writes a configuration of curl with the user and the password.
func openSearch(data map[string][]byte, dir string) (Kit, error) {
	user, password := string(data[key.OpenSearchUsername]), string(data[key.OpenSearchPassword])
	if strings.Contains(user, ":") {
		return Kit{}, unusable(key.OpenSearchUsername, "holds a colon, which ends the name of a user for curl")
	}
	uri := string(data[key.OpenSearchURI])
	lines := settings{separator: " = "}
	lines.note("The address is " + uri + ". Where its certificate is not publicly trusted but signed by the CA of its Aiven project, add:")
	lines.note(`cacert = ` + curlQuoted(filepath.Join(dir, caFile)))
	lines.add("user", user+":"+password)
	conf, err := lines.text(func(s string) (string, bool) { return curlQuoted(s), !strings.ContainsRune(s, 0) })
	if err != nil {
		return Kit{}, err
	}
	return Kit{
		Files: []File{{curlFile, conf}, {caFile, data[key.AivenCA]}},
		Next:  []string{"curl -K " + quote(filepath.Join(dir, curlFile)) + " " + quote(strings.TrimSuffix(uri, "/")+"/_cat/indices?v")},
	}, nil
}

// curlQuoted is a value of a configuration of curl, as its manual describes it.
func curlQuoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`).Replace(s) + `"`
}

// quote makes one word of a text for a POSIX shell.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:,@%+", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// settings are the lines of a configuration file.
type settings struct {
	separator string // "=" by default
	lines     []setting
}

type setting struct{ name, value string } // a note has no name

func (s *settings) add(name, value string) { s.lines = append(s.lines, setting{name, value}) }
func (s *settings) note(text string)       { s.lines = append(s.lines, setting{value: text}) }

// text writes the lines, with each value in the form that escape gives it. escape answers false where a format cannot hold a value; the error then
// names the setting, and not the value.
func (s *settings) text(escape func(string) (string, bool)) ([]byte, error) {
	var b strings.Builder
	for _, l := range s.lines {
		if l.name == "" {
			if strings.ContainsAny(l.value, "\n\r\x00") {
				return nil, errors.New("a value is not one line")
			}
			fmt.Fprintf(&b, "# %s\n", l.value)
			continue
		}
		value, ok := escape(l.value)
		if !ok {
			return nil, fmt.Errorf("%s cannot have this value, for want of a way to write it", l.name)
		}
		separator := s.separator
		if separator == "" {
			separator = "="
		}
		b.WriteString(l.name + separator + value + "\n")
	}
	return []byte(b.String()), nil
}

func unusable(k, why string) error { return fmt.Errorf("the value of %s %s", k, why) }
