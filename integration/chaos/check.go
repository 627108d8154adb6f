package chaos

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keysmith-io/keysmith/integration/demand"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// Invariant names what must hold.
type Invariant string

// The invariants.
const (
	Ready       Invariant = "each application is Ready, or says rightly why not"
	Complete    Invariant = "each wanted Secret exists, complete"
	Accepted    Invariant = "the credentials in Secrets are accepted"
	Granted     Invariant = "users have exactly the rights that were asked for"
	OneSecret   Invariant = "each user of ours belongs to exactly one Secret"
	NoOrphanACL Invariant = "no ACL entry is without its user"
	Foreign     Invariant = "what is foreign is not touched"
	Tidy        Invariant = "Secrets that nobody uses go"
	NothingHung Invariant = "no deletion hangs"
	Overlap     Invariant = "a user that was replaced works until its time, and is gone afterwards"
	OneRotation Invariant = "no user is replaced while the one before it is there"
	OneWrite    Invariant = "a user is replaced in one write"
	InUse       Invariant = "no Secret that is in use is deleted"
	NoLoss      Invariant = "no update of OpenSearch ACLs is lost"
	NotBlind    Invariant = "no POST is repeated blindly"
	Patient     Invariant = "no request comes before Retry-After has passed"
	EndsWell    Invariant = "the operator ends only when it should, and then well"
	Silent      Invariant = "no credential, race or panic is in the operator's log"
)

// Violation is something that does not hold.
type Violation struct {
	Invariant Invariant
	Text      string

	// What it concerns: a namespace, objects in it and users at Aiven. Empty where it concerns all.
	Namespace      string
	Objects, Users []string

	at time.Time // when it happened; zero: it is so in the end
}

func (v Violation) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", v.Invariant, v.Namespace, v.Text))
}

// bindings are what an application of a namespace asks for.
func bindings(namespace string, s v1.AivenApplicationSpec) []demand.Bound {
	return demand.Bindings(Main, Pools[0], namespace, s)
}

// seen is what a namespace holds.
type seen struct {
	exists       bool
	applications []v1.AivenApplication
	secrets      []corev1.Secret
	uses         map[string][]string // workloads, as "Kind/name", by the Secret that they refer to
}

// stamp tells whether an object is the same as before.
type stamp struct {
	uid     types.UID
	version string
}

func stampOf(s *corev1.Secret) stamp { return stamp{s.UID, s.ResourceVersion} }

// foreigner is a user of somebody else, with the rights that it had at the start.
type foreigner struct {
	service *aivensim.Service
	user    aivensim.User
	kafka   []aivensim.KafkaACL
	search  []aivensim.OpenSearchACL
}

// second begins the names in the entries of a second writer of OpenSearch ACLs. They have no users, and are lost at times.
const second = "second-"

// state is everything that Check looks at.
type state struct {
	now        time.Time
	sim        *aivensim.Simulator
	models     map[string]*Model // by namespace
	seen       map[string]seen   // likewise
	strangers  map[string]stamp  // foreign Secrets and copies of ours that are still to be there, by "namespace/name"
	foreigners []foreigner
	excused    map[string]bool // users whose record somebody has destroyed
	forgotten  map[string]bool // users that were deleted when nobody could see their ACLs
}

// check returns everything that does not hold once all is settled.
func (s *state) check() []Violation {
	var out []Violation
	for _, namespace := range slices.Sorted(maps.Keys(s.models)) {
		out = append(out, s.checkNamespace(namespace)...)
	}
	out = append(out, s.checkUsers()...)
	out = append(out, s.checkACLs()...)
	return append(out, s.checkForeign()...)
}

