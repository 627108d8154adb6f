//go:build k8srequired

package firststeps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operator"
)

// kubelet stands in for that of a node: it runs the operator's Pods as processes of this machine, with the arguments of their container, the
// files of their Secrets and the token of their ServiceAccount, and tells when they are ready.
type kubelet struct {
	client.Client
	config    *rest.Config
	dir       string // for kubeconfigs and mounted files
	binary    string
	images    string   // the file in which kind keeps the names of the images that were loaded
	args      []string // stand after those of the container, and so count more
	namespace string

	mu   sync.Mutex
	pods map[types.UID]*operator.Process
	logs strings.Builder // of processes that have ended
}

// run works until the context ends, and then ends the processes.
func (k *kubelet) run(ctx context.Context, failed func(error)) {
	defer k.sweep(func(types.UID) bool { return false })
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := k.sync(ctx); err != nil && ctx.Err() == nil {
			failed(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sync starts what has to run, and ends what has not.
func (k *kubelet) sync(ctx context.Context) error {
	var list corev1.PodList
	if err := k.List(ctx, &list, client.InNamespace(k.namespace)); err != nil {
		return fmt.Errorf("list Pods: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		there[pod.UID] = true
		if err := k.attend(ctx, pod); err != nil {
			return fmt.Errorf("run Pod %s: %w", pod.Name, err)
		}
	}
	k.sweep(func(uid types.UID) bool { return there[uid] })
	return nil
}

// sweep ends the processes of Pods that are gone.
func (k *kubelet) sweep(stays func(types.UID) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, p := range k.pods {
		if stays(uid) {
			continue
		}
		if _, err := p.Stop(time.Minute); err != nil {
			fmt.Fprintln(&k.logs, err)
		}
		k.logs.WriteString(p.Log())
		delete(k.pods, uid)
	}
}

// log is all that the processes have printed.
func (k *kubelet) log() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := k.logs.String()
	for _, p := range k.pods {
		text += p.Log()
	}
	return text
}

func (k *kubelet) attend(ctx context.Context, pod *corev1.Pod) error {
	p := k.process(pod.UID)
	if p == nil {
		options, err := k.container(ctx, pod)
		if err != nil {
			return err
		}
		if p, err = operator.Start(options); err != nil {
			return err
		}
		k.mu.Lock()
		k.pods[pod.UID] = p
		k.mu.Unlock()
	}
	ready := corev1.ConditionFalse
	if p.Ready(ctx) == nil {
		ready = corev1.ConditionTrue
	}
	return k.report(ctx, pod, ready)
}

// process is that of a Pod; nil if it does not run, or no longer: it is started again.
func (k *kubelet) process(uid types.UID) *operator.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[uid]
	if p == nil {
		return nil
	}
	select {
	case <-p.Done():
		k.logs.WriteString(p.Log())
		delete(k.pods, uid)
		return nil
	default:
		return p
	}
}

// report writes what the kubelet of a node would.
func (k *kubelet) report(ctx context.Context, pod *corev1.Pod, ready corev1.ConditionStatus) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == ready {
			return nil
		}
	}
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
	return client.IgnoreNotFound(k.Status().Patch(ctx, pod, client.MergeFrom(before)))
}

// container is how the container of a Pod is run here.
func (k *kubelet) container(ctx context.Context, pod *corev1.Pod) (operator.Options, error) {
	c := pod.Spec.Containers[0]
	if images, err := os.ReadFile(k.images); err != nil || !strings.Contains(string(images), c.Image+"\n") {
		return operator.Options{}, errors.Join(fmt.Errorf("the image %s was not loaded, but %q", c.Image, images), err)
	}
	dir := filepath.Join(k.dir, string(pod.UID))
	kubeconfig, err := k.account(ctx, pod, dir)
	if err != nil {
		return operator.Options{}, err
	}
	o := operator.Options{Binary: k.binary, Kubeconfig: kubeconfig}
	for _, a := range c.Args[1:] { // the first is the command, which operator.Start gives
		if strings.HasPrefix(a, "--metrics-address=") || strings.HasPrefix(a, "--health-address=") {
			continue // two Pods of one machine cannot have the same ports
		}
		for _, m := range c.VolumeMounts {
			a = strings.ReplaceAll(a, "="+m.MountPath+"/", "="+filepath.Join(dir, m.Name)+"/")
		}
		o.Args = append(o.Args, a)
	}
	o.Args = append(o.Args, k.args...)
	for _, e := range c.Env {
		o.Env = append(o.Env, e.Name+"="+e.Value)
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		var s corev1.Secret
		if err := k.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: v.Secret.SecretName}, &s); err != nil {
			return operator.Options{}, fmt.Errorf("mount volume %s: %w", v.Name, err)
		}
		for _, item := range v.Secret.Items {
			if err := write(filepath.Join(dir, v.Name, item.Path), s.Data[item.Key]); err != nil {
				return operator.Options{}, fmt.Errorf("mount volume %s: %w", v.Name, err)
			}
		}
	}
	return o, nil
}

// account writes a kubeconfig with a token of the Pod's ServiceAccount.
func (k *kubelet) account(ctx context.Context, pod *corev1.Pod, dir string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	var token authenticationv1.TokenRequest
	if err := k.SubResource("token").Create(ctx, account, &token); err != nil {
		return "", fmt.Errorf("get a token: %w", err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: k.config.Host, CertificateAuthorityData: k.config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	raw, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubeconfig")
	return path, write(path, raw)
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
