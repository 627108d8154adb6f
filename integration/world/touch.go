package world

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// Touch makes the operator look at an application n times, each after the one before has ended. Where nothing is to happen, look before
// and after.
func (w *World) Touch(name string, n int) {
	w.t.Helper()
	const annotation = "world.test/touched"
	for range n {
		before := w.passes(w.t.Context())
		w.Change(name, func(app *v1.AivenApplication) {
			if app.Annotations == nil {
				app.Annotations = map[string]string{}
			}
			last, _ := strconv.Atoi(app.Annotations[annotation]) // none yet: 0
			app.Annotations[annotation] = strconv.Itoa(last + 1)
		})
		w.Eventually(func(ctx context.Context) error {
			if is := w.passes(ctx); is <= before {
				return fmt.Errorf("%v passes over applications, no more than before", is)
			}
			return nil
		})
	}
}

// ChangeSecret edits a Secret, again if somebody else was faster.
func (w *World) ChangeSecret(name string, edit func(*corev1.Secret)) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error {
		s := &corev1.Secret{}
		if err := w.Get(ctx, w.Key(name), s); err != nil {
			return err
		}
		edit(s)
		return w.Update(ctx, s)
	})
}

// Restart ends the operator well and starts another one.
func (w *World) Restart(args ...string) {
	w.t.Helper()
	w.Stop()
	w.Start(args...)
}
