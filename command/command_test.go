package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keysmith-io/keysmith/service"
)

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
contexts:
  - {name: one, context: {cluster: c, user: u, namespace: shop}}
  - {name: two, context: {cluster: c, user: u}}
`

func parsed(t *testing.T, args ...string) *Cluster {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	c := &Cluster{}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Bind(fs)
	c.BindNamespace(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSecretIsNamed(t *testing.T) {
	tests := map[string]struct {
		flags []string
		arg   string
		want  string // empty: refused
	}{
		"it takes both parts":                 {nil, "a/b", "a/b"},
		"it takes the context's namespace":    {nil, "b", "shop/b"},
		"it takes that of another context":    {[]string{"--context=two"}, "b", "default/b"},
		"it takes the flag's namespace":       {[]string{"-n", "a"}, "b.c", "a/b.c"},
		"it takes the same one twice":         {[]string{"-n", "a"}, "a/b", "a/b"},
		"it refuses two namespaces":           {[]string{"-n", "c"}, "a/b", ""},
		"it refuses no name":                  {nil, "a/", ""},
		"it refuses no namespace":             {nil, "/b", ""},
		"it refuses three parts":              {nil, "a/b/c", ""},
		"it refuses what no Secret is called": {nil, "a/B_", ""},
		"it refuses a context there is not":   {[]string{"--context=three"}, "b", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parsed(t, tt.flags...).Secret(tt.arg)
			if (err != nil) != (tt.want == "") || err == nil && got.String() != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestReaderKnowsItsKindsByItself(t *testing.T) {
	if _, err := parsed(t).Reader(service.Scheme()); err != nil { // there is no API server that it could ask
		t.Error(err)
	}
	m := mapper(service.Scheme())
	for kind, want := range map[schema.GroupVersionKind]string{
		corev1.SchemeGroupVersion.WithKind("Namespace"):                   "namespaces",
		corev1.SchemeGroupVersion.WithKind("Secret"):                      "secrets",
		{Group: "aiven.nais.io", Version: "v1", Kind: "AivenApplication"}: "aivenapplications",
		{Group: "batch", Version: "v1", Kind: "CronJob"}:                  "cronjobs",
	} {
		got, err := m.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || got.Resource.Resource != want || (got.Scope.Name() == "root") != (want == "namespaces") {
			t.Errorf("%s: got %+v, %v", kind, got, err)
		}
	}
}

func TestSay(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	boom := errors.New("boom")
	for want, err := range map[string]error{
		"you (jane) lack the right to list pods in namespace shop": apierrors.NewForbidden(pods, "",
			errors.New(`User "jane" cannot list resource "pods" in API group "" in the namespace "shop"`)),
		"the cluster does not accept your credentials: log in again": apierrors.NewUnauthorized("no"),
		"boom": boom,
	} {
		if got := Say(err); got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if Say(nil) != nil {
		t.Error("nothing is an error")
	}
}
