// Package plan finds out what the operator would do, without doing it.
//
// It makes the very passes that the operator makes, with its controllers and its janitor, on a client of the API server and one of the Aiven
// API that keep to themselves what is written (Client and Services). What was written is what is read from then on, so that a pass meets what the one before
// it would have left. What the passes wrote, and the status that they would have reported, make the Report.
package plan

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/service/controller"
)

// Plan is one look at what would be done. It is made by New and run once.
type Plan struct {
	cluster *cluster
	server  *server
	aiven   *services
	record  *record
}

// New returns a plan of a cluster. The client reads from a cache with these indexes, by their fields, and server from the API server itself. Neither is
// written to, nor is the Aiven API.
func New(c client.Client, api client.Reader, aiven Reader, indexes map[string]client.IndexerFunc) *Plan {
	r := &record{subjects: map[id]*Subject{}, objects: map[id]client.Object{}, deleted: map[id]bool{}, indexes: indexes}
	s := &server{Reader: api, record: r}
	return &Plan{
		cluster: &cluster{Client: c, server: s, record: r}, server: s,
		aiven: &services{Reader: aiven, record: r}, record: r,
	}
}

// Client is what the controllers read and write the cluster by.
func (p *Plan) Client() client.Client { return p.cluster }

// Server is what they read from the API server itself by.
func (p *Plan) Server() client.Reader { return p.server }

// Services is what they read and change Aiven by.
func (p *Plan) Services() controller.Services { return p.aiven }

// Events is what they send events by.
func (p *Plan) Events() events.EventRecorder { return recorder{p.record} }

// Pass is one pass over an object, as a controller makes it.
type Pass[T client.Object] interface {
	Reconcile(ctx context.Context, obj T) (reconcile.Result, error)
}

// Sweep is one round of the janitor.
type Sweep interface {
	EnsureCreated(ctx context.Context, obj any) error
}

// Run makes the passes of the operator's first minutes, so many at a time: over the Secrets, of which those that are being deleted go; over the
// applications; a round of the janitor; and over what was deleted meanwhile. It fails if the cluster cannot be read; what fails for
// one object is in the report.
func (p *Plan) Run(
	ctx context.Context, applications Pass[*v1.AivenApplication], secrets Pass[*corev1.Secret], janitor Sweep, workers int,
) (*Report, error) {
	ctx = log.IntoContext(ctx, logr.Discard()) // it would tell of changes that are not made
	var secretList corev1.SecretList
	if err := p.cluster.List(ctx, &secretList, client.MatchingLabels{key.LabelType: key.TypeAivenator}); err != nil {
		return nil, fmt.Errorf("list managed Secrets: %w", err)
	}
	var appList v1.AivenApplicationList
	if err := p.cluster.List(ctx, &appList); err != nil {
		return nil, fmt.Errorf("list applications: %w", err)
	}
	pass(ctx, p.record, pointers(secretList.Items), secrets, workers)
	pass(ctx, p.record, pointers(appList.Items), applications, workers)
	pass(ctx, p.record, deleted[*v1.AivenApplication](p.record), applications, workers)
	if err := janitor.EnsureCreated(because(ctx, "no application asks for it and no workload refers to it"), nil); err != nil {
		return nil, fmt.Errorf("judge the Secrets: %w", err)
	}
	pass(ctx, p.record, deleted[*corev1.Secret](p.record), secrets, workers)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.record.report(appList.Items), nil
}

// deleted are the objects of a type that the passes so far have deleted and that are not gone.
func deleted[T client.Object](r *record) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []T
	for at, obj := range r.objects {
		if o, ok := obj.(T); ok && r.deleted[at] {
			out = append(out, o.DeepCopyObject().(T))
		}
	}
	return out
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// pass makes one pass over each object.
func pass[T client.Object](ctx context.Context, r *record, objects []T, by Pass[T], workers int) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, workers)
	for _, obj := range objects {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			subject := r.subject(idOf(obj))
			_, err := by.Reconcile(of(ctx, subject), obj.DeepCopyObject().(T))
			r.mu.Lock()
			defer r.mu.Unlock()
			subject.err = err
		})
	}
	wg.Wait()
}

// origin is who writes.
type origin struct {
	subject *Subject // nil: whom the object belongs to that is written
	why     string   // of a deletion
}

type originKey struct{}

func of(ctx context.Context, s *Subject) context.Context {
	return context.WithValue(ctx, originKey{}, origin{subject: s})
}

func because(ctx context.Context, why string) context.Context {
	return context.WithValue(ctx, originKey{}, origin{why: why})
}

func originOf(ctx context.Context) origin {
	o, _ := ctx.Value(originKey{}).(origin)
	return o
}

// record is what was written, by whom.
type record struct {
	indexes map[string]client.IndexerFunc

	mu       sync.Mutex
	subjects map[id]*Subject
	objects  map[id]client.Object // as they would be by now; nil: gone
	deleted  map[id]bool          // by a pass
}

func (r *record) subject(at id) *Subject {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.subjectLocked(at)
}

func (r *record) subjectLocked(at id) *Subject {
	s, ok := r.subjects[at]
	if !ok {
		s = &Subject{Namespace: at.Namespace, Name: at.Name}
		r.subjects[at] = s
	}
	return s
}

// add notes a step of whoever the context says, or else of the object.
func (r *record) add(ctx context.Context, at id, steps ...Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := originOf(ctx).subject
	if s == nil {
		s = r.subjectLocked(at)
	}
	s.Steps = append(s.Steps, steps...)
}

// recorder notes the warnings among the events, which say what nothing else does.
type recorder struct{ *record }

// Eventf takes an event about an object.
func (r recorder) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	obj, ok := regarding.(client.Object)
	if !ok || kind != corev1.EventTypeWarning {
		return
	}
	step := Step{Action: Warn, Kind: kindOf(obj), Name: obj.GetName(), Reason: reason, Message: fmt.Sprintf(note, args...)}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.subjectLocked(idOf(obj))
	if !slices.ContainsFunc(s.Steps, step.equal) {
		s.Steps = append(s.Steps, step)
	}
}
