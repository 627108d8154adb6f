// Package explain says all that the cluster knows of one Secret: whose it is, who uses it, which users at Aiven it holds, what becomes of it and what it waits
// for. It judges with the janitor's own code.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/resource/janitor"
	keysmith "github.com/keysmith-io/keysmith/service/controller"
)

// Facts are what was read of the cluster, in the Secret's namespace.
type Facts struct {
	At  types.NamespacedName
	Now time.Time

	Secret *corev1.Secret // its metadata alone; nil: there is none, or it could not be seen
	Unseen bool           // whether there is a Secret could not be seen
	Apps   []v1.AivenApplication
	Uses   []Use
	Events []corev1.Event // about the Secret, and about the applications that ask for it

	AppsMissing bool     // applications could not be seen
	UsesMissing bool     // some kind of workload could not be seen
	Missing     []string // what could not be seen, and why: sentences
}

// State says whether there is a Secret.
type State string

// The states.
const (
	Present State = "Present"
	Leaving State = "BeingDeleted"
	Absent  State = "Absent"
	Unknown State = "Unknown" // nobody may look
)

// Explanation is the answer. Its JSON is for scripts.
type Explanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`

	Created      *time.Time `json:"created,omitempty"`
	DeletedSince *time.Time `json:"deletedSince,omitempty"`
	Owner        string     `json:"owner,omitempty"`   // the application that the Secret belongs to
	NotOurs      string     `json:"notOurs,omitempty"` // why it is nobody's

	AskedForBy []Request `json:"askedForBy"`
	UsedBy     []Use     `json:"usedBy"`
	Users      []User    `json:"users"`

	Verdict        janitor.Verdict `json:"verdict,omitempty"` // the janitor's; none where there is nothing to judge, or too little is known
	Outlook        string          `json:"outlook"`           // what becomes of it, in a sentence
	UnusedSince    *time.Time      `json:"unusedSince,omitempty"`
	Protected      bool            `json:"protected"`
	ProtectedUntil *time.Time      `json:"protectedUntil,omitempty"`
	WaitsFor       []string        `json:"waitsFor"`
	Events         []Event         `json:"events"`
	NotSeen        []string        `json:"notSeen,omitempty"`
}

// Request is an application that asks for the Secret.
type Request struct {
	Application string     `json:"application"`
	Owner       bool       `json:"owner"` // the Secret is this application's
	Services    []string   `json:"services"`
	Ready       string     `json:"ready"` // of the condition Ready: True, False or Unknown
	Reason      string     `json:"reason,omitempty"`
	Message     string     `json:"message,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	ExpiresAt   string     `json:"expiresAt,omitempty"` // when the application is deleted
	PausedBy    string     `json:"pausedBy,omitempty"`  // annotation
}

// Use is a workload that refers to the Secret.
type Use struct {
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Fields []string `json:"fields"` // of the pod spec
}

// User is a user at Aiven that the Secret holds, or that will be in it.
type User struct {
	Kind       string   `json:"kind"`
	Project    string   `json:"project"`
	Service    string   `json:"service,omitempty"`
	Username   string   `json:"username"`
	State      string   `json:"state,omitempty"` // as the application's status has it
	Reason     string   `json:"reason,omitempty"`
	Message    string   `json:"message,omitempty"`
	RecordedIn []string `json:"recordedIn"` // the Secret, applications
}

