package world

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keysmith-io/keysmith/integration/env"
)

// Command runs a command of the program for people, such as "explain", in the way of a person's machine: the kubeconfig is named by $KUBECONFIG, and is that
// of the tests where it is "". It returns what was printed and the exit status.
func (w *World) Command(kubeconfig, stdin string, args ...string) (stdout, stderr string, status int) {
	w.t.Helper()
	if kubeconfig == "" {
		kubeconfig = os.Getenv(env.Kubeconfig)
	}
	cmd := exec.CommandContext(w.t.Context(), Binary(w.t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KEYSMITH_AIVEN_URL="+w.url, "KEYSMITH_AIVEN_TOKEN="+Token,
		"KEYSMITH_PROJECTS="+Pool, "KEYSMITH_MAIN_PROJECT="+Main, "KEYSMITH_CLUSTER_NAME=world")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("run keysmith %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Person makes somebody who has some rights in the namespace and none anywhere else, and returns the person's kubeconfig, whose context has the
// namespace.
func (w *World) Person(name string, rules ...rbacv1.PolicyRule) (kubeconfig string) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Namespace: w.Namespace, Name: name}
	w.Make(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
	w.Make(&rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	})
	config, err := clientcmd.LoadFromFile(os.Getenv(env.Kubeconfig))
	if err != nil {
		w.t.Fatalf("read kubeconfig: %v", err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = name
	}
	for _, c := range config.Contexts {
		c.Namespace = w.Namespace
	}
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatalf("write kubeconfig: %v", err)
	}
	return path
}
