package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/stage"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// provision makes all applications at once and waits until they are Ready.
func (b *bench) provision(ctx context.Context) error {
	before, err := b.sample(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := b.whileItRuns(ctx)
	defer cancel()
	began := time.Now()
	made := make(chan error, 1)
	go func() { made <- b.each(func(i int, namespace string) error { return b.create(ctx, i, namespace) }) }()
	times, err := b.ready(ctx, began, made)
	if err != nil {
		return fmt.Errorf("wait until all applications are Ready: %w", err)
	}
	after, err := b.settle(ctx, before.passes+b.applications)
	if err != nil {
		return err
	}
	p := newPhase("provision", times[len(times)-1], b.applications, before, after, peakMemory(b.operator.PID()))
	p.Ready = quantilesOf(times)
	b.phases = append(b.phases, p)
	return nil
}

func name(i int) string { return fmt.Sprintf("app-%04d", i) }

func (b *bench) create(ctx context.Context, i int, namespace string) error {
	app := &v1.AivenApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i)},
		Spec: v1.AivenApplicationSpec{
			Kafka: &v1.Kafka{
				Pool: project, SecretName: name(i) + "-kafka",
				ACL: []v1.KafkaACL{{Topic: "orders", Access: v1.AccessRead}},
			},
			OpenSearch: &v1.OpenSearch{Instance: instance, Access: v1.AccessReadWrite, SecretName: name(i) + "-opensearch"},
			Valkey:     []v1.Valkey{{Instance: instance, Access: v1.AccessReadWrite, SecretName: name(i) + "-valkey"}},
		},
	}
	if err := b.stage.Create(ctx, app); err != nil {
		return fmt.Errorf("create application %s: %w", app.Name, err)
	}
	return nil
}

// ready returns how long after the beginning each application became Ready. What made receives, once, ends the wait if it is an error.
func (b *bench) ready(ctx context.Context, began time.Time, made <-chan error) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not so after %s", patience))
	defer cancel()
	found := make(chan *v1.AivenApplication)
	failed := make(chan error, 1)
	go func() { failed <- b.watch(ctx, found) }()
	seen := map[types.UID]bool{}
	var times []time.Duration
	for len(times) < b.applications {
		select {
		case err := <-failed:
			return nil, fmt.Errorf("%w: %d of %d are", cmp.Or(context.Cause(ctx), err), len(times), b.applications)
		case err := <-made:
			if err != nil {
				return nil, err
			}
			b.say("%6.2fs  all applications are made", time.Since(began).Seconds())
			made = nil
		case app := <-found:
			if seen[app.UID] || !isReady(app) {
				continue
			}
			seen[app.UID] = true
			times = append(times, time.Since(began))
			if n := len(times); n*10/b.applications > (n-1)*10/b.applications {
				b.say("%6.2fs  %d of %d are Ready", times[n-1].Seconds(), n, b.applications)
			}
		}
	}
	return times, nil
}

// watch hands on each state of our applications until ctx ends. A lost watch is taken up again.
func (b *bench) watch(ctx context.Context, found chan<- *v1.AivenApplication) error {
	send := func(app *v1.AivenApplication) {
		if !slices.Contains(b.in, app.Namespace) {
			return
		}
		select {
		case found <- app:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		var list v1.AivenApplicationList
		if err := b.stage.List(ctx, &list); err != nil {
			return fmt.Errorf("list applications: %w", err)
		}
		for i := range list.Items {
			send(&list.Items[i])
		}
		changes, err := b.stage.Watch(ctx, &v1.AivenApplicationList{}, &client.ListOptions{
			Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
		})
		if err != nil {
			return fmt.Errorf("watch applications: %w", err)
		}
		for change := range changes.ResultChan() {
			if app, ok := change.Object.(*v1.AivenApplication); ok {
				send(app)
			}
		}
		changes.Stop()
	}
	return context.Cause(ctx)
}

func isReady(app *v1.AivenApplication) bool {
	for _, c := range app.Status.Conditions {
		if c.Type == v1.ConditionReady {
			return c.Status == corev1.ConditionTrue && app.Status.ObservedGeneration == app.Generation
		}
	}
	return false
}

// settle waits until the operator has made so many passes and has nothing left to do, and returns what it has counted.
func (b *bench) settle(ctx context.Context, passes int) (sample, error) {
	ctx, cancel := b.whileItRuns(ctx)
	defer cancel()
	var last, s sample
	err := stage.Await(ctx, patience, func(ctx context.Context) (err error) {
		last = s
		if s, err = b.sample(ctx); err != nil {
			return err
		}
		// Events are sent in the background.
		if s.passes < passes || !s.idle || !s.isQuietSince(last) {
			return fmt.Errorf("the operator has made %d of %d passes; it is idle: %t", s.passes, passes, s.idle)
		}
		return nil
	})
	return s, err
}

// unchanged has the operator look at every application while there is nothing to do.
func (b *bench) unchanged(ctx context.Context) error {
	before, err := b.sample(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = b.each(func(i int, namespace string) error {
		app := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i)}}
		touch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"true"}}}`))
		if err := b.stage.Patch(ctx, app, touch); err != nil {
			return fmt.Errorf("touch application %s: %w", app.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.withoutWrites(ctx, "unchanged", began, before)
}

// restart ends the operator and starts another one, which looks at every application.
func (b *bench) restart(ctx context.Context) error {
	status, err := b.operator.Stop(stopTime)
	if err != nil {
		return err
	}
	if status != 0 {
		return fmt.Errorf("stop the operator: exit status %d", status)
	}
	before, err := b.sampleAiven(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.start(); err != nil {
		return err
	}
	return b.withoutWrites(ctx, "restart", began, before)
}

// withoutWrites waits until every application has been looked at, and checks that this wrote nothing.
func (b *bench) withoutWrites(ctx context.Context, name string, began time.Time, before sample) error {
	versions, err := b.versions(ctx)
	if err != nil {
		return err
	}
	after, err := b.settle(ctx, before.passes+b.applications)
	if err != nil {
		return err
	}
	p := newPhase(name, time.Since(began), b.applications, before, after, peakMemory(b.operator.PID()))
	b.phases = append(b.phases, p)
	now, err := b.versions(ctx)
	if err != nil {
		return err
	}
	if p.Kubernetes.Writes != 0 || p.Aiven.Writes != 0 || !maps.Equal(versions, now) {
		return fmt.Errorf("%s: expected no write, found %d to Kubernetes and %d to Aiven; Secrets and applications untouched: %t",
			name, p.Kubernetes.Writes, p.Aiven.Writes, maps.Equal(versions, now))
	}
	b.say("%6.2fs  %s: the operator has looked at all %d applications and has written nothing; %d Secrets and applications are untouched",
		p.Seconds, name, b.applications, len(now))
	return nil
}

// versions are the resourceVersions of all applications and Secrets, by UID.
func (b *bench) versions(ctx context.Context) (map[types.UID]string, error) {
	out := map[types.UID]string{}
	for _, namespace := range b.in {
		for _, list := range []client.ObjectList{&v1.AivenApplicationList{}, &corev1.SecretList{}} {
			if err := b.stage.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return nil, fmt.Errorf("list what the operator could have written: %w", err)
			}
			err := meta.EachListItem(list, func(item runtime.Object) error {
				obj, err := meta.Accessor(item)
				if err == nil {
					out[obj.GetUID()] = obj.GetResourceVersion()
				}
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("list what the operator could have written: %w", err)
			}
		}
	}
	return out, nil
}
