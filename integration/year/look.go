package year

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// look reads what the API server has of some applications: one by one, or all of a namespace at once where there are many.
func (r *run) look(ctx context.Context, apps ...*application) ([]look, error) {
	out := make([]look, len(apps))
	for i, a := range apps {
		out[i] = look{app: a, secrets: map[string]*corev1.Secret{}}
	}
	if len(apps) > namespaces {
		return out, r.lookAll(ctx, out)
	}
	for i, a := range apps {
		is := &v1.AivenApplication{}
		switch err := r.stage.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: a.name}, is); {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("read application %s: %w", a, err)
		case err == nil:
			out[i].is = is
		}
		for _, name := range a.secrets() {
			s := &corev1.Secret{}
			switch err := r.stage.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, s); {
			case client.IgnoreNotFound(err) != nil:
				return nil, fmt.Errorf("read Secret %s/%s: %w", a.namespace, name, err)
			case err == nil:
				out[i].secrets[name] = s
			}
		}
	}
	return out, nil
}

// lookAll fills looks in from lists.
func (r *run) lookAll(ctx context.Context, looks []look) error {
	apps, secrets := make([]v1.AivenApplicationList, len(r.in)), make([]corev1.SecretList, len(r.in))
	group, ctx := errgroup.WithContext(ctx)
	for i, namespace := range r.in {
		for _, list := range []client.ObjectList{&apps[i], &secrets[i]} {
			group.Go(func() error {
				if err := r.stage.List(ctx, list, client.InNamespace(namespace)); err != nil {
					return fmt.Errorf("list what is in namespace %s: %w", namespace, err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range looks {
		k, n := &looks[i], slices.Index(r.in, looks[i].app.namespace)
		for j := range apps[n].Items {
			if a := &apps[n].Items[j]; a.Name == k.app.name {
				k.is = a
			}
		}
		for j := range secrets[n].Items {
			if s := &secrets[n].Items[j]; slices.Contains(k.app.secrets(), s.Name) {
				k.secrets[s.Name] = s
			}
		}
	}
	return nil
}

// living are the applications that have been made.
func (r *run) living() []*application {
	var out []*application
	for _, a := range r.apps {
		if slices.ContainsFunc(r.books.pods, func(p *pod) bool { return p.app == a }) {
			out = append(out, a)
		}
	}
	return out
}

// check looks at some applications, and at the moments at which users of theirs go: a second before, and then.
func (r *run) check(ctx context.Context, all bool, apps ...*application) ([]look, error) {
	r.books.now = r.works.Now()
	r.books.outage = r.outage || !r.books.outages.IsZero() && r.books.now.Before(r.books.outages.Add(recovery))
	looks, err := r.look(ctx, apps...)
	if err != nil {
		return nil, err
	}
	for _, k := range looks {
		before := len(r.books.violations)
		r.books.check(k, all)
		for _, v := range r.books.violations[before:] {
			r.note("VIOLATED: %s", v)
		}
		if k.is == nil {
			continue
		}
		for i := range k.is.Status.Bindings {
			if at := k.is.Status.Bindings[i].RetiresAt; at != nil && at.After(r.works.Now()) {
				r.watch(k.app, at.Time)
			}
		}
	}
	return looks, nil
}

// watch plans two looks at the applications of which users go at a moment.
func (r *run) watch(a *application, at time.Time) {
	at = at.UTC()
	if slices.Contains(r.watched[at], a) {
		return
	}
	if len(r.watched[at]) == 0 {
		for _, moment := range []time.Time{at.Add(-time.Second), at} {
			r.plan.add(moment, func(ctx context.Context) error {
				_, err := r.check(ctx, false, r.watched[at]...)
				return err
			})
		}
	}
	r.watched[at] = append(r.watched[at], a)
}

// checkAll looks at everything.
func (r *run) checkAll(ctx context.Context) error {
	looks, err := r.check(ctx, true, r.living()...)
	if err != nil {
		return err
	}
	before := len(r.books.violations)
	r.books.census(looks)
	for _, v := range r.books.violations[before:] {
		r.note("VIOLATED: %s", v)
	}
	r.books.Counts.Checks++
	return nil
}

// progress is the line at the end of each week.
func (r *run) progress(n int) {
	now, last := r.books.Counts, r.printed
	r.printed = now
	r.note("week %2d of %d is over: %d users replaced, %d certificates renewed; so far %d checks, %d logins, %d refused as announced, %d violations",
		n, r.Weeks, now.Rotations-last.Rotations, now.Renewals-last.Renewals, now.Checks, now.Logins, now.Refused, len(r.books.violations))
}

// end deletes all applications. Nothing may be left.
func (r *run) end(ctx context.Context) error {
	r.note("all applications are deleted")
	for _, a := range r.apps {
		obj := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.name}}
		if err := client.IgnoreNotFound(r.stage.Delete(ctx, obj)); err != nil {
			return fmt.Errorf("delete application %s: %w", a, err)
		}
	}
	for range 2 { // the janitor has a look, and another one after its time of grace
		if err := r.works.Settle(ctx); err != nil {
			return err
		}
		if err := r.works.AdvanceTo(ctx, r.works.Now().Add(day/2)); err != nil {
			return err
		}
	}
	if err := r.works.Settle(ctx); err != nil {
		return err
	}
	looks, err := r.look(ctx, r.apps...)
	if err != nil {
		return err
	}
	r.books.now, r.books.outage = r.works.Now(), false
	r.books.nothing(looks)
	return nil
}
