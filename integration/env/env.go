// Package env gives integration tests the cluster that E2E_KUBECONFIG names, a namespace of their own in it, and a way to
// wait.
//
// Tests that need it have the build tag k8srequired.
package env

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kubeconfig is the environment variable that names the kubeconfig of the cluster.
const Kubeconfig = "E2E_KUBECONFIG"

// interval is the time between two checks of Eventually.
const interval = 100 * time.Millisecond

// Config returns the configuration of a client of the cluster, without a rate limit. The test fails if there is no cluster.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	path := os.Getenv(Kubeconfig)
	if path == "" {
		t.Fatalf(`%s is not set, so there is no cluster to test in. Either start one for the tests:
	go run ./integration/controlplane/cmd/controlplane -- go test -tags=k8srequired ./integration/test/...
or name the kubeconfig of a test cluster that has the custom resources of keysmith and Aiven:
	%[1]s=$HOME/.kube/config go test -tags=k8srequired ./integration/test/...`, Kubeconfig)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("read %s: %v", Kubeconfig, err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // v1 is used on purpose
	return config
}

// Client returns a client of the cluster for the kinds of the scheme; it reads from the API server, not from a cache.
func Client(t testing.TB, scheme *runtime.Scheme) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("connect to the cluster of %s: %v", Kubeconfig, err)
	}
	return c
}

// Namespace creates a namespace named after the test, at most 32 characters long and never used before, and returns its name.
// It is deleted when the test ends, which does not wait until all in it is gone. The scheme of c must know Namespaces.
func Namespace(t testing.TB, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix(t.Name())}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The context of the test is over by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.IgnoreNotFound(c.Delete(ctx, ns)); err != nil {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// prefix makes the start of a namespace's name out of a test's, such as "revokes-rights-" for TestSecret/revokes_rights; the
// API server adds five characters.
func prefix(test string) string {
	name := strings.TrimPrefix(test[strings.LastIndexByte(test, '/')+1:], "Test")
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	name = strings.Trim(name[:min(len(name), 26)], "-")
	if name == "" {
		name = "test"
	}
	return name + "-"
}

// Eventually calls check every 100 milliseconds until it returns nil. At the deadline the test fails with the error that check returned
// last. The context of check ends with the deadline.
func Eventually(t testing.TB, deadline time.Duration, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil { // an error that only says that the time is up says less than the one before it
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not so after %s: %v", deadline, last)
		case <-ticker.C:
		}
	}
}

// Chart returns the folder of keysmith's chart, which is searched from the working directory upwards.
func Chart(t testing.TB) string {
	t.Helper()
	work, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the chart: %v", err)
	}
	for dir := work; ; dir = filepath.Dir(dir) {
		chart := filepath.Join(dir, "helm", "keysmith")
		if _, err := os.Stat(filepath.Join(chart, "Chart.yaml")); err == nil {
			return chart
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("find the chart: no helm/keysmith in %s or above it", work)
		}
	}
}
