package counting

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Service is a headless Service to be made. Tests of the status use Services, because they have one that nobody else writes.
func Service(name string, edit ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, f := range edit {
		f(s)
	}
	return s
}

// Services is the configuration of a controller of Services that reports the condition Ready. See Bed.Ready.
func Services(name string, slice ...resource.Interface) controller.Config[*corev1.Service] {
	return controller.Config[*corev1.Service]{Name: name, Resources: slice, Report: ready}
}

func ready(s *corev1.Service, results []resource.Result) {
	c := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Done", ObservedGeneration: s.Generation}
	for _, r := range results {
		if o := r.Outcome(); o != resource.Done {
			c.Status, c.Message = metav1.ConditionFalse, r.Err.Error()
			c.Reason = strings.ToUpper(string(o[:1])) + string(o[1:])
		}
	}
	meta.SetStatusCondition(&s.Status.Conditions, c)
}

// Ready waits until the condition Ready of a Service begins with want, in the form "True Done" or "False Failed: no power".
func (b *Bed) Ready(name, want string) {
	b.t.Helper()
	b.Eventually(func(ctx context.Context) error {
		s := Service(name)
		if err := b.Get(ctx, b.Key(name), s); err != nil {
			return err
		}
		got := "none"
		if c := meta.FindStatusCondition(s.Status.Conditions, "Ready"); c != nil {
			got = strings.TrimSuffix(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), ": ")
		}
		if !strings.HasPrefix(got, want) {
			return fmt.Errorf("Ready of %s is %q, want %q", name, got, want)
		}
		return nil
	})
}
