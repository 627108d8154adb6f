//go:build k8srequired

// Package program shows how the operator behaves as a process: its command line, start, stop, hand-over, and what it prints.
package program

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keysmith-io/keysmith/integration/world"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

func TestMain(m *testing.M) { world.Run(m) }

func kafka(secret string) v1.AivenApplicationSpec {
	return v1.AivenApplicationSpec{Kafka: &v1.Kafka{Pool: world.Pool, SecretName: secret}}
}

// run runs the program to its end, without any setting from the environment but those given.
func run(t *testing.T, w *world.World, env []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	cmd := exec.CommandContext(t.Context(), w.Options().Binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append([]string{"PATH=" + os.Getenv("PATH")}, env...), &out, &err
	e := cmd.Run()
	var exit *exec.ExitError
	if e != nil && !errors.As(e, &exit) {
		t.Fatal(e)
	}
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

func write(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersion(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, world.New(t), nil, "version")
	if want := regexp.MustCompile(`^keysmith \S+ \(commit \S+, go\S+, \w+/\w+\)\n$`); status != 0 || stderr != "" || !want.MatchString(stdout) {
		t.Errorf("status %d, output %q, errors %q", status, stdout, stderr)
	}
}

func TestWrongSettings(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	kubeconfig := w.Options().Kubeconfig
	const token = "avnT_canary"
	good := []string{"daemon", "--kubeconfig=" + kubeconfig, "--aiven-token=" + token, "--projects=dev", "--metrics-address=0", "--health-address=0"}
	with := func(more ...string) []string { return append(append([]string{}, good...), more...) }
	without := func(name string) []string {
		var args []string
		for _, a := range good {
			if !strings.HasPrefix(a, "--"+name+"=") {
				args = append(args, a)
			}
		}
		return args
	}
	missing, garbage := filepath.Join(t.TempDir(), "missing"), write(t, "garbage", "garbage")
	tests := map[string]struct {
		args []string
		env  []string
		want string // in the line
	}{
		"an unknown command":              {args: []string{"demon"}, want: "demon"},
		"an argument too many":            {args: []string{"version", "now"}, want: "now"},
		"an argument of the daemon":       {args: with("now"), want: "now"},
		"an unknown flag":                 {args: with("--nonsense"), want: "--nonsense"},
		"a number that is none":           {args: with("--workers=many"), want: "--workers"},
		"a duration that is none":         {args: with("--resync=1 week"), want: "--resync"},
		"a variable that is no number":    {args: good, env: []string{"KEYSMITH_WORKERS=many"}, want: "KEYSMITH_WORKERS"},
		"no workers":                      {args: with("--workers=0"), want: "--workers"},
		"no resync":                       {args: with("--resync=0s"), want: "--resync"},
		"a negative grace":                {args: with("--janitor-grace=-1s"), want: "--janitor-grace"},
		"a level that is none":            {args: with("--log-level=nonsense"), want: "debug, info, error"},
		"no token":                        {args: without("aiven-token"), want: "--aiven-token-file"},
		"two tokens":                      {args: with("--aiven-token-file=" + garbage), want: "--aiven-token-file"},
		"a token file that is not there":  {args: append(without("aiven-token"), "--aiven-token-file="+missing), want: missing},
		"a token file that is empty":      {args: append(without("aiven-token"), "--aiven-token-file="+write(t, "empty", "\n")), want: "empty"},
		"no projects":                     {args: without("projects"), want: "--projects"},
		"an address that is none":         {args: with("--aiven-url=api.aiven.io"), want: "--aiven-url"},
		"an address of another kind":      {args: with("--aiven-url=ftp://" + token + "@api.aiven.io"), want: "--aiven-url"},
		"a short store password":          {args: with("--store-password=12345"), want: "--store-password"},
		"a kubeconfig that is not there":  {args: append(without("kubeconfig"), "--kubeconfig="+missing), want: missing},
		"a kubeconfig that is none":       {args: append(without("kubeconfig"), "--kubeconfig="+garbage), want: "kubeconfig"},
		"no way to the API server":        {args: without("kubeconfig"), want: "--kubeconfig"},
		"two ways to the API server":      {args: with("--kubernetes-in-cluster"), want: "--kubernetes-in-cluster"},
		"a CA file that is not there":     {args: with("--aiven-ca-file=" + missing), want: missing},
		"a CA file without a certificate": {args: with("--aiven-ca-file=" + garbage), want: "--aiven-ca-file"},
		"a metrics address that is none":  {args: with("--metrics-address=nonsense"), want: "--metrics-address"},
		"a health address that is none":   {args: with("--health-address=nonsense"), want: "--health-address"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := run(t, w, tc.env, tc.args...)
			if status != 2 {
				t.Errorf("exit status %d, want 2", status)
			}
			if stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "keysmith: ") || !strings.Contains(stderr, tc.want) {
				t.Errorf("want one line with %q, got %q and the output %q", tc.want, stderr, stdout)
			}
			if strings.Contains(stderr, token) {
				t.Errorf("the line shows the token")
			}
		})
	}
}