func (s *state) checkNamespace(namespace string) []Violation {
	model, is := s.models[namespace], s.seen[namespace]
	var out []Violation
	add := func(i Invariant, objects []string, format string, args ...any) {
		out = append(out, Violation{Invariant: i, Text: fmt.Sprintf(format, args...), Namespace: namespace, Objects: objects})
	}
	if !model.Exists {
		if is.exists {
			add(NothingHung, nil, "the namespace is still there, with %d Secrets and %d applications", len(is.secrets), len(is.applications))
		}
		return out
	}
	for _, app := range slices.Sorted(maps.Keys(model.Applications)) {
		out = append(out, s.checkApplication(namespace, app, model.Applications[app])...)
	}
	for i := range is.applications {
		app := &is.applications[i]
		if _, wanted := model.Applications[app.Name]; !wanted || !app.DeletionTimestamp.IsZero() {
			add(NothingHung, []string{app.Name}, "application %s is still there, with finalizers %q: %s", app.Name, app.Finalizers, describe(app))
		}
	}
	for i := range is.secrets {
		secret := &is.secrets[i]
		owner := ownerOf(secret)
		spec, exists := model.Applications[owner]
		asked := exists && slices.ContainsFunc(bindings(namespace, spec), func(b demand.Bound) bool { return b.Secret == secret.Name })
		switch {
		case owner == "":
		case !secret.DeletionTimestamp.IsZero():
			add(NothingHung, []string{secret.Name, owner}, "Secret %s is still there, with finalizers %q", secret.Name, secret.Finalizers)
		case !asked && len(is.uses[secret.Name]) == 0 && secret.Annotations["aivenator.aiven.nais.io/protected"] != "true":
			add(Tidy, []string{secret.Name, owner}, "nobody uses Secret %s of %s, which is still there", secret.Name, owner)
		}
	}
	return out
}

// ownerOf is the application that a Secret proves to belong to. One that has lost its proof is as the earlier operator left it.
func ownerOf(s *corev1.Secret) string {
	if s.Labels["type"] != "aivenator.aiven.nais.io" {
		return ""
	}
	if owner, ok := s.Annotations["keysmith.io/owner"]; ok {
		return key.OwnedBy(owner, s.Namespace, s.Name)
	}
	return s.Labels["app"]
}

func describe(app *v1.AivenApplication) string {
	text := "no condition Ready"
	for _, c := range app.Status.Conditions {
		if c.Type == v1.ConditionReady {
			text = fmt.Sprintf("Ready=%s %s %s", c.Status, c.Reason, c.Message)
		}
	}
	for _, b := range app.Status.Bindings {
		text += fmt.Sprintf("; %s/%s in %s: %s %s", b.Project, b.Service, b.SecretName, b.Username, b.State)
	}
	return text
}

// checkApplication looks at an application that should be there, and at its Secrets.
func (s *state) checkApplication(namespace, name string, spec v1.AivenApplicationSpec) []Violation {
	is := s.seen[namespace]
	i := slices.IndexFunc(is.applications, func(a v1.AivenApplication) bool { return a.Name == name })
	if i < 0 {
		return []Violation{{Invariant: Ready, Text: "application " + name + " is gone", Namespace: namespace, Objects: []string{name}}}
	}
	app := &is.applications[i]
	var out []Violation
	var why []string // it may not be Ready
	var secrets []string
	for _, b := range bindings(namespace, spec) {
		secrets = append(secrets, b.Secret)
		j := slices.IndexFunc(is.secrets, func(o corev1.Secret) bool { return o.Name == b.Secret })
		switch {
		case b.Project == ForbiddenPool:
			why = append(why, "PoolNotAllowed")
		case j >= 0 && ownerOf(&is.secrets[j]) != name:
			why = append(why, "SecretNotOwned")
		case j < 0:
			out = append(out, Violation{Invariant: Complete, Text: fmt.Sprintf("Secret %s of %s is missing: %s", b.Secret, name, describe(app)),
				Namespace: namespace, Objects: []string{name, b.Secret}})
		default:
			out = append(out, s.checkSecret(namespace, name, b, &is.secrets[j])...)
		}
	}
	c := v1.Condition{}
	for _, o := range app.Status.Conditions {
		if o.Type == v1.ConditionReady {
			c = o
		}
	}
	fits := c.Status == corev1.ConditionTrue && len(why) == 0 || c.Status == corev1.ConditionFalse && slices.Contains(why, c.Reason)
	if !fits || app.Status.ObservedGeneration != app.Generation {
		out = append(out, Violation{Invariant: Ready, Namespace: namespace, Objects: append(secrets, name),
			Text: fmt.Sprintf("application %s of generation %d, which has reasons %q not to be Ready, says of generation %d: %s",
				name, app.Generation, why, app.Status.ObservedGeneration, describe(app))})
	}
	return out
}