// Event is one of the latest events.
type Event struct {
	Last    time.Time `json:"last"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Object  string    `json:"object"`
	Message string    `json:"message"`
}

// latest is how many events are told.
const latest = 5

// Explain derives the answer, purely.
func Explain(f Facts) Explanation {
	e := Explanation{
		Namespace: f.At.Namespace, Name: f.At.Name, State: Absent,
		UsedBy: slices.Clone(f.Uses), Events: events(f.Events), NotSeen: f.Missing,
	}
	if f.Unseen {
		e.State = Unknown
	}
	s := f.Secret
	if s != nil {
		e.State = Present
		e.Created = &s.CreationTimestamp.Time
		if s.DeletionTimestamp != nil {
			e.State, e.DeletedSince = Leaving, &s.DeletionTimestamp.Time
		}
		if e.Owner = binding.Owner(s); e.Owner == "" {
			e.NotOurs = notOurs(s)
		}
	}
	e.request(f)
	e.Users = users(f)
	e.judge(f)
	e.wait(f)
	return e
}

// notOurs says why nothing proves that a Secret is an application's.
func notOurs(s *corev1.Secret) string {
	if s.Labels[key.LabelType] != key.TypeAivenator {
		return fmt.Sprintf("it lacks the label %s=%s", key.LabelType, key.TypeAivenator)
	}
	if owner, ok := s.Annotations[key.AnnotationOwner]; ok {
		original, application, _ := strings.Cut(owner, " ")
		return fmt.Sprintf("its annotation %s is that of Secret %s of application %s: it is a copy", key.AnnotationOwner, original, application)
	}
	return fmt.Sprintf("it has no annotation %s, and records no user that fits its label %s", key.AnnotationOwner, key.LabelApp)
}

// request lists the applications that ask for the Secret.
func (e *Explanation) request(f Facts) {
	e.AskedForBy = []Request{}
	for i := range f.Apps {
		app := &f.Apps[i]
		if !slices.Contains(janitor.Index(app), f.At.Name) {
			continue
		}
		r := Request{
			Application: app.Name, Owner: app.Name == e.Owner, Services: services(app, f.At.Name), Ready: string(metav1.ConditionUnknown),
			ExpiresAt: app.Spec.ExpiresAt, PausedBy: controller.PausedBy(app, nil),
		}
		for _, c := range app.Status.Conditions {
			if c.Type == v1.ConditionReady {
				r.Ready, r.Reason, r.Message, r.Since = string(c.Status), c.Reason, c.Message, &c.LastUpdateTime.Time
			}
		}
		e.AskedForBy = append(e.AskedForBy, r)
	}
	slices.SortFunc(e.AskedForBy, func(a, b Request) int { return cmp.Compare(a.Application, b.Application) })
}

// services says what an application wants in a Secret.
func services(app *v1.AivenApplication, secret string) []string {
	var out []string
	for _, set := range binding.FromApplication(app, binding.Settings{}) { // which pools are allowed is the operator's to say: its status does
		for _, b := range set.Bindings {
			switch {
			case set.Secret != secret:
			case b.Kind == binding.Kafka:
				out = append(out, "kafka of "+b.Ref.Project)
			default:
				out = append(out, fmt.Sprintf("%s %s (%s)", b.Kind, b.Instance, b.Access))
			}
		}
	}
	return out
}

// users lists whom the statuses of applications and the Secret's annotations record.
func users(f Facts) []User {
	list := []User{}
	add := func(where string, u User) {
		for i := range list {
			known := &list[i]
			if known.Kind == u.Kind && known.Username == u.Username && known.Project == u.Project {
				known.Service = cmp.Or(known.Service, u.Service)
				known.RecordedIn = append(known.RecordedIn, where)
				return
			}
		}
		u.RecordedIn = []string{where}
		list = append(list, u)
	}
	for _, app := range f.Apps {
		for _, r := range app.Status.Bindings {
			if r.SecretName == f.At.Name && r.Username != "" {
				add("application "+app.Name, User{
					Kind: r.Kind, Project: r.Project, Service: r.Service, Username: r.Username, State: r.State, Reason: r.Reason, Message: r.Message,
				})
			}
		}
	}
	if f.Secret != nil {
		for _, b := range binding.FromSecret(f.Secret) {
			add("Secret", User{Kind: string(b.Kind), Project: b.Ref.Project, Service: b.Ref.Service, Username: b.Username})
		}
	}
	return list
}

// judge asks the janitor, and says what its verdict means.
func (e *Explanation) judge(f Facts) {
	if f.Secret == nil {
		e.Outlook = e.outlookOfNothing(f)
		return
	}
	if f.Secret.Labels[key.LabelType] != key.TypeAivenator {
		e.Outlook = "keysmith leaves it alone"
		return
	}
	requested, unsure := false, false
	j, _ := janitor.Judge(f.Secret, func(owner string) (bool, error) {
		requested = slices.ContainsFunc(e.AskedForBy, func(r Request) bool { return r.Application == owner })
		used := requested || len(f.Uses) > 0
		unsure = !used && (f.AppsMissing || f.UsesMissing)
		return used, nil
	}, f.Now)
	e.Protected, e.ProtectedUntil = j.Protected, j.Expires
	if unsure {
		e.Outlook = "what becomes of it cannot be told, as not everything that may use it can be seen"
		return
	}
	e.Verdict = j.Verdict
	switch j.Verdict {
	case janitor.InUse:
		e.Outlook = "it stays: application " + j.Owner + " asks for it"
		if !requested {
			e.Outlook = "it stays as long as a workload refers to it: its application " + j.Owner + " no longer asks for it"
		}
	case janitor.Protected:
		e.Outlook = "nobody uses it, and it stays, because it is protected: delete it by hand when it is no longer needed"
		if j.Unreadable != nil {
			e.Outlook = "nobody uses it, and it stays: " + j.Unreadable.Error()
		}
	case janitor.NotExpired:
		e.Outlook = "nobody uses it, and it stays until " + stamp(*j.Expires) + ", because it is protected until then"
	case janitor.Unused:
		e.Outlook = "it goes: no application asks for it and no workload refers to it; the janitor deletes it once that has been so for its grace, a minute by default"
		e.UnusedSince = unusedSince(f)
	case janitor.NotOwned:
		e.Outlook = "keysmith leaves it alone"
	case janitor.Leaving:
		e.Outlook = "it goes as soon as its users are gone from Aiven"
		if e.Owner == "" {
			e.Outlook = "it goes; whom it records at Aiven is left alone"
		}
		if len(e.AskedForBy) > 0 {
			e.Outlook += ", and another one follows"
		}
	}
}

func (e *Explanation) outlookOfNothing(f Facts) string {
	switch {
	case f.Unseen:
		return "what becomes of it cannot be told without seeing it"
	case len(e.AskedForBy) > 0:
		return "it will be made: an application asks for it"
	case f.AppsMissing:
		return "there is no such Secret, and whether an application asks for one cannot be seen"
	default:
		return "there is no such Secret, and no application of the namespace asks for one of this name"
	}
}

// unusedSince is when the janitor last found the Secret unused for the first time, as an event tells.
func unusedSince(f Facts) *time.Time {
	var since *time.Time
	for _, e := range f.Events {
		if e.Reason == janitor.ReasonUnused && e.Action == janitor.ActionJudge && e.InvolvedObject.UID == f.Secret.UID {
			if t := last(e); since == nil || t.After(*since) {
				since = &t
			}
		}
	}
	return since
}

// wait lists what has to happen before anything else does.
func (e *Explanation) wait(f Facts) {
	e.WaitsFor = []string{}
	add := func(format string, args ...any) { e.WaitsFor = append(e.WaitsFor, fmt.Sprintf(format, args...)) }
	if f.Secret != nil && e.State == Leaving {
		if by := controller.PausedBy(f.Secret, nil); by != "" {
			add("the end of the pause: its annotation %s holds the deletion", by)
		}
		for _, finalizer := range f.Secret.Finalizers {
			switch finalizer {
			case controller.Finalizer(keysmith.SecretName), key.FinalizerAivenator:
				add("the finalizer %s: keysmith takes its users back first", finalizer)
			default:
				add("the finalizer %s, which is not keysmith's", finalizer)
			}
		}
	}
	for _, r := range e.AskedForBy {
		switch {
		case r.PausedBy != "":
			add("application %s, whose annotation %s stops all work on it", r.Application, r.PausedBy)
		case e.State == Present && e.Owner != "" && !r.Owner:
			add("application %s waits in vain: the Secret belongs to application %s", r.Application, e.Owner)
		case r.Ready == string(metav1.ConditionTrue):
		case r.Reason == "":
			add("application %s, which keysmith has not looked at yet", r.Application)
		default:
			add("application %s, which is not ready: %s: %s", r.Application, r.Reason, r.Message)
		}
	}
}

// events are the latest ones, newest first.
func events(list []corev1.Event) []Event {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b corev1.Event) int { return last(b).Compare(last(a)) })
	out := []Event{}
	for _, e := range list[:min(len(list), latest)] {
		out = append(out, Event{
			Last: last(e), Type: e.Type, Reason: e.Reason, Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Message: e.Message,
		})
	}
	return out
}

// last is when an event was last seen; each API for events has a field of its own for that.
func last(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
