// Package controlplane starts a Kubernetes control plane for tests on this machine: etcd, kube-apiserver and
// kube-controller-manager on loopback, with the custom resources that keysmith works on. There is no scheduler and no kubelet:
// a Deployment gets its ReplicaSet and its Pods, which stay Pending, and a deleted namespace is emptied and removed.
//
// The program in cmd/controlplane runs a command against such a cluster.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// startTimeout is how long one process may take to be ready, on a machine that is busy with other things.
	startTimeout = 2 * time.Minute
	// stopTimeout is how long one process may take to end before it is killed.
	stopTimeout = 20 * time.Second
)

// controllers are those that tests need; the others cost time at start and at each deletion of a namespace.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"cronjob-controller",
	"deployment-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"replicaset-controller",
	"serviceaccount-controller",
	"statefulset-controller",
}

// Options are the settings of a control plane; the zero value is good.
type Options struct {
	// CRDs are files, and folders of files, with the custom resource definitions to install besides Aiven's. nil stands for
	// those of keysmith's chart, which is searched from the working directory upwards.
	CRDs []string
	// Log gets lines of progress for people; nil stands for the standard error output.
	Log io.Writer
}

// ControlPlane is a running control plane. Its methods must not be called at the same time.
type ControlPlane struct {
	dir     string // all that the processes write, logs included
	logs    []*os.File
	plane   *envtest.ControlPlane
	manager *exec.Cmd
	ended   chan struct{} // closed when the manager has ended
	config  *rest.Config
}

// Start starts a control plane and returns when it serves the custom resources and its controllers work. It takes the programs
// from where Find finds them, which once takes minutes. The context limits the start alone: the control plane runs until
// Stop, which must be called. After an error nothing is left running.
//
// With KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT=true, envtest's own switch, the logs of all processes go to the standard error output.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	binaries, err := Find(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "keysmith-controlplane-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the control plane: %w", err)
	}
	c := &ControlPlane{dir: dir}
	if err := c.start(ctx, binaries, o.CRDs); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, b Binaries, crds []string) error {
	if err := c.startPlane(b); err != nil {
		return err
	}
	admin, err := c.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{QPS: -1})
	if err != nil {
		return fmt.Errorf("make the administrator: %w", err)
	}
	c.config = admin.Config()
	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		return fmt.Errorf("make the kubeconfig: %w", err)
	}
	if err := os.WriteFile(c.Kubeconfig(), kubeconfig, 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := InstallCRDs(ctx, c.config, crds); err != nil {
		return err
	}
	return c.startManager(ctx, b.ControllerManager)
}

// startPlane starts etcd and the API server. envtest cannot be interrupted here; it gives up after startTimeout.
func (c *ControlPlane) startPlane(b Binaries) error {
	etcdDir, apiDir := filepath.Join(c.dir, etcd), filepath.Join(c.dir, apiServer)
	for _, dir := range []string{etcdDir, apiDir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make a folder for the control plane: %w", err)
		}
	}
	etcdLog, err := c.log(etcd)
	if err != nil {
		return err
	}
	apiLog, err := c.log(apiServer)
	if err != nil {
		return err
	}
	c.plane = &envtest.ControlPlane{
		Etcd: &envtest.Etcd{
			Path: b.Etcd, DataDir: etcdDir,
			StartTimeout: startTimeout, StopTimeout: stopTimeout,
			Out: etcdLog, Err: etcdLog,
		},
		// envtest keeps a folder that is not its own, so a restarted API server has the same certificates.
		APIServer: &envtest.APIServer{
			Path: b.APIServer, CertDir: apiDir,
			StartTimeout: startTimeout, StopTimeout: stopTimeout,
			Out: apiLog, Err: apiLog,
		},
	}
	// Otherwise a stopping API server waits for the watches of its clients to end, for up to a minute.
	c.plane.APIServer.Configure().Set("shutdown-send-retry-after", "true")
	// It is on in clusters that are strict, and costs nothing: who sets an owner that waits for its dependants needs rights on the owner.
	c.plane.APIServer.Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	if err := c.plane.Start(); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver: %w%s%s", err, c.tail(etcd), c.tail(apiServer))
	}
	return nil
}