// checkSecret looks at what a Secret holds of one binding.
func (s *state) checkSecret(namespace, app string, b demand.Bound, secret *corev1.Secret) []Violation {
	nameKey, passwordKey, all := b.Keys()
	username := string(secret.Data[nameKey])
	var out []Violation
	add := func(i Invariant, format string, args ...any) {
		out = append(out, Violation{Invariant: i, Namespace: namespace, Objects: []string{app, secret.Name}, Users: []string{username},
			Text: fmt.Sprintf("Secret %s of %s, user %s of %s: ", secret.Name, app, username, b.Service) + fmt.Sprintf(format, args...)})
	}
	for _, k := range append(all, "AIVEN_CA", "AIVEN_SECRET_UPDATED") {
		if len(secret.Data[k]) == 0 {
			add(Complete, "%s is missing", k)
		}
	}
	service := s.sim.Service(b.Project, b.Service)
	if _, ok := service.User(username); !ok {
		add(Accepted, "there is no such user")
		return out
	}
	if !service.Accepts(username, string(secret.Data[passwordKey])) {
		add(Accepted, "the password is refused")
	}
	if b.Kind == aivensim.Kafka && !service.AcceptsCertificate(username, string(secret.Data["KAFKA_CERTIFICATE"]), string(secret.Data["KAFKA_PRIVATE_KEY"])) {
		add(Accepted, "certificate and key are refused")
	}
	users := []string{username}
	for _, o := range outgoingOf(secret) {
		if _, ok := service.User(o.User); ok && o.isAbout(b) && o.User != username {
			users = append(users, o.User)
		}
	}
	for _, name := range users {
		for _, text := range b.Rights(service, name) {
			add(Granted, "%s has %s", name, text)
		}
	}
	return out
}

// holder is an object that names a user.
type holder struct{ namespace, object string }

// checkUsers compares the users that there are with those that Secrets hold and applications record.
func (s *state) checkUsers() []Violation {
	held, recorded := map[string][]holder{}, map[string][]holder{} // by "type/name"
	replaced := map[string][]time.Time{}                           // likewise: until when they work
	for namespace, is := range s.seen {
		for i := range is.secrets {
			secret := &is.secrets[i]
			if ownerOf(secret) == "" {
				continue
			}
			for kind, keys := range demand.Names {
				for _, k := range keys {
					if user := string(secret.Data[k]); user != "" {
						held[string(kind)+"/"+user] = append(held[string(kind)+"/"+user], holder{namespace, secret.Name})
					}
				}
			}
		}
		for i := range is.secrets {
			for id, until := range s.replacedIn(namespace, &is.secrets[i]) {
				replaced[id] = append(replaced[id], until)
			}
		}
		for i := range is.applications {
			for _, r := range is.applications[i].Status.Bindings {
				recorded[r.Kind+"/"+r.Username] = append(recorded[r.Kind+"/"+r.Username], holder{namespace, is.applications[i].Name})
			}
		}
	}
	var out []Violation
	for _, service := range s.services() {
		for _, u := range service.Users() {
			if u.Type != "normal" || s.isForeign(service, u.Username) || s.excused[u.Username] {
				continue
			}
			id := string(service.Type()) + "/" + u.Username
			v := Violation{Invariant: OneSecret, Users: []string{u.Username}}
			for _, h := range append(held[id], recorded[id]...) {
				v.Namespace, v.Objects = h.namespace, append(v.Objects, h.object)
			}
			switch n := len(held[id]); {
			case n == 0 && len(replaced[id]) == 1:
				if until := replaced[id][0]; until.After(s.now) {
					continue
				}
				v.Invariant = Overlap
				v.Text = fmt.Sprintf("user %s of %s was to work until %s, and is there at %s", u.Username, service.Name(), replaced[id][0].UTC().Format(time.TimeOnly), s.now.UTC().Format(time.TimeOnly))
			case n+len(replaced[id]) > 1:
				v.Text = fmt.Sprintf("user %s of %s is in %v, and was replaced in %d", u.Username, service.Name(), held[id], len(replaced[id]))
			case n == 0:
				v.Text = fmt.Sprintf("user %s of %s is in no Secret; statuses that record it: %v", u.Username, service.Name(), recorded[id])
			default:
				continue
			}
			out = append(out, v)
		}
	}
	return out
}

