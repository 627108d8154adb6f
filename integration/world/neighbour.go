package world

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Neighbour is a world with the same simulated Aiven and another namespace, whose name is that of this world's and "-" and the suffix. It can have an
// operator of its own, as another cluster has, or be served by this world's: w.Start("--namespaces=" + neighbour.Namespace).
func (w *World) Neighbour(t testing.TB, suffix string) *World {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace + "-" + suffix}}
	if err := w.Create(t.Context(), ns); err != nil {
		t.Fatalf("create namespace %s: %v", ns.Name, err)
	}
	n := &World{Client: w.Client, Namespace: ns.Name, Sim: w.Sim, Kafka: w.Kafka, t: t, url: w.url}
	t.Cleanup(func() {
		w.leave() // its operator may work in the neighbour's namespace too
		n.leave()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.IgnoreNotFound(w.Delete(ctx, ns)); err != nil {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
	})
	return n
}
