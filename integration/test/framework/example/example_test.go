//go:build k8srequired

// Package example runs the example of the framework's guide as its users would: as a process, against a cluster.
package example

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/pkg/controller"
)

// deadline is generous: the machine may be slow, and a lease of a run that was killed lasts for a quarter of a minute.
const deadline = time.Minute

func TestExample(t *testing.T) {
	c := env.Client(t, scheme.Scheme)
	namespace := env.Namespace(t, c)
	dir := t.TempDir()
	run(t, dir)

	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "motd", Labels: map[string]string{"configmapfile.example.com/write": "true"},
		},
		Data: map[string]string{"name": "motd.txt"},
	}
	if err := c.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	change := func(data map[string]string) {
		t.Helper()
		before := cm.DeepCopy()
		cm.Data = data
		if err := c.Patch(t.Context(), cm, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	eventually := func(want map[string]string) {
		t.Helper()
		env.Eventually(t, deadline, func(context.Context) error {
			got, err := files(filepath.Join(dir, namespace, cm.Name))
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("files (-want +got):\n%s", diff)
			}
			return err
		})
	}

	env.Eventually(t, deadline, func(ctx context.Context) error { // it waits for the content, under its finalizer
		if err := c.Get(ctx, client.ObjectKeyFromObject(cm), cm); err != nil {
			return err
		}
		if diff := cmp.Diff([]string{controller.Finalizer("configmapfile")}, cm.Finalizers); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	change(map[string]string{"name": "motd.txt", "content": "hello"})
	eventually(map[string]string{"motd.txt": "hello"})
	change(map[string]string{"name": "motd.txt", "content": "hello again"})
	eventually(map[string]string{"motd.txt": "hello again"})

	change(map[string]string{"name": "../../motd.txt", "content": "out of here"})
	env.Eventually(t, deadline, func(ctx context.Context) error {
		var events eventsv1.EventList
		if err := c.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "ImpossibleFileName" && e.Regarding.UID == cm.UID {
				return nil
			}
		}
		return errors.New("no event says that the name is impossible")
	})
	eventually(map[string]string{"motd.txt": "hello again"})

	if err := c.Delete(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	eventually(nil)
	env.Eventually(t, deadline, func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(cm), cm)
		if err == nil {
			return errors.New("the ConfigMap is still there")
		}
		return client.IgnoreNotFound(err)
	})
}

// run builds the example and runs it until the test ends, when it must stop by itself, without an error. Only one runs at a time in a
// cluster, because they share a lease.
func run(t *testing.T, dir string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "configmapfile")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/keysmith-io/keysmith/examples/configmapfile")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	var output bytes.Buffer
	cmd := exec.Command(binary, "-kubeconfig="+os.Getenv(env.Kubeconfig), "-dir="+dir, "-metrics-address=127.0.0.1:0", "-lease-namespace=default")
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the example: %v", err)
	}
	t.Cleanup(func() {
		killer := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
		defer killer.Stop()
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already, which Wait tells
		if err := cmd.Wait(); err != nil {
			t.Errorf("stop the example: %v", err)
		}
		if t.Failed() {
			t.Logf("the example said:\n%s", output.String())
		}
	})
}

// files returns what is in a folder, nil if there is no folder.
func files(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	contents := map[string]string{}
	for _, e := range entries {
		content, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
		contents[e.Name()], err = string(content), errors.Join(err, readErr)
	}
	return contents, err
}
