//go:build k8srequired

// Package chart shows that the chart renders what it should, refuses what cannot work, and installs an operator that works: with Helm, and with the
// commands that its README gives.
package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	settings "github.com/keysmith-io/keysmith/flag"
	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/golden"
)

func TestMain(m *testing.M) { world.Run(m) }

// bin are the folders of the programs of hack/helm, for PATH. They are built where the cache does not have them.
var bin = sync.OnceValues(func() (path string, err error) {
	for _, name := range []string{"helm", "kubectl"} {
		cmd := exec.Command("go", "-C", "../../../hack/helm", "tool", "-n", name)
		cmd.Stderr = os.Stderr
		program, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("build %s: %w", name, err)
		}
		path += filepath.Dir(string(program)) + ":"
	}
	return path, nil
})

// shell runs commands as a person would who has helm and kubectl. An error holds what they say of it.
func shell(t *testing.T, commands string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := bin()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	cmd := exec.Command("sh", append([]string{"-euc", commands, "sh"}, args...)...)
	cmd.Dir = filepath.Join(env.Chart(t), "..", "..")
	cmd.Env = append(os.Environ(), "PATH="+path+os.Getenv("PATH"), "KUBECONFIG="+os.Getenv(env.Kubeconfig), "HELM_CACHE_HOME="+os.TempDir())
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), errs.String(), fmt.Errorf("%w: %s", err, errs.String())
	}
	return out.String(), errs.String(), nil
}

// helm runs Helm.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return shell(t, `exec helm "$@"`, args...)
}

