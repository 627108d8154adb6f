package flag

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// parse reads a command line and an environment, as the daemon does.
func parse(t *testing.T, env map[string]string, args ...string) (*Flags, error) {
	t.Helper()
	t.Setenv(serviceHost, env[serviceHost])
	f := &Flags{}
	fs := pflag.NewFlagSet("daemon", pflag.ContinueOnError)
	f.Bind(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if err := Environment(fs, lookup); err != nil {
		return nil, err
	}
	return f, f.Validate()
}

func TestDefaultsAndPrecedence(t *testing.T) {
	f, err := parse(t, map[string]string{
		"AIVENATOR_AIVEN_TOKEN": " secret\n", "KEYSMITH_PROJECTS": "dev,prod", "AIVENATOR_PROJECTS": "old",
		"KEYSMITH_WORKERS": "3", "KEYSMITH_RESYNC": "1h", serviceHost: "10.0.0.1",
	}, "--workers=5")
	if err != nil {
		t.Fatal(err)
	}
	if f.AivenToken.Reveal() != "secret" || strings.Join(f.Projects, " ") != "dev prod" || f.MainProject != "dev" || !f.KubernetesInCluster {
		t.Errorf("got token %q, projects %v, main project %q, in cluster %t", f.AivenToken.Reveal(), f.Projects, f.MainProject, f.KubernetesInCluster)
	}
	if f.Workers != 5 || f.Resync != time.Hour || f.JanitorGrace != time.Minute || f.StorePassword.Reveal() != "changeme" {
		t.Errorf("got workers %d, resync %s, grace %s, store password %q", f.Workers, f.Resync, f.JanitorGrace, f.StorePassword.Reveal())
	}
}

// The earlier operator takes its list of projects with blanks between them.
func TestTheVariablesOfTheEarlierOperatorMeanTheSame(t *testing.T) {
	f, err := parse(t, map[string]string{
		"AIVENATOR_AIVEN_TOKEN": "secret", "AIVENATOR_PROJECTS": "dev  prod", "AIVENATOR_MAIN_PROJECT": "main", "NAIS_CLUSTER_NAME": "one",
		serviceHost: "10.0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Projects, []string{"dev", "prod"}) || f.MainProject != "main" || f.ClusterName != "one" {
		t.Errorf("got projects %q, main project %q, cluster %q", f.Projects, f.MainProject, f.ClusterName)
	}
}

func TestTheCommandLineBeatsVariablesOfAlternatives(t *testing.T) {
	env := map[string]string{"KUBECONFIG": "/does/not/exist", "AIVENATOR_AIVEN_TOKEN": "old", "KEYSMITH_PROJECTS": "dev"}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := parse(t, env, "--kubernetes-address=https://localhost:6443", "--aiven-token-file="+path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Kubeconfig != "" || f.AivenToken != "" {
		t.Errorf("got kubeconfig %q and token %q from variables", f.Kubeconfig, f.AivenToken.Reveal())
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := map[string]string{"AIVENATOR_AIVEN_TOKEN": "canary", "KEYSMITH_PROJECTS": "dev", serviceHost: "10.0.0.1"}
	tests := map[string]struct {
		env  map[string]string
		args []string
		want []string
	}{
		"it wants a token":              {env: map[string]string{"KEYSMITH_PROJECTS": "dev"}, want: []string{"--aiven-token-file", "AIVENATOR_AIVEN_TOKEN"}},
		"it wants one token":            {env: map[string]string{"KEYSMITH_AIVEN_TOKEN": "canary", "KEYSMITH_AIVEN_TOKEN_FILE": "/x", "KEYSMITH_PROJECTS": "dev"}, want: []string{"--aiven-token-file", "not both"}},
		"it reads the token file":       {env: map[string]string{"KEYSMITH_PROJECTS": "dev"}, args: []string{"--aiven-token-file=/does/not/exist"}, want: []string{"--aiven-token-file", "/does/not/exist"}},
		"it wants a token in the file":  {env: map[string]string{"KEYSMITH_PROJECTS": "dev"}, args: []string{"--aiven-token-file=" + empty}, want: []string{"--aiven-token-file", "empty"}},
		"it wants a project":            {env: map[string]string{"AIVENATOR_AIVEN_TOKEN": "canary"}, want: []string{"--projects", "KEYSMITH_PROJECTS"}},
		"it wants an address":           {env: good, args: []string{"--aiven-url=aiven.io"}, want: []string{"--aiven-url", "https://"}},
		"it wants one cluster":          {env: good, args: []string{"--kubernetes-in-cluster", "--kubernetes-address=https://x"}, want: []string{"--kubeconfig", "only one"}},
		"it wants a cluster":            {env: map[string]string{"AIVENATOR_AIVEN_TOKEN": "canary", "KEYSMITH_PROJECTS": "dev"}, want: []string{"--kubeconfig", "--kubernetes-address"}},
		"it reads the kubeconfig":       {env: good, args: []string{"--kubeconfig=/does/not/exist"}, want: []string{"--kubeconfig", "/does/not/exist"}},
		"it knows the levels":           {env: good, args: []string{"--log-level=nonsense"}, want: []string{"--log-level", "nonsense", "debug, info, error"}},
		"it wants workers":              {env: good, args: []string{"--workers=0"}, want: []string{"--workers", "at least 1"}},
		"it wants a resync":             {env: good, args: []string{"--resync=0s"}, want: []string{"--resync"}},
		"it wants a password for Java":  {env: good, args: []string{"--store-password=short"}, want: []string{"--store-password", "6"}},
		"it wants printable passwords":  {env: good, args: []string{"--store-password=pässword"}, want: []string{"--store-password", "printable ASCII"}},
		"it knows the encodings":        {env: good, args: []string{"--store-encoding=jks"}, want: []string{"--store-encoding", "jks", "modern, legacy"}},
		"it names a wrong variable":     {env: map[string]string{"KEYSMITH_WORKERS": "many"}, want: []string{"KEYSMITH_WORKERS", "integer"}},
		"it names a wrong number":       {env: good, args: []string{"--workers=many"}, want: []string{"--workers", "many"}},
		"it does not wait for the past": {env: good, args: []string{"--janitor-grace=-1s"}, want: []string{"--janitor-grace"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, tt.env, tt.args...)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not name %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q shows the token, or is more than a line", err)
			}
		})
	}
}

func TestTokenHidesItself(t *testing.T) {
	f, err := parse(t, map[string]string{"AIVENATOR_AIVEN_TOKEN": "canary\n", "KEYSMITH_PROJECTS": "dev", serviceHost: "10.0.0.1"}, "--kubernetes-tls-key-data=canary")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(f), fmt.Sprintf("%+v", *f), fmt.Sprintf("%#v", *f), fmt.Sprintf("%q", f.AivenToken), string(raw)} {
		if strings.Contains(text, "canary") {
			t.Errorf("the token shows in %s", text)
		}
	}
}

func TestTokenFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	f, err := NewTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write("two\n")
	if got := f.Reveal(); got != "one" {
		t.Errorf("got %q at once, want one: the file is not read for every call", got)
	}
	f.checked = f.checked.Add(-checkInterval)
	if got := f.Reveal(); got != "two" {
		t.Errorf("got %q, want two", got)
	}
	write("")
	f.checked = f.checked.Add(-checkInterval)
	if got := f.Reveal(); got != "two" {
		t.Errorf("got %q from an empty file, want two still", got)
	}
}

func TestEveryFlagNamesItsVariables(t *testing.T) {
	fs := pflag.NewFlagSet("daemon", pflag.ContinueOnError)
	(&Flags{}).Bind(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(f.Usage, "$KEYSMITH_") {
			t.Errorf("--%s does not say which variable sets it: %s", f.Name, f.Usage)
		}
	})
	for name := range earlier {
		if fs.Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
}
