package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/command"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/resource/janitor"
)

// ErrIncomplete says that the explanation, though printed, lacks something: there is no such Secret and nobody asks for it, or a right was missing.
var ErrIncomplete = errors.New("not everything could be explained")

// Options say what is explained, and how.
type Options struct {
	Secret types.NamespacedName
	JSON   bool
	Now    time.Time
}

// Run reads what the person may see, and prints the explanation.
func Run(ctx context.Context, cluster client.Reader, o Options, out io.Writer) error {
	facts, err := read(ctx, cluster, o.Secret)
	if err != nil {
		return err
	}
	facts.Now = o.Now
	e := Explain(facts)
	if o.JSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(e)
	} else {
		_, err = io.WriteString(out, e.Text(o.Now))
	}
	switch {
	case err != nil:
		return fmt.Errorf("print: %w", err)
	case len(e.NotSeen) > 0:
		return fmt.Errorf("%w: %s", ErrIncomplete, e.NotSeen[0])
	case e.State == Absent && len(e.AskedForBy) == 0:
		return fmt.Errorf("%w: %s", ErrIncomplete, e.Outlook)
	}
	return nil
}

// read gathers the facts. What the person may not see is noted, and the rest is read all the same; any other failure ends it.
func read(ctx context.Context, cluster client.Reader, at types.NamespacedName) (Facts, error) {
	f := Facts{At: at}
	// seen tells whether something was read; where a right is missing it notes that.
	seen := func(what string, err error) (bool, error) {
		if err == nil {
			return true, nil
		}
		said := command.Say(err)
		if !apierrors.IsForbidden(err) {
			return false, fmt.Errorf("read %s: %w", what, said)
		}
		f.Missing = append(f.Missing, said.Error())
		return false, nil
	}
	s := &metav1.PartialObjectMetadata{}
	s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := cluster.Get(ctx, at, s)
	if !apierrors.IsNotFound(err) {
		ok, err := seen("Secret "+at.String(), err)
		if err != nil {
			return Facts{}, err
		}
		if f.Unseen = !ok; ok {
			f.Secret = &corev1.Secret{ObjectMeta: s.ObjectMeta}
		}
	}
	err = command.Each(ctx, cluster, &v1.AivenApplicationList{}, func(o client.Object) {
		if app, ok := o.(*v1.AivenApplication); ok {
			f.Apps = append(f.Apps, *app)
		}
	}, client.InNamespace(at.Namespace))
	if apierrors.IsNotFound(err) {
		return Facts{}, errors.New("this cluster does not know AivenApplications: is it the right one, and is keysmith installed?")
	}
	ok, err := seen("applications", err)
	if err != nil {
		return Facts{}, err
	}
	f.AppsMissing = !ok
	for kind, list := range janitor.Lists {
		err := command.Each(ctx, cluster, list, func(o client.Object) { f.uses(kind, o) }, client.InNamespace(at.Namespace))
		ok, err := seen(kind+"s", err)
		if err != nil {
			return Facts{}, err
		}
		f.UsesMissing = f.UsesMissing || !ok
	}
	return f, f.readEvents(ctx, cluster, seen)
}

// uses notes where a workload refers to the Secret.
func (f *Facts) uses(kind string, o client.Object) {
	var fields []string
	for _, r := range janitor.References(o) {
		if r.Secret == f.At.Name && !slices.Contains(fields, r.Field) {
			fields = append(fields, r.Field)
		}
	}
	if len(fields) > 0 {
		f.Uses = append(f.Uses, Use{Kind: kind, Name: o.GetName(), Fields: fields})
	}
}

// readEvents reads what was told about the Secret, and about the applications that ask for it. Events are read by the API that kubectl reads them by, which
// people have the right for.
func (f *Facts) readEvents(ctx context.Context, cluster client.Reader, seen func(string, error) (bool, error)) error {
	subjects := []struct{ kind, name string }{{"Secret", f.At.Name}}
	for i := range f.Apps {
		if slices.Contains(janitor.Index(&f.Apps[i]), f.At.Name) {
			subjects = append(subjects, struct{ kind, name string }{"AivenApplication", f.Apps[i].Name})
		}
	}
	for _, s := range subjects {
		err := command.Each(ctx, cluster, &corev1.EventList{}, func(o client.Object) {
			if e, ok := o.(*corev1.Event); ok {
				f.Events = append(f.Events, *e)
			}
		}, client.InNamespace(f.At.Namespace), client.MatchingFields{"involvedObject.kind": s.kind, "involvedObject.name": s.name})
		if ok, err := seen("events", err); err != nil || !ok {
			return err
		}
	}
	return nil
}