// replacedIn are the users that were replaced in a Secret of ours, by "type/name", and until when they work: as it says, or for ever where no application
// is left to count the time.
func (s *state) replacedIn(namespace string, secret *corev1.Secret) map[string]time.Time {
	out := map[string]time.Time{}
	owner := ownerOf(secret)
	if owner == "" {
		return out
	}
	for _, o := range outgoingOf(secret) {
		asked := slices.ContainsFunc(bindings(namespace, s.models[namespace].Applications[owner]), func(b demand.Bound) bool { return b.Secret == secret.Name && o.isAbout(b) })
		until := o.Until
		if !asked {
			until = s.now.Add(time.Hour)
		}
		out[string(o.Kind)+"/"+o.User] = until
	}
	return out
}

func (s *state) services() []*aivensim.Service {
	var out []*aivensim.Service
	for _, p := range s.sim.Projects() {
		out = append(out, p.Services()...)
	}
	return out
}

func (s *state) isForeign(service *aivensim.Service, username string) bool {
	return strings.HasPrefix(username, second) ||
		slices.ContainsFunc(s.foreigners, func(f foreigner) bool { return f.service == service && f.user.Username == username })
}

// checkACLs looks for entries whose user is gone.
func (s *state) checkACLs() []Violation {
	var out []Violation
	for _, service := range s.services() {
		for _, name := range service.Gauges().OrphanACLs {
			if !s.isForeign(service, name) && !s.excused[name] && !s.forgotten[name] {
				out = append(out, Violation{Invariant: NoOrphanACL, Users: []string{name}, Text: fmt.Sprintf("%s has entries of %s, which does not exist", service.Name(), name)})
			}
		}
	}
	return out
}

// checkAnswers looks for users in use that do not answer a wish for new ones, although none waits for the end of the one before.
func (s *state) checkAnswers(wish string) []Violation {
	var out []Violation
	for _, namespace := range slices.Sorted(maps.Keys(s.seen)) {
		for i := range s.seen[namespace].applications {
			app := &s.seen[namespace].applications[i]
			for _, r := range app.Status.Bindings {
				waits := slices.ContainsFunc(app.Status.Bindings, func(o v1.Binding) bool {
					return o.RetiresAt != nil && o.Kind == r.Kind && o.Project == r.Project && o.Instance == r.Instance && o.SecretName == r.SecretName
				})
				if r.State == "Ready" && r.RotationRequest != wish && !waits {
					out = append(out, Violation{Invariant: Ready, Namespace: namespace, Objects: []string{app.Name, r.SecretName}, Users: []string{r.Username},
						Text: fmt.Sprintf("user %s in %s was not replaced on demand: %s", r.Username, r.SecretName, describe(app))})
				}
			}
		}
	}
	return out
}

// checkForeign compares everything foreign with what it was.
func (s *state) checkForeign() []Violation {
	var out []Violation
	for _, f := range s.foreigners {
		add := func(format string, args ...any) {
			out = append(out, Violation{Invariant: Foreign, Users: []string{f.user.Username}, Text: f.service.Name() + ": " + fmt.Sprintf(format, args...)})
		}
		if u, ok := f.service.User(f.user.Username); !ok {
			add("user %s is gone", f.user.Username)
		} else if !reflect.DeepEqual(u, f.user) {
			add("user %s is another one than it was", f.user.Username)
		}
		acls := f.service.KafkaACLs()
		for _, e := range f.kafka {
			if !slices.Contains(acls, e) {
				add("entry %+v is gone", e)
			}
		}
		doc := f.service.OpenSearchACLs()
		for _, e := range f.search {
			if !slices.ContainsFunc(doc.ACLs, func(o aivensim.OpenSearchACL) bool { return reflect.DeepEqual(o, e) }) {
				add("entry %+v is gone or changed", e)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.strangers)) {
		namespace, name, _ := strings.Cut(id, "/")
		is := s.seen[namespace]
		i := slices.IndexFunc(is.secrets, func(o corev1.Secret) bool { return o.Name == name })
		v := Violation{Invariant: Foreign, Namespace: namespace, Objects: []string{name}}
		switch want := s.strangers[id]; {
		case i < 0:
			v.Text = "foreign Secret " + name + " is gone"
		case want.version != "" && stampOf(&is.secrets[i]) != want, is.secrets[i].UID != want.uid:
			v.Text = "foreign Secret " + name + " was changed"
		default:
			continue
		}
		out = append(out, v)
	}
	return out
}
