package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// podsPerWorkload is how many Pods a Deployment stands beside.
	podsPerWorkload = 10
	// largeSecret is as much as an object of the API can hold, about.
	largeSecret = 1 << 20
	// makers are how many objects are made at the same time.
	makers = 32
)

// populate fills the cluster with what is there besides applications: Pods and Deployments that refer to Secrets of applications, and Secrets that are
// nobody's. Nothing runs: Pods wait for a scheduler that does not come, Deployments are paused.
func (b *bench) populate(ctx context.Context) error {
	if b.pods+b.secrets+b.largeSecrets == 0 {
		return nil
	}
	b.say("Making %d Pods, %d small Secrets of others and %d large ones.", b.pods, b.secrets, b.largeSecrets)
	return inParallel(func() error { return b.makePods(ctx) }, func() error { return b.makeSecrets(ctx) })
}

// home is the namespace of the object of a number.
func (b *bench) home(i int) string { return b.in[i%len(b.in)] }

func (b *bench) makePods(ctx context.Context) error {
	return many(ctx, b.pods, func(i int) error {
		if n := i / podsPerWorkload; i%podsPerWorkload == 0 {
			if err := b.stage.Create(ctx, b.deployment(b.home(n), n)); err != nil {
				return fmt.Errorf("make a Deployment: %w", err)
			}
		}
		if err := b.stage.Create(ctx, b.pod(b.home(i), i)); err != nil {
			return fmt.Errorf("make a Pod: %w", err)
		}
		return nil
	})
}

func (b *bench) makeSecrets(ctx context.Context) error {
	return many(ctx, b.secrets+b.largeSecrets, func(i int) error {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.home(i), Name: fmt.Sprintf("foreign-%d", i)}, Data: map[string][]byte{"user": []byte("theirs")}}
		if i < b.largeSecrets {
			s.Data["release"] = bytes.Repeat([]byte("x"), largeSecret-1024)
		}
		if err := b.stage.Create(ctx, s); err != nil {
			return fmt.Errorf("make a Secret: %w", err)
		}
		return nil
	})
}

// many calls f for 0 to n-1, some at a time, and begins none after one has failed.
func many(ctx context.Context, n int, f func(i int) error) error {
	g, going := errgroup.WithContext(ctx)
	g.SetLimit(makers)
	for i := 0; i < n && going.Err() == nil; i++ {
		g.Go(func() error { return f(i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// inParallel calls all functions at the same time and returns the first error.
func inParallel(fs ...func() error) error {
	var g errgroup.Group
	for _, f := range fs {
		g.Go(f)
	}
	return g.Wait()
}

// spec is that of a Pod as applications have it, which refers to the Secrets of one.
func (b *bench) spec(i int) corev1.PodSpec {
	app := name(i % max(b.applications, 1))
	c := corev1.Container{Name: "main", Image: "example.com/shop/cart:1.2.3", EnvFrom: []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: app + "-valkey"}}},
	}, VolumeMounts: []corev1.VolumeMount{{Name: "kafka", MountPath: "/var/run/kafka"}}}
	for n := range 15 {
		c.Env = append(c.Env, corev1.EnvVar{Name: "SETTING_" + strconv.Itoa(n), Value: "a value of some length, as they are"})
	}
	return corev1.PodSpec{Containers: []corev1.Container{c, {Name: "sidecar", Image: "example.com/mesh/proxy:3.2.1"}}, Volumes: []corev1.Volume{
		{Name: "kafka", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: app + "-kafka"}}},
	}}
}

func (b *bench) pod(namespace string, i int) client.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"app": name(i)}},
		Spec:       b.spec(i),
	}
}

func (b *bench) deployment(namespace string, i int) client.Object {
	labels := map[string]string{"deployment": strconv.Itoa(i)}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("work-%d", i)}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: b.spec(i)},
	}}
}
