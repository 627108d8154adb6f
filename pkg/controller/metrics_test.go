package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/giantswarm/microerror"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestMetrics(t *testing.T) {
	created := metav1.NewTime(time.Unix(1000, 0))
	b := newBed(t, service(finalizers(theFinalizer), func(s *corev1.Service) { s.CreationTimestamp = created }),
		func(_ *bed, cfg *Config[*corev1.Service]) { cfg.Finalizers = []string{"x/old"} })
	want := map[string]float64{
		"errors_total{test}": 0, "keysmith_controller_paused_deletions{test}": 0, "keysmith_controller_event_latency_seconds{test}": 0,
	}
	if diff := cmp.Diff(want, b.metrics(t)); diff != "" {
		t.Errorf("at start: %s", diff)
	}

	b.update(t, finalizers("x/y"))
	b.mustPass(t)
	if err := b.client.Delete(t.Context(), service()); err != nil {
		t.Fatal(err)
	}
	b.mustPass(t)
	got := b.metrics(t)
	for _, name := range []string{"last_reconciled{test}", "keysmith_controller_heartbeat_timestamp_seconds{test}"} {
		if got[name] == 0 {
			t.Errorf("it tells no %s", name)
		}
		delete(got, name)
	}
	want["creation_timestamp{test,Service,svc,ns}"] = 1000
	want["deletion_timestamp{test,Service,svc,ns}"] = float64(b.object(t).DeletionTimestamp.Unix())
	want["event{update}"], want["event{delete}"] = 1, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of a deleted object: %s", diff)
	}

	b.update(t, func(s *corev1.Service) { s.Finalizers = nil })
	b.mustPass(t)
	for name := range b.metrics(t) {
		if strings.Contains(name, "svc") {
			t.Errorf("of an object that is gone: got %s", name)
		}
	}
	if len(b.controller.records) > 0 {
		t.Error("the controller still remembers the object")
	}
}

func TestPausedDeletionForced(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer), annotated(pauseKey, "true"), deleted), nil)
	b.mustPass(t)
	b.update(t, func(s *corev1.Service) { s.Finalizers = nil })
	b.mustPass(t)
	if n := b.metrics(t)["keysmith_controller_paused_deletions{test}"]; n != 0 {
		t.Errorf("it is not counted when it is gone: got %g", n)
	}
}

// However many objects there are, and whatever becomes of them, only the two time stamps of each grow with them.
func TestMetricsDoNotGrow(t *testing.T) {
	series := func(t *testing.T, objects int) (names []string) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, nil, func(b *bed, cfg *Config[*corev1.Service]) {
				cfg.Client, cfg.Recorder = crowd{cfg.Client}, nil
				failing := resource.Adapt(failing{}, resource.Object[*corev1.Service])
				cfg.Resources = resource.Wrap([]resource.Interface{failing}, middleware.NewMetrics(b.registry, nil).Middleware(theName))
			})
			runQueue(t, b, 2*time.Second, crowdOf(objects)...)
			stamps := 0
			for name := range b.metrics(t) {
				if strings.HasPrefix(name, "creation_timestamp{") || strings.HasPrefix(name, "deletion_timestamp{") {
					stamps++
					continue
				}
				names = append(names, name)
			}
			if stamps != objects {
				t.Errorf("time stamps of %d objects: got %d", objects, stamps)
			}
		})
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff(series(t, 10), series(t, 2000)); diff != "" {
		t.Errorf("series of 10 objects and of 2,000: %s", diff)
	}
}

// failing fails in every way, with a text that differs from object to object and from pass to pass.
type failing struct{}

func (failing) EnsureCreated(_ context.Context, s *corev1.Service) error {
	text := s.Name + " at " + time.Now().String()
	var n int
	if _, err := fmt.Sscanf(s.Name, "svc-%d", &n); err != nil {
		return err
	}
	switch n % 5 {
	case 0:
		panic(text)
	case 1:
		return reconcile.TerminalError(errors.New(text))
	case 2:
		return resource.RequeueAfter(time.Second, "wait for %s", text)
	case 3:
		return &microerror.Error{Kind: text, Desc: text}
	default:
		return errors.New(text)
	}
}

func (f failing) EnsureDeleted(ctx context.Context, s *corev1.Service) error {
	return f.EnsureCreated(ctx, s)
}

func (failing) Name() string { return "failing" }
