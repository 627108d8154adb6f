package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/service/controller"
)

// Action is what would become of something.
type Action string

// The actions.
const (
	Keep    Action = "keep"
	Create  Action = "create"
	Update  Action = "update"
	Delete  Action = "delete"
	Blocked Action = "blocked" // is not done, for a reason
	Paused  Action = "paused"  // is not looked at
	Warn    Action = "warn"    // somebody should know
)

// kindUser is what Step calls a service user; the other kinds are those of Kubernetes.
const kindUser = "user"

// Result is what would become of an object as a whole.
type Result string

// The results. What only the operator itself writes for itself is no change: its finalizer, the annotations keysmith.io/*, the status.
const (
	Unchanged Result = "unchanged"
	Changes   Result = "changes"
	NotReady  Result = "not ready" // whatever else would change
)

// Step is one thing that would be done, kept, or not be done.
type Step struct {
	Action Action `json:"action"`
	// Kind is "user", "Secret" or "AivenApplication".
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Service is "project/service" of a user.
	Service string `json:"service,omitempty"`
	// Changes names what would differ, such as "data KAFKA_BROKERS" or "label team"; never a value.
	Changes []string `json:"changes,omitempty"`
	// Reason is the word that condition or event would have; Message is for people.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func (s Step) equal(o Step) bool {
	return s.Action == o.Action && s.Kind == o.Kind && s.Name == o.Name && s.Service == o.Service &&
		slices.Equal(s.Changes, o.Changes) && s.Reason == o.Reason && s.Message == o.Message
}

// Subject is an object and all that would be done about it.
type Subject struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Result    Result `json:"result"`
	Steps     []Step `json:"steps"`

	err error // of its last pass
}

// Report is what the operator would do.
type Report struct {
	// Applications are all, by namespace and name.
	Applications []*Subject `json:"applications"`
	// Secrets are those about which something is to be said that is no application's affair, by namespace and name.
	Secrets []*Subject `json:"secrets"`
	Summary Summary    `json:"summary"`
}

// Summary counts what is in a Report.
type Summary struct {
	Applications map[Result]int `json:"applications"`
	Users        map[Action]int `json:"users"`
	Secrets      map[Action]int `json:"secrets"`
}

// Quiet tells whether nothing would change, and every application would be ready.
func (r *Report) Quiet() bool {
	return !slices.ContainsFunc(slices.Concat(r.Applications, r.Secrets), func(s *Subject) bool { return s.Result != Unchanged })
}

// report makes the report of what was recorded about these applications, and about Secrets.
func (r *record) report(apps []v1.AivenApplication) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &Report{Applications: []*Subject{}, Secrets: []*Subject{}}
	for i := range apps {
		app, at := &apps[i], idOf(&apps[i])
		if is, ok := r.objects[at]; ok {
			app, _ = is.(*v1.AivenApplication) // nil if it would be gone
		}
		subject := r.subjectLocked(at)
		subject.addStatus(app)
		subject.finish(kindApplication)
		out.Applications = append(out.Applications, subject)
	}
	for at, subject := range r.subjects {
		if at.kind == kindSecret && (len(subject.Steps) > 0 || subject.err != nil) {
			subject.finish(kindSecret)
			out.Secrets = append(out.Secrets, subject)
		}
	}
	for _, subjects := range [][]*Subject{out.Applications, out.Secrets} {
		slices.SortFunc(subjects, func(a, b *Subject) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	out.summarize()
	return out
}

// addStatus adds what the application's status would say: what stays, and what is not done and why.
func (s *Subject) addStatus(app *v1.AivenApplication) {
	if app == nil {
		return
	}
	keep := func(step Step) {
		if !slices.ContainsFunc(s.Steps, func(o Step) bool { return o.Kind == step.Kind && o.Name == step.Name && o.Service == step.Service }) {
			s.Steps = append(s.Steps, step)
		}
	}
	blocked := false
	for _, b := range app.Status.Bindings {
		switch {
		case b.State == controller.StateReady, b.State == controller.StateRetained:
			keep(Step{Action: Keep, Kind: kindUser, Name: b.Username, Service: b.Project + "/" + b.Service})
			keep(Step{Action: Keep, Kind: kindSecret, Name: b.SecretName})
		case b.Reason != "":
			blocked = true
			s.Steps = append(s.Steps, Step{Action: Blocked, Kind: kindSecret, Name: b.SecretName, Reason: b.Reason, Message: b.Message})
		}
	}
	for _, c := range app.Status.Conditions {
		switch {
		case c.Type == v1.ConditionPaused && c.Status == corev1.ConditionTrue:
			s.Steps = []Step{{Action: Paused, Kind: kindApplication, Name: s.Name}}
			s.err = nil
			return
		case c.Type == v1.ConditionReady && c.Status != corev1.ConditionTrue && !blocked:
			blocked = true
			s.Steps = append(s.Steps, Step{Action: Blocked, Kind: kindApplication, Name: s.Name, Reason: c.Reason, Message: c.Message})
		}
	}
	if blocked {
		s.err = nil // it is what the status says
	}
}

// finish brings the steps in order and tells what becomes of the whole.
func (s *Subject) finish(kind string) {
	if s.err != nil {
		s.Steps = append(s.Steps, Step{Action: Blocked, Kind: kind, Name: s.Name, Message: strings.Join(strings.Fields(s.err.Error()), " ")})
	}
	all := slices.Clone(s.Steps)
	s.Steps = slices.DeleteFunc(s.Steps, func(step Step) bool { // what is blocked is an event too, and rights go with their user
		return slices.ContainsFunc(all, func(o Step) bool {
			return step.Action == Warn && o.Action == Blocked && o.Reason == step.Reason ||
				step.Action == Update && o.Action == Delete && o.Kind == step.Kind && o.Name == step.Name && o.Service == step.Service
		})
	})
	slices.SortFunc(s.Steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Action, b.Action), slices.Compare(a.Changes, b.Changes), cmp.Compare(a.Message, b.Message))
	})
	s.Steps = slices.CompactFunc(s.Steps, Step.equal)
	s.Result = Unchanged
	for _, step := range s.Steps {
		switch step.Action {
		case Blocked:
			s.Result = NotReady
			return
		case Create, Update, Delete:
			s.Result = Changes
		case Keep, Paused, Warn:
		}
	}
}

