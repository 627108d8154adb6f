package world

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
)

// Passes waits until the operator has made n complete passes over applications that began after the call. It counts those over all
// applications of the world. Something has to cause them: a short --resync, or a failure.
func (w *World) Passes(n int) {
	w.t.Helper()
	before := w.passes(w.t.Context())
	// One pass may be running now, and of the last that is counted the status may not be stored yet.
	want := before + float64(n) + 2
	w.Eventually(func(ctx context.Context) error {
		if is := w.passes(ctx); is < want {
			return fmt.Errorf("%v passes of %v", is-before, want-before)
		}
		return nil
	})
}

func (w *World) passes(ctx context.Context) float64 {
	n, err := w.Operator.Metric(ctx, "aivenator_aiven_applications_processed")
	if err != nil {
		return 0 // before the first pass there is no such series
	}
	return n
}

// History records the versions that an application goes through from now on. The function that it returns ends that, and returns them in their order.
func (w *World) History(name string) func() []*v1.AivenApplication {
	w.t.Helper()
	watch, err := w.Client.(client.WithWatch).Watch(w.t.Context(), &v1.AivenApplicationList{},
		client.InNamespace(w.Namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		w.t.Fatalf("watch application %s: %v", name, err)
	}
	var (
		versions []*v1.AivenApplication
		wg       sync.WaitGroup
	)
	wg.Go(func() {
		for e := range watch.ResultChan() {
			if app, ok := e.Object.(*v1.AivenApplication); ok {
				versions = append(versions, app)
			}
		}
	})
	return func() []*v1.AivenApplication {
		watch.Stop()
		wg.Wait()
		return versions
	}
}

// Login fails the test unless the name and the password open the service.
func (w *World) Login(project string, s *aivensim.Service, username, password string) {
	w.t.Helper()
	if !w.Sim.Authenticate(project, s.Name(), username, password) {
		w.t.Errorf("user %q cannot log in to service %s of project %s", username, s.Name(), project)
	}
}
