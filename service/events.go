package service

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/keysmith-io/keysmith/pkg/project"
)

const (
	// eventTimeout is how long the API server has for one event.
	eventTimeout = 10 * time.Second
	// eventRest is how many times as long as one event took the next one waits, and longestRest how long at most.
	eventRest   = 4
	longestRest = time.Second
	// mostWaiting is how many events wait, each with 5 kB. What comes on top is sent at once.
	mostWaiting = 2000
)

// newEvents makes what records events. They are sent until end is called, those still in wait are dropped then.
func newEvents(config *rest.Config, c *http.Client, scheme *runtime.Scheme) (recorder events.EventRecorder, end func(), err error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	api, err := typedevents.NewForConfigAndClient(config, c)
	if err != nil {
		return nil, nil, fmt.Errorf("set up events: %w", err)
	}
	broadcaster := events.NewBroadcaster(newPatient(&events.EventSinkImpl{Interface: api}))
	ctx, cancel := context.WithCancel(context.Background())
	end = func() {
		cancel()
		broadcaster.Shutdown()
	}
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		end()
		return nil, nil, fmt.Errorf("set up events: %w", err)
	}
	return broadcaster.NewRecorder(scheme, project.Name), end, nil
}

// patient sends one new event after the other, with a rest between them that is longer the busier the API server is: it has at most a fifth of its time
// for events while Secrets are waited for. One that has nothing else to do gets some hundred events in a few seconds.
type patient struct {
	events.EventSink
	waiting, turn chan struct{}
}

func newPatient(next events.EventSink) *patient {
	return &patient{next, make(chan struct{}, mostWaiting), make(chan struct{}, 1)}
}

// Create sends an event when its turn has come.
func (p *patient) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	select {
	case p.waiting <- struct{}{}:
		defer func() { <-p.waiting }()
	default:
		return p.send(ctx, e)
	}
	select {
	case <-ctx.Done():
		return e, nil // nobody can be told any more
	case p.turn <- struct{}{}:
	}
	began := time.Now()
	defer func() {
		time.AfterFunc(min(eventRest*time.Since(began), longestRest), func() { <-p.turn })
	}()
	return p.send(ctx, e)
}

// send sends an event, even at the end, where it was on its way. In a namespace that is going away, or gone, nobody can be told: that is no error, of
// which the log would have a line for each event.
func (p *patient) send(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventTimeout)
	defer cancel()
	sent, err := p.EventSink.Create(ctx, e)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return e, nil
	}
	return sent, err
}
