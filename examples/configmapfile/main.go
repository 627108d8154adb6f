// Configmapfile writes labelled ConfigMaps to files: a complete operator on the framework of this repository.
package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/giantswarm/microerror"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// target is the scope: what the resources share in one run. The folder belongs to one ConfigMap alone.
type target struct{ folder, file, content string }

func prepare(_ context.Context, cm *corev1.ConfigMap) (controller.Plan, error) {
	t := &target{path.Join(cm.Namespace, cm.Name), cm.Data["name"], cm.Data["content"]}
	switch wrong := validation.IsConfigMapKey(t.file); { // no slash, and no two dots at the beginning
	case cm.DeletionTimestamp != nil: // first of all: no data may hold up a deletion, which needs the folder alone
		return controller.Plan{Delete: []any{t}}, nil
	case t.file == "" || t.content == "":
		return controller.Plan{}, resource.RequeueAfter(time.Minute, "the keys name and content are not both there yet")
	case len(wrong) > 0:
		return controller.Plan{}, reconcile.TerminalError(&microerror.Error{Kind: "ImpossibleFileName", Desc: wrong[0]})
	}
	return controller.Plan{Ensure: []any{t}}, nil
}

type folder struct{ *os.Root } // which refuses paths that lead out of it

func (folder) Name() string                                       { return "folder" }
func (f folder) EnsureCreated(_ context.Context, t *target) error { return f.MkdirAll(t.folder, 0o755) }

func (f folder) EnsureDeleted(_ context.Context, t *target) error {
	if err := f.Remove(t.folder); !errors.Is(err, fs.ErrNotExist) {
		return err // nil, or "directory not empty", had the file not gone first
	}
	return nil
}

type file struct{ *os.Root }

func (file) Name() string                                       { return "file" }
func (f file) EnsureDeleted(_ context.Context, t *target) error { return f.removeAllBut("", t) }

func (f file) EnsureCreated(_ context.Context, t *target) error {
	name, part := path.Join(t.folder, t.file), path.Join(t.folder, "..part")
	if old, err := f.ReadFile(name); err != nil || string(old) != t.content {
		if err := f.WriteFile(part, []byte(t.content), 0o644); err != nil {
			return err
		}
		if err := f.Rename(part, name); err != nil { // readers see the old content or the new
			return err
		}
	}
	return f.removeAllBut(name, t) // where it had another name before
}

func (f file) removeAllBut(keep string, t *target) error {
	names, err := fs.Glob(f.FS(), path.Join(t.folder, "*"))
	for _, name := range names {
		if name != keep {
			err = errors.Join(err, f.RemoveAll(name))
		}
	}
	return err
}

func configure(root *os.Root, reg metrics.RegistererGatherer) controller.Config[*corev1.ConfigMap] {
	slice := []resource.Interface{resource.Adapt(folder{root}, resource.Scope[*target]), resource.Adapt(file{root}, resource.Scope[*target])}
	return controller.Config[*corev1.ConfigMap]{
		Name: "configmapfile", Prepare: prepare, Metrics: controller.NewMetrics(reg), Workers: 4, Resync: 10 * time.Minute,
		Selector:  labels.SelectorFromSet(labels.Set{"configmapfile.example.com/write": "true"}),
		Resources: resource.Wrap(slice, middleware.Logging(nil), middleware.NewMetrics(reg, nil).Middleware("configmapfile"), middleware.Retry(nil, nil)),
	}
}

func main() {
	dir := flag.String("dir", "", "existing folder for the files")
	address := flag.String("metrics-address", ":8080", "where /metrics is")
	lease := flag.String("lease-namespace", "", "namespace of the lease; needed outside of a cluster")
	flag.Parse()
	ctx := ctrl.SetupSignalHandler()
	ctrl.SetLogger(klog.Background())
	root, err := os.OpenRoot(*dir)
	exitOn(err)
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection: true, LeaderElectionID: "configmapfile", LeaderElectionNamespace: *lease, LeaderElectionReleaseOnCancel: true,
		Metrics: server.Options{BindAddress: *address},
	})
	exitOn(err)
	cfg := configure(root, metrics.Registry)
	cfg.Stopping = ctx.Done()
	exitOn(controller.Add(mgr, cfg))
	exitOn(mgr.Start(ctx))
}

func exitOn(err error) {
	if err != nil {
		klog.Exit(err)
	}
}