// render renders the chart as release keysmith in namespace keysmith.
func render(t *testing.T, args ...string) string {
	t.Helper()
	out, _, err := helm(t, append([]string{"template", "keysmith", "helm/keysmith", "--namespace=keysmith"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// variant is the path of a file with values. The default is the least that works.
func variant(t *testing.T, name string) string {
	t.Helper()
	if name == "default" {
		return filepath.Join(env.Chart(t), "ci", "default-values.yaml")
	}
	path, err := filepath.Abs(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// variants are the files with values that have a golden rendering.
var variants = []string{"default", "everything", "namespaces", "proxy"}

func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// find reads the object of a kind from a rendering.
func find[T any](t *testing.T, rendered, kind string) *T {
	t.Helper()
	for doc := range strings.SplitSeq(rendered, "\n---\n") {
		if !strings.Contains("\n"+doc, "\nkind: "+kind+"\n") {
			continue
		}
		obj := new(T)
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			t.Fatalf("read the %s: %v", kind, err)
		}
		return obj
	}
	t.Fatalf("there is no %s in\n%s", kind, rendered)
	return nil
}

func TestRendering(t *testing.T) {
	t.Parallel()
	for _, name := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := render(t, "--kube-version=1.33", "--values="+variant(t, name))
			golden.Compare(t, filepath.Join("testdata", name+".golden"), got)
		})
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	args := []string{"lint", "--strict", "helm/keysmith"}
	if out, _, err := helm(t, args...); err != nil {
		t.Errorf("with nothing set: %v\n%s", err, out)
	}
	for _, name := range variants {
		if out, _, err := helm(t, append(args, "--values="+variant(t, name))...); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const canary = "hunter2"
	tests := map[string]struct {
		values string
		args   []string
		want   []string
	}{
		"values of a wrong type": {
			values: `{aiven: {token: 1234567890123456789, projects: dev, existingSecret: aiven}, clusterName: 7, namespaces: shop, replicas: "2",
				settings: {workers: "1000000", resync: 15}, logLevel: true, extraArgs: [1], extraEnv: [{name: A, value: 1}], commonLabels: {a: 1},
				image: {tag: 1.20}, serviceMonitor: {enabled: "true"}, resources: none}`,
			want: []string{
				"at '/aiven/token': got number, want string", "at '/aiven/projects': got string, want array", "at '/aiven/existingSecret': got string, want object",
				"at '/clusterName': got number, want string", "at '/namespaces': got string, want array", "at '/replicas': got string, want integer",
				"at '/settings/workers': got string, want integer", "at '/settings/resync': got number, want string",
				"at '/logLevel': got boolean, want string", "at '/extraArgs/0': got number, want string", "at '/extraEnv/0/value': got number, want string",
				"at '/commonLabels/a': got number, want string", "at '/image/tag': got number, want string", "at '/serviceMonitor/enabled': got string, want boolean",
				"at '/resources': got string, want object",
			},
		},
		"values that cannot be": {
			values: `{aiven: {projects: ["a b"], url: api.aiven.io}, namespaces: [Shop], replicas: -1, settings: {workers: 0, resync: 15 minutes},
				logLevel: nonsense, image: {digest: latest, pullPolicy: always}, terminationGracePeriodSeconds: 10, podDisruptionBudget: {maxUnavailable: half}}`,
			want: []string{
				"at '/aiven/projects/0': 'a b' does not match", "at '/aiven/url': 'api.aiven.io' does not match", "at '/namespaces/0': 'Shop' does not match",
				"at '/replicas': minimum: got -1, want 0", "at '/settings/workers': minimum: got 0, want 1", "at '/settings/resync': '15 minutes' does not match",
				"at '/logLevel': value must be one of 'debug', 'info', 'error'", "at '/image/digest': 'latest' does not match",
				"at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'", "at '/terminationGracePeriodSeconds': minimum: got 10, want 30",
				"at '/podDisruptionBudget/maxUnavailable': 'half' does not match",
			},
		},
		"values that do not exist": {
			values: `{replicaCount: 2, aiven: {tokn: x}, settings: {worker: 1}, serviceMonitor: {intervall: 30s}}`,
			want: []string{
				"at '': additional properties 'replicaCount' not allowed", "at '/aiven': additional properties 'tokn' not allowed",
				"at '/settings': additional properties 'worker' not allowed", "at '/serviceMonitor': additional properties 'intervall' not allowed",
			},
		},
		"a token of digits without quotes":        {args: []string{"--set=aiven.token=1234567890123456789"}, want: []string{"at '/aiven/token': got number, want string"}},
		"a token that is a word of YAML":          {args: []string{"--set=aiven.token=true"}, want: []string{"at '/aiven/token': got boolean, want string"}},
		"a number given as a text":                {args: []string{"--set-string=settings.workers=1000000"}, want: []string{"at '/settings/workers': got string, want integer"}},
		"no token":                                {args: []string{"--set=aiven.token="}, want: []string{"set aiven.token, or aiven.existingSecret.name"}},
		"two tokens":                              {args: []string{"--set=aiven.existingSecret.name=aiven"}, want: []string{"give aiven.token or aiven.existingSecret.name, not both"}},
		"no project":                              {args: []string{"--set=aiven.projects=null"}, want: []string{"set aiven.projects"}},
		"two CA bundles":                          {args: []string{"--set=caBundle.secret=a,caBundle.configMap=b"}, want: []string{"give only one of caBundle.pem, caBundle.configMap and caBundle.secret"}},
		"a CA bundle without certificates":        {args: []string{"--set=caBundle.pem=" + canary}, want: []string{"caBundle.pem must hold certificates in PEM"}},
		"a proxy with a password and no scheme":   {args: []string{"--set=proxy.https=me:" + canary + "@proxy:3128"}, want: []string{"proxy.https must be an address such as http://proxy.example.com:3128"}},
		"a version of Kubernetes that is too old": {args: []string{"--kube-version=1.32"}, want: []string{"chart requires kubeVersion: >=1.33.0-0"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"template", "keysmith", "helm/keysmith", "--values=" + variant(t, "default"), "--values=" + write(t, tc.values)}
			_, _, err := helm(t, append(args, tc.args...)...)
			if err == nil {
				t.Fatal("it is rendered")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("a secret is shown:\n%v", err)
			}
		})
	}
}

func TestATokenArrivesAsItIs(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]string{
		"digits": "1234567890123456789", "a number with an exponent": "1e10", "a word of YAML": "true", "quotes and dollars": `a"b$c`,
		"a line's end": "x\n", "braces": "{{ .Release.Name }}",
	} {
		values, err := json.Marshal(map[string]any{"aiven": map[string]any{"token": token}})
		if err != nil {
			t.Fatal(err)
		}
		ways := map[string]string{
			"from a file": "--values=" + write(t, string(values)), "by --set-string": "--set-string=aiven.token=" + token,
			"by --set-file": "--set-file=aiven.token=" + write(t, token),
		}
		switch token {
		case "1234567890123456789", "true": // --set makes something else of them, which is refused
		default:
			ways["by --set"] = "--set=aiven.token=" + token
		}
		if strings.HasPrefix(token, "{") { // a list
			delete(ways, "by --set")
			delete(ways, "by --set-string")
		}
		for way, arg := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				rendered := render(t, "--values="+variant(t, "default"), "--show-only=templates/secret.yaml", arg)
				got := find[corev1.Secret](t, rendered, "Secret").Data["token"]
				if diff := cmp.Diff(token, string(got)); diff != "" {
					t.Fatalf("the Secret (-want +got):\n%s", diff)
				}
				read, err := settings.ReadToken(write(t, string(got)))
				if err != nil || read.Reveal() != strings.TrimSpace(token) {
					t.Errorf("the operator reads %q, %v", read.Reveal(), err)
				}
			})
		}
	}
}