// rank orders the kinds of a subject's steps: the whole, who logs in, where it stands.
func rank(kind string) int {
	return slices.Index([]string{kindApplication, kindUser, kindSecret}, kind)
}

func (r *Report) summarize() {
	r.Summary = Summary{Applications: map[Result]int{}, Users: map[Action]int{}, Secrets: map[Action]int{}}
	for _, s := range r.Applications {
		r.Summary.Applications[s.Result]++
	}
	for _, s := range slices.Concat(r.Applications, r.Secrets) {
		seen := map[[3]string]bool{} // a user with several changes is one
		for _, step := range s.Steps {
			once := [3]string{step.Kind, step.Service + " " + step.Name, string(step.Action)}
			if seen[once] {
				continue
			}
			seen[once] = true
			switch step.Kind {
			case kindUser:
				r.Summary.Users[step.Action]++
			case kindSecret:
				r.Summary.Secrets[step.Action]++
			}
		}
	}
}

// differences names what differs between an object before and after; of a new one, whose before is nil, the data alone. What the operator keeps on its
// objects for itself is left out: finalizers, and the annotations of its own domain. A label or an annotation that is empty might as well not be there.
func differences(before, after client.Object) []string {
	var names []string
	note := func(what string, changed []string) {
		for _, name := range changed {
			names = append(names, what+" "+name)
		}
	}
	if is, ok := after.(*corev1.Secret); ok {
		was, _ := before.(*corev1.Secret)
		if was == nil {
			was = &corev1.Secret{}
		}
		note("data", changedKeys(was.Data, is.Data, func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }))
	}
	if before == nil {
		return names
	}
	same := func(a, b string) bool { return a == b }
	note("label", changedKeys(before.GetLabels(), after.GetLabels(), same))
	annotations := changedKeys(before.GetAnnotations(), after.GetAnnotations(), same)
	note("annotation", slices.DeleteFunc(annotations, func(name string) bool {
		return name == key.AnnotationOwner || name == key.AnnotationStores
	}))
	return names
}

// changedKeys are the keys, sorted, whose values in both maps are not the same. What is missing has the zero value.
func changedKeys[V any](before, after map[string]V, same func(V, V) bool) []string {
	var keys []string
	for k, v := range before {
		if !same(v, after[k]) {
			keys = append(keys, k)
		}
	}
	for k, v := range after {
		if _, ok := before[k]; !ok && !same(before[k], v) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// JSON writes the report as one document.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Table writes the report as one line for each step, and a summary.
func (r *Report) Table(w io.Writer) error {
	var table bytes.Buffer
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tOBJECT\tACTION\tWHAT\tDETAIL")
	line := func(prefix string, s *Subject) {
		for _, step := range s.Steps {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.Namespace, prefix+s.Name, step.Action, step.what(), step.detail())
		}
		if len(s.Steps) == 0 {
			fmt.Fprintf(t, "%s\t%s\t%s\tnothing, as it asks for none\t\n", s.Namespace, prefix+s.Name, Keep)
		}
	}
	for _, s := range r.Applications {
		line("", s)
	}
	for _, s := range r.Secrets {
		line("secret/", s)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range bytes.Lines(table.Bytes()) {
		fmt.Fprintf(w, "%s\n", bytes.TrimRight(line, " \n"))
	}
	_, err := fmt.Fprintf(w, "\nApplications: %s.\nUsers: %s.\nSecrets: %s.\n",
		counts(r.Summary.Applications, Unchanged, Changes, NotReady),
		counts(r.Summary.Users, Keep, Create, Update, Delete),
		counts(r.Summary.Secrets, Keep, Create, Update, Delete, Blocked))
	return err
}

func counts[K ~string](of map[K]int, order ...K) string {
	parts := make([]string, len(order))
	for i, k := range order {
		parts[i] = fmt.Sprintf("%d %s", of[k], k)
	}
	return strings.Join(parts, ", ")
}

func (s Step) what() string {
	if s.Kind == kindUser {
		return fmt.Sprintf("user %s on %s", s.Name, s.Service)
	}
	return s.Kind + " " + s.Name
}

func (s Step) detail() string {
	parts := slices.DeleteFunc([]string{strings.Join(s.Changes, ", "), s.Reason, s.Message}, func(p string) bool { return p == "" })
	return strings.Join(parts, ": ")
}
