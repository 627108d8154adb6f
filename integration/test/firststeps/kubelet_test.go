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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/pod"
)

// kubelet stands in for that of a node: it runs the operator's Pods as processes of this machine, and tells when they are ready.
type kubelet struct {
	client.Client
	api       *clientcmdapi.Config
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
func (k *kubelet) container(ctx context.Context, p *corev1.Pod) (operator.Options, error) {
	image := p.Spec.Containers[0].Image
	if images, err := os.ReadFile(k.images); err != nil || !strings.Contains(string(images), image+"\n") {
		return operator.Options{}, errors.Join(fmt.Errorf("the image %s was not loaded, but %q", image, images), err)
	}
	o, err := pod.Options(ctx, k.Client, k.api, k.namespace, &p.Spec, filepath.Join(k.dir, string(p.UID)))
	o.Binary, o.Args = k.binary, append(o.Args, k.args...)
	return o, err
}