// deployed are the settings that the operator takes from a rendered Deployment.
func deployed(t *testing.T, rendered string) (*settings.Flags, *pflag.FlagSet) {
	t.Helper()
	f, fs := &settings.Flags{}, pflag.NewFlagSet("daemon", pflag.ContinueOnError)
	f.Bind(fs)
	args := find[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec.Containers[0].Args
	if err := fs.Parse(args[1:]); err != nil {
		t.Fatalf("the operator does not understand %q: %v", args, err)
	}
	return f, fs
}

func TestTheOperatorUnderstandsItsArguments(t *testing.T) {
	t.Parallel()
	for _, name := range variants {
		deployed(t, render(t, "--values="+variant(t, name)))
	}
	for name, args := range map[string][]string{
		"from a file": {"--values=" + write(t, "{settings: {workers: 1000000, aiven-burst: 20000000, aiven-qps: 0.15e3}}")},
		"by --set":    {"--set=settings.workers=1000000,settings.aiven-burst=20000000", "--set-json=settings.aiven-qps=150"},
	} {
		f, _ := deployed(t, render(t, append(args, "--values="+variant(t, "default"))...))
		if f.Workers != 1000000 || f.AivenBurst != 20000000 || f.AivenQPS != 150 {
			t.Errorf("numbers given %s: %d workers, a burst of %d, %v calls a second", name, f.Workers, f.AivenBurst, f.AivenQPS)
		}
	}
}

// Every flag is set by a value of its own, or one of settings, or is named here with the reason why not.
func TestEveryFlagHasAPlaceInTheValues(t *testing.T) {
	t.Parallel()
	none := map[string]string{
		"aiven-token":              "it would show in the list of processes",
		"store-password":           "it would show in the list of processes; extraEnv takes it from a Secret",
		"leader-election":          "replicas without it would work against each other",
		"kubeconfig":               "a Pod has its ServiceAccount",
		"kubernetes-address":       "a Pod has its ServiceAccount",
		"kubernetes-in-cluster":    "the default in a Pod",
		"kubernetes-tls-ca-file":   "a Pod has its ServiceAccount",
		"kubernetes-tls-cert-file": "a Pod has its ServiceAccount",
		"kubernetes-tls-key-file":  "a Pod has its ServiceAccount",
		"kubernetes-tls-ca-data":   "a Pod has its ServiceAccount",
		"kubernetes-tls-cert-data": "a Pod has its ServiceAccount",
		"kubernetes-tls-key-data":  "a Pod has its ServiceAccount",
	}
	got := slices.Collect(maps.Keys(none))
	raw, err := os.ReadFile(filepath.Join(env.Chart(t), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Settings struct{ Properties map[string]any }
		}
	}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&schema); err != nil {
		t.Fatal(err)
	}
	got = slices.AppendSeq(got, maps.Keys(schema.Properties.Settings.Properties))
	_, fs := deployed(t, render(t, "--values="+variant(t, "default"), "--set=clusterName=a,namespaces={b},aiven.mainProject=c,caBundle.secret=d"))
	fs.Visit(func(f *pflag.Flag) { got = append(got, f.Name) })
	var want []string
	fs.VisitAll(func(f *pflag.Flag) { want = append(want, f.Name) })
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-of the operator +of the chart):\n%s", diff)
	}
}