// startManager starts the controller manager and waits for the work of its controllers.
func (c *ControlPlane) startManager(ctx context.Context, path string) error {
	log, err := c.log(controllerManager)
	if err != nil {
		return err
	}
	// It ends with Stop.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path,
		"--kubeconfig="+c.Kubeconfig(),
		"--controllers="+strings.Join(controllers, ","),
		"--leader-elect=false",
		"--use-service-account-credentials=false",
		"--secure-port=0", // two control planes at a time must not want the same port
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is not for it
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start kube-controller-manager: %w", err)
	}
	c.manager, c.ended = cmd, make(chan struct{})
	go func() {
		defer close(c.ended)
		_ = cmd.Wait() // its state says it all
	}()

	api, err := client.New(c.config, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to kube-apiserver: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		// The first thing that a controller makes in a new cluster.
		err := api.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, &corev1.ServiceAccount{})
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("start kube-controller-manager: %s%s", cmd.ProcessState, c.tail(controllerManager))
		case <-ctx.Done():
			return fmt.Errorf("wait for kube-controller-manager: %w%s", errors.Join(context.Cause(ctx), err), c.tail(controllerManager))
		case <-ticker.C:
		}
	}
}

// Kubeconfig returns the path of a kubeconfig file for an administrator. It is there until Stop.
func (c *ControlPlane) Kubeconfig() string {
	return filepath.Join(c.dir, "kubeconfig")
}

// Config returns the configuration of a client that is an administrator and has no rate limit.
func (c *ControlPlane) Config() *rest.Config {
	return rest.CopyConfig(c.config)
}

// StopAPIServer stops the API server alone, as an outage that StartAPIServer ends.
func (c *ControlPlane) StopAPIServer() error {
	if err := c.plane.APIServer.Stop(); err != nil {
		return fmt.Errorf("stop kube-apiserver: %w", err)
	}
	return nil
}

// StartAPIServer starts the API server again, with the same address, certificates and data, and returns when it is healthy.
func (c *ControlPlane) StartAPIServer() error {
	if err := c.plane.APIServer.Start(); err != nil {
		return fmt.Errorf("start kube-apiserver: %w%s", err, c.tail(apiServer))
	}
	return nil
}

// Stop ends all processes and removes all that they have written.
func (c *ControlPlane) Stop() error {
	var errs []error
	if c.manager != nil {
		errs = append(errs, c.stopManager())
	}
	if c.plane != nil {
		if err := c.plane.Stop(); err != nil {
			errs = append(errs, fmt.Errorf("stop etcd and kube-apiserver: %w", err))
		}
	}
	for _, log := range c.logs {
		errs = append(errs, log.Close())
	}
	if err := os.RemoveAll(c.dir); err != nil {
		errs = append(errs, fmt.Errorf("remove what the control plane has written: %w", err))
	}
	return errors.Join(errs...)
}

func (c *ControlPlane) stopManager() error {
	err := c.manager.Process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop kube-controller-manager: %w", err)
	}
	select {
	case <-c.ended:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := c.manager.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill kube-controller-manager: %w", err)
	}
	<-c.ended
	return nil
}

// log opens the log of a process.
func (c *ControlPlane) log(name string) (io.Writer, error) {
	f, err := os.Create(c.logPath(name))
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	c.logs = append(c.logs, f)
	if os.Getenv("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT") == "true" {
		return io.MultiWriter(f, os.Stderr), nil
	}
	return f, nil
}

func (c *ControlPlane) logPath(name string) string {
	return filepath.Join(c.dir, name+".log")
}

// tail returns the last lines of the log of a process, for an error text.
func (c *ControlPlane) tail(name string) string {
	text, err := os.ReadFile(c.logPath(name))
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-10):]
	return "\nthe log of " + name + " ends with\n\t" + strings.Join(lines, "\n\t")
}
